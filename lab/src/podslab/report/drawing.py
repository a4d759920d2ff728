"""How all figures of the project look: colours, lines, labels, files."""

import io
import textwrap
import zlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from scipy import optimize

INK, SOFT, GRID = "#1f2933", "#5f6b76", "#e3e6e8"
#: Colours that the colour-blind can tell apart: Okabe and Ito's, then Tol's.
COLOURS = (
    *("#D55E00", "#E69F00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#8B5A2B"),
    *("#332288", "#999933", "#882255", "#44AA99", "#6F6F6F"),
)
#: Arms that have the same colour in every figure; others get one of the rest by their name.
_FIXED = ("grpo", "grpo_ga", "pods", "max_reward", "random", "percentile")
_DASHES = ("-", (0, (5, 1.5)), "-", (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (6, 1, 1, 1, 1, 1)))
_MARKERS = "sDo^vPX*<>ph"
_STYLE = {
    "font.size": 10.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.grid": True,
    "grid.color": GRID,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "path",
    "svg.hashsalt": "podsrl",  # the same figure gives the same file
}


class Look(NamedTuple):
    """How one arm is drawn, apart from others in colour, dashes and marker."""

    color: str
    dashes: object
    marker: str


class Label(NamedTuple):
    """A name beside the axes, for the line that ends at (x, y)."""

    text: str
    x: float
    y: float
    color: str


def style() -> AbstractContextManager[None]:
    """The looks that all figures of the project share."""
    return mpl.rc_context(_STYLE)  # type: ignore[arg-type]


def render(figure: Figure, kind: str) -> bytes:
    """A figure as "png" or "svg"; the same figure always gives the same bytes."""
    buffer = io.BytesIO()
    with style():
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
    return buffer.getvalue()


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each arm: its own in every figure, unless another arm beside it has it already."""
    names = list(names)
    slots = {name: _FIXED.index(name) for name in names if name in _FIXED}
    first = [*range(len(_FIXED), len(COLOURS)), *range(len(_FIXED))]
    for name in sorted(set(names) - set(slots)):
        free = [slot for slot in first if slot not in slots.values()]
        spare = [slot for slot in free if slot >= len(_FIXED)] or free
        slots[name] = spare[zlib.crc32(name.encode()) % len(spare)] if free else len(slots)
    return {name: look(slots[name]) for name in names}


def look(slot: int) -> Look:
    """One of the looks, by number."""
    colour = COLOURS[slot % len(COLOURS)]
    for _ in range(slot // len(COLOURS)):
        colour = _shade(colour, 0.7)
    return Look(colour, _DASHES[slot % len(_DASHES)], _MARKERS[slot % len(_MARKERS)])


def wrapped(text: str, width: int = 16) -> str:
    """Text in which matplotlib finds no formula, in at most two short lines."""
    lines = textwrap.wrap(text, width) or [""]
    if len(lines) > 2:
        lines = [lines[0], f"{lines[1][: width - 1]}…"]
    return "\n".join(lines).replace("$", r"\$")


def label_ends(axes: Axes, labels: Sequence[Label]) -> None:
    """Write the names of lines beside the axes at the height of their ends, none over another.

    Call it when the limits of the axes are set.
    """
    low, high = axes.get_ylim()
    points = axes.figure.get_size_inches()[1] * 72.0 * axes.get_position().height  # type: ignore[union-attr]
    order = sorted(labels, key=lambda label: label.y)
    heights = [(1 + label.text.count("\n")) * 13.0 / points for label in order]
    wanted = [(label.y - low) / (high - low) for label in order]
    for label, height in zip(order, spread(wanted, heights), strict=True):
        axes.annotate(
            label.text,
            xy=(label.x, label.y),
            xytext=(1.04, height),
            textcoords="axes fraction",
            va="center",
            color=_shade(label.color, 0.8),
            fontsize=9.5,
            linespacing=1.0,
            annotation_clip=False,
            arrowprops={
                **{"arrowstyle": "-", "color": label.color, "shrinkA": 1, "alpha": 0.7},
                **{"lw": 0.8, "ls": (0, (1, 2)), "relpos": (0.0, 0.5)},
            },
        )


def spread(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Centres near the wanted ones (ascending), so far apart that things of these heights fit.

    The highest stay below 1 if they can.

    >>> [round(x, 2) for x in spread([0.5, 0.5, 0.9], [0.1, 0.1, 0.1])]
    [0.45, 0.55, 0.9]
    """
    # least squares under order constraints
    offsets = np.concatenate([[0.0], np.cumsum((np.array(heights[:-1]) + heights[1:]) / 2)])
    level = optimize.isotonic_regression(np.array(wanted) - offsets[: len(wanted)]).x
    highest = 1.0 - heights[-1] / 2 - offsets[len(wanted) - 1]
    return (np.minimum(level, highest) + offsets[: len(wanted)]).tolist()


def _shade(colour: str, share: float) -> str:
    """A colour made darker."""
    red, green, blue = to_rgb(colour)
    return to_hex((share * red, share * green, share * blue))
