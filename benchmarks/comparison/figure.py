"""Greedy accuracy over training time, a panel for each set."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from benchmarks.comparison.outcomes import Result, curve
from podslab.report.drawing import looks, style

#: Places on the axis of time at which curves are read.
_PLACES = 181


def draw(results: Mapping[str, Mapping[str, Sequence[Result]]]) -> Figure:
    """A line for each arm, the mean over its seeds.

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
            for arm, look in looks(arms).items():
                if arm not in by_arm:
                    continue
                seconds = float(by_arm[arm][0]["seconds"])
                times = np.linspace(0.0, seconds, _PLACES)
                curves = [curve(result, "greedy") for result in by_arm[arm]]
                mean = [np.mean([one.value(time).mean() for one in curves]) for time in times]
                panel.plot(times, 100 * np.array(mean), color=look.color, ls=look.dashes, label=arm)
            panel.set_title(set_name)
            panel.set_xlabel("training time (s of one thread)")
            panel.set_ylabel("greedy answers right (%)")

        handles, labels = drawn.axes[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=9)
    return drawn
