"""Worth over the rollouts for each row, beside what they cost on some machines."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.worth import authors, ours
from benchmarks.worth.costs import SIZES, Machine, machines, worth
from podslab.report.drawing import COLOURS, INK, SOFT, style
from podslab.statistics.worth import Ratio


def draw() -> Figure:
    """Left worth and cost, right their quotient; both by n/m."""
    with style():
        figure = Figure(figsize=(11.0, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_worth(left)
        for machine, color in zip(machines(), COLOURS, strict=False):
            _draw_cost(left, machine, color)
            if machine.trains_3b:
                _draw_gain(right, machine, color)
        right.axhline(1.0, color=SOFT, linewidth=1.0)

        left.set(title="worth, and cost", ylabel="in steps of GRPO, n = m", yscale="log")
        left.set_yticks([0.7, 1, 1.5, 2, 3], ["0.7", "1", "1.5", "2", "3"])
        right.set(title="authors' worth / cost: pays above 1")
        for axes in (left, right):
            axes.set(xscale="log", xlabel="rollouts generated for each row, n/m")
            axes.set_xticks(SIZES, [str(size) for size in SIZES])
            axes.minorticks_off()
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_worth(axes: Axes) -> None:
    """The authors' sizes as a line with intervals, and single points beside it."""
    found = [authors.value(setting).worth for setting in authors.SIZES]
    draw_points(
        axes,
        list(SIZES[1:]),
        found,
        color=INK,
        marker="o",
        ls="",
        label="worth: GSM8K, the authors', m = 16",
    )
    axes.plot(SIZES, [worth(size) for size in SIZES], color=INK)

    math = authors.value(authors.MATH).worth
    draw_points(
        axes,
        [4.0 * 1.06],
        [math],
        color=SOFT,
        marker="s",
        ls="",
        label="worth: MATH, the authors', 32 → 8",
    )
    of_sets = [ours.value(stage, "pods").worth for stage in ours.SHORT]
    places = [4.0 * 1.06 ** (2 + place) for place in range(len(of_sets))]
    draw_points(
        axes, places, of_sets, color=SOFT, marker="^", ls="", label="worth: ours, 32 → 8, four sets"
    )


def draw_points(
    axes: Axes, places: Sequence[float], ratios: Sequence[Ratio | None], **look: Any
) -> None:
    """Values with their intervals, of which a figure may show a part."""
    known = [(place, one) for place, one in zip(places, ratios, strict=True) if one is not None]
    values = np.array([one.value for _, one in known])
    ends = np.array([(one.low or 0.0, one.high or np.inf) for _, one in known]).T
    axes.errorbar(
        [place for place, _ in known],
        values,
        yerr=np.abs(ends - values),
        linewidth=1.2,
        capsize=2,
        **look,
    )


def _draw_cost(axes: Axes, machine: Machine, color: str) -> None:
    axes.plot(
        list(machine.cost),
        list(machine.cost.values()),
        color=color,
        ls="--",
        linewidth=1.4,
        label=f"cost: {machine.name}",
    )
    measured = [size for size in machine.measured if size in machine.cost]
    axes.plot(measured, [machine.cost[size] for size in measured], color=color, ls="", marker="x")


def _draw_gain(axes: Axes, machine: Machine, color: str) -> None:
    gains = [machine.gain(size) for size in machine.cost]
    axes.plot(list(machine.cost), gains, color=color, marker=".")
