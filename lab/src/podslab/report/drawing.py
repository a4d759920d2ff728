"""The look of all figures of the project: colours, lines, labels, files."""

import io
import textwrap
import zlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

INK = "#1f2933"
SOFT = "#5f6b76"
GRID = "#e3e6e8"
#: Colours that the colour-blind can tell apart: Okabe and Ito's, then Tol's.
OKABE_ITO = ("#D55E00", "#E69F00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#8B5A2B")
TOL = ("#332288", "#999933", "#882255", "#44AA99", "#6F6F6F")
COLOURS = OKABE_ITO + TOL
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
    """The look of one arm, which differs from others in colour, dashes and marker."""

    color: str
    dashes: object
    marker: str


def style() -> AbstractContextManager[None]:
    """The looks that all figures of the project share."""
    return mpl.rc_context(_STYLE)  # type: ignore[arg-type]


def render(figure: Figure, kind: str) -> bytes:
    """A figure as "png" or "svg"; the same figure always gives the same bytes."""
    # What matplotlib writes of itself would change with the time or the version.
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
    return buffer.getvalue()


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each arm: its own in every figure, unless another arm beside it has it already."""
    names = list(names)
    slots = {name: _FIXED.index(name) for name in names if name in _FIXED}
    own_slots = range(len(_FIXED))  # of the arms with a fixed look, taken only where all are
    other_slots = range(len(_FIXED), len(COLOURS))
    for name in sorted(set(names) - set(slots)):
        taken = set(slots.values())
        free = [slot for slot in other_slots if slot not in taken]
        if not free:
            free = [slot for slot in own_slots if slot not in taken]

        # By the name, so that another figure with other arms gives it the same.
        digest = zlib.crc32(name.encode())
        slots[name] = free[digest % len(free)] if free else len(slots)
    return {name: look(slots[name]) for name in names}


def look(slot: int) -> Look:
    """One of the looks, by number; after all colours they come again, darker each time."""
    colour = COLOURS[slot % len(COLOURS)]
    for _ in range(slot // len(COLOURS)):
        red, green, blue = to_rgb(colour)
        colour = to_hex((0.7 * red, 0.7 * green, 0.7 * blue))
    return Look(colour, _DASHES[slot % len(_DASHES)], _MARKERS[slot % len(_MARKERS)])


def wrapped(text: str, width: int = 16) -> str:
    """Text in which matplotlib finds no formula, in at most two short lines."""
    lines = textwrap.wrap(text, width) or [""]
    if len(lines) > 2:
        lines = [lines[0], f"{lines[1][: width - 1]}…"]
    return "\n".join(lines).replace("$", r"\$")
