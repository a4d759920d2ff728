"""The verdict of `benchmarks/evidence`: a table and a figure of every setting at one glance."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from benchmarks.evidence.cells import LEVEL, MEASURED, REFERENCES, Cell
from podsrl.analysis.summary import interval, times

#: What the interval of `sooner` says, and its colour.
FASTER, OPEN, SLOWER = "faster", "undecided", "slower"
COLORS = {FASTER: "#0072B2", OPEN: "#7F7F7F", SLOWER: "#D55E00"}


def verdict(low: float, high: float) -> str:
    """What a 95 % interval of times as fast says: whether it lies on one side of 1.

    >>> verdict(1.2, 2.0), verdict(0.8, 1.1), verdict(0.5, 0.9)
    ('faster', 'undecided', 'slower')
    """
    return FASTER if low > 1 else SLOWER if high < 1 else OPEN


def as_markdown(table: Mapping[str, Cell]) -> str:
    """Times as fast and the speed-up, each with its interval, and the verdict."""
    lines = [
        "## In short\n",
        f"PODS 64 → 16 beside GRPO 16/16 (`grpo`) and GRPO-GA 64/64 (`grpo_ga`). *Times as fast*:"
        f" to {LEVEL:.0%} of the way from the untrained accuracy to the best that both arms reach."
        " *Speed-up*: to 99 % of the reference's best, as the authors define it. Both with the"
        " 95 % bootstrap interval over seeds. The verdict says on which side of 1 the interval of"
        " the first one lies.\n",
        "![How many times as fast PODS is, in every setting](verdict.png)\n",
        "| setting | over | times as fast | verdict | speed-up | median over seeds |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in table.items():
        for reference in REFERENCES:
            low, high = found.intervals[reference]
            speedup = found.speedups[reference, MEASURED]
            lines.append(
                f"| {name} | {reference} | {found.sooner[reference, MEASURED]:.2f}"
                f" ({low:.2f} to {high:.2f}) | {verdict(low, high)} |"
                f" {times(speedup.ratio)} ({interval(speedup)}) | {times(speedup.median)} |"
            )
    return "\n".join([*lines, ""])


def figure(table: Mapping[str, Cell]) -> Figure:
    """Times as fast with its interval, one line a setting, one panel a reference."""
    drawn = Figure(figsize=(9.0, 1.2 + 0.4 * len(table)), layout="constrained")
    panels = drawn.subplots(1, len(REFERENCES), sharex=True, sharey=True)
    for axes, reference in zip(panels, REFERENCES, strict=True):
        for row, found in enumerate(table.values()):
            low, high = found.intervals[reference]
            color = COLORS[verdict(low, high)]
            axes.plot([low, high], [row, row], color=color, lw=2.0)
            axes.plot(found.sooner[reference, MEASURED], row, "o", color=color)
        axes.axvline(1.0, color="#4D4D4D", lw=1.0)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_title(f"over {reference}")
    drawn.supxlabel("times as fast (95 % interval over seeds)", fontsize="medium")
    panels[0].set_yticks(range(len(table)), list(table), fontsize=8)
    panels[0].invert_yaxis()
    return drawn
