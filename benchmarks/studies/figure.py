"""What a step of PODS is worth, by n/m and by the share of right answers, in one figure."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.studies import by_ratio, outcome
from benchmarks.worth.figure import draw_points
from podslab.report.drawing import COLOURS, INK, SOFT, style

_MARKERS = "osD^v"
#: What lies between series whose intervals would hide one another, as a factor.
_ASIDE = 1.045


def draw() -> Figure:
    """Left by n/m, in the authors' runs and in the studies; right by the share that is right."""
    with style():
        figure = Figure(figsize=(11.0, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)

        _draw_ratios(left)
        left.set(xscale="log", xlabel="rollouts generated for each row, n/m")
        left.set_xticks(by_ratio.RATIOS, [str(ratio) for ratio in by_ratio.RATIOS])
        left.set(title="PODS by n/m", ylabel="worth of a step, in steps of GRPO")

        _draw_shares(right, "PODS, n/m = 4", outcome.PODS, INK, "o")
        _draw_shares(right, "rejection sampling", outcome.REJECTION, COLOURS[0], "^")
        right.set(title="by rarity: each study", xlabel="right before training, % of samples")

        for axes in (left, right):
            axes.set(yscale="log", ylim=(0.4, 9.0))
            axes.set_yticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
            axes.minorticks_off()
            axes.axhline(1.0, color=SOFT, linewidth=1.0)
            axes.legend(loc="upper left" if axes is left else "upper right", fontsize=9)
    return figure


def _draw_ratios(axes: Axes) -> None:
    every = by_ratio.series()
    for place, (one, color, marker) in enumerate(
        zip(every, (INK, *COLOURS), _MARKERS, strict=False)
    ):
        aside = _ASIDE ** (place - len(every) // 2)
        label = f"{one.questions}, m = {one.m}, {one.prompts} prompts"
        draw_points(
            axes,
            [ratio * aside for ratio in by_ratio.RATIOS],
            [one.values[ratio].worth for ratio in by_ratio.RATIOS],
            color=color,
            marker=marker,
            ls="-",
            elinewidth=1.0,
            label=label if one.prompts > 1 else label.removesuffix("s"),
        )


def _draw_shares(axes: Axes, label: str, arms: Sequence[str], color: str, marker: str) -> None:
    values = outcome.of_studies(arms)
    shares = [100 * outcome.right_at_first(study) for study in values]
    worths = [value.worth for value in values.values()]
    draw_points(
        axes, shares, worths, color=color, marker=marker, ls="", elinewidth=1.0, label=label
    )
