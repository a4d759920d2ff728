"""Greedy accuracy over training time, a panel for each set."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from benchmarks.comparison.outcomes import Result, curve
from podslab.report.drawing import Look, looks, style

#: Places on the axis of time at which curves are read.
_PLACES = 181
#: How far the intervals at the end stand from each other, as a share of the run.
_APART = 0.02


def draw(results: Mapping[str, Mapping[str, Sequence[Result]]]) -> Figure:
    """A line for each arm, the mean over its seeds; right of it the end, with 95 % by t over seeds.

    Args:
        results: The runs of each set and arm.
    """
    arms = list(dict.fromkeys(arm for by_arm in results.values() for arm in by_arm))
    with style():
        columns = min(2, len(results))
        rows = -(-len(results) // columns)
        drawn = Figure(figsize=(9.0, 3.4 * rows + 0.8), layout="constrained")
        panels = drawn.subplots(rows, columns, squeeze=False).flat
        for panel, (set_name, by_arm) in zip(panels, results.items(), strict=False):
            for place, (arm, look) in enumerate(looks(arms).items(), start=2):
                if arm in by_arm:
                    _draw_arm(panel, arm, look, by_arm[arm], place)
            panel.set_title(set_name)
            panel.set_xlabel("training time (s of one thread)")
            panel.set_ylabel("greedy answers right (%)")

        handles, labels = drawn.axes[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=9)
    return drawn


def _draw_arm(panel: Axes, arm: str, look: Look, results: Sequence[Result], place: int) -> None:
    """The curve of an arm, and its end at a place right of all curves."""
    seconds = float(results[0]["seconds"])
    times_T = np.linspace(0.0, seconds, _PLACES)
    curves = [curve(result, "greedy") for result in results]
    shares_S_T = np.array([[100 * one.value(time).mean() for time in times_T] for one in curves])
    mean_T = shares_S_T.mean(axis=0)
    panel.plot(times_T, mean_T, color=look.color, ls=look.dashes, label=arm)

    half = 0.0
    if len(results) > 1:
        half = stats.sem(shares_S_T[:, -1]) * stats.t.ppf(0.975, len(results) - 1)
    panel.errorbar(
        seconds * (1 + place * _APART),
        mean_T[-1],
        yerr=half,
        color=look.color,
        marker=look.marker,
        markersize=4,
        capsize=2,
        linewidth=1.2,
    )
