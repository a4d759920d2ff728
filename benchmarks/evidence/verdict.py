"""The verdict of `benchmarks/evidence`: a table and a figure of every setting at one glance."""

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.evidence.cells import LEVEL, MEASURED, REFERENCES, Cell
from podslab.report.drawing import INK, style
from podslab.report.statistics import Speedup
from podslab.report.summary import NOT_LEARNED, interval, median, speed

#: What the interval of a speed-up says, and its colour.
FASTER, OPEN, SLOWER = "faster", "undecided", "slower"
COLORS = {FASTER: "#0072B2", OPEN: "#7F7F7F", SLOWER: "#D55E00", NOT_LEARNED: "#7F7F7F"}
NAMES = {"grpo": "GRPO 16/16", "grpo_ga": "GRPO-GA 64/64"}
LABEL = "speed-up of PODS 64 → 16 to 99 % of the reference's best"
#: Where "not reached" is drawn, left of every ratio.
NEVER = 0.2


def verdict(found: Speedup) -> str:
    """What the 95 % interval of a speed-up says: whether it lies on one side of 1.

    An arm that does not get there within the time given counts as a speed-up of 0. Where the
    reference did not learn, there is no verdict.
    """
    if not found.learned:
        return NOT_LEARNED
    low, high = found.low or 0.0, found.high or 0.0
    return FASTER if low > 1 else SLOWER if high < 1 else OPEN


def by_reference(table: Mapping[str, Cell]) -> dict[str, dict[str, Speedup]]:
    """The panels of the figure."""
    return {
        f"Over {NAMES[one]}": {name: cell.speedups[one, MEASURED] for name, cell in table.items()}
        for one in REFERENCES
    }


def as_markdown(table: Mapping[str, Cell]) -> str:
    """The speed-up with its interval and verdict, and times as fast beside it."""
    lines = [
        "## In short\n",
        "PODS 64 → 16 beside GRPO 16/16 (`grpo`) and GRPO-GA 64/64 (`grpo_ga`). *Speed-up*: how"
        " many times sooner PODS reaches 99 % of the reference's best accuracy, as the authors"
        " define it. *Not reached*: it does not get there in the time given. *Nothing learned*: the"
        " reference's best is not above its start by more than the noise, so there is nothing to"
        " reach. The verdict says on which side of 1 its 95 % interval over seeds lies, where"
        f" *not reached* counts as 0. *Times as fast* is another measure: to {LEVEL:.0%} of the way"
        " from the untrained accuracy to the best that both arms reach; it always exists. All are"
        " taken up to the time that both arms last; the tables of single comparisons below are not,"
        " so that a ratio there can be higher.\n",
        "![Speed-up of PODS in every setting](verdict.png)\n",
        "| setting | over | speed-up | verdict | median over seeds | times as fast |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in table.items():
        for reference in REFERENCES:
            low, high = found.intervals[reference]
            speedup = found.speedups[reference, MEASURED]
            lines.append(
                f"| {name} | {reference} | {_loud(speedup)} ({interval(speedup)}) |"
                f" {verdict(speedup)} | {median(speedup)} |"
                f" {found.sooner[reference, MEASURED]:.2f} ({low:.2f} to {high:.2f}) |"
            )
    return "\n".join([*lines, ""])


def _loud(found: Speedup) -> str:
    return speed(found) if found.ratio else f"**{speed(found)}**"


def figure(panels: Mapping[str, Mapping[str, Speedup]], label: str) -> Figure:
    """Speed-ups with their intervals: one panel per title, side by side, one line per setting."""
    settings = list(next(iter(panels.values())))
    with style():
        drawn = Figure(
            figsize=(2.0 + 2.0 * len(panels), 1.1 + 0.38 * len(settings)), layout="constrained"
        )
        row = np.atleast_1d(drawn.subplots(1, len(panels), sharex=True, sharey=True))
        for axes, (title, of_setting) in zip(row, panels.items(), strict=True):
            for line, found in enumerate(of_setting.values()):
                color = COLORS[verdict(found)]
                ends = [max(end or 0.0, NEVER) for end in (found.low, found.high)]
                axes.plot(ends, [line, line], color=color, lw=2.0)
                axes.plot(found.ratio or NEVER, line, "o" if found.ratio else "x", color=color)
                if not found.ratio:
                    look: dict[str, Any] = {"color": color, "weight": "bold", "fontsize": 8}
                    place, by = (NEVER, line), (6, 4)
                    axes.annotate(speed(found), place, by, textcoords="offset points", **look)
            axes.axvline(1.0, color=INK, lw=1.0)
            axes.tick_params(axis="y", labelsize=8.5, labelcolor=INK)
            axes.set_title(title, fontsize=10)
            axes.tick_params(axis="x", labelsize=8.5)
        row[0].set_xscale("log", base=2)
        row[0].set_xticks([NEVER, 0.5, 1.0, 2.0, 4.0], ["never", "0.5x", "1x", "2x", "4x"])
        row[0].set_xlim(NEVER * 0.9, 4.4)
        row[0].set_yticks(
            range(len(settings)), ["\n".join(textwrap.wrap(one, 33)) for one in settings]
        )
        row[0].set_ylim(len(settings) - 0.5, -0.7)
        meaning = "(line: 95 % interval over seeds; blue: above 1, orange: below 1)"
        drawn.supxlabel(f"{label}\n{meaning}", fontsize="medium")
    return drawn
