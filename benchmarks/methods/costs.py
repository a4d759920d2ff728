"""How many times as fast the methods are where generating costs more: replayed, and predicted."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from podslab.recommend.choice import grid, splits
from podslab.recommend.costs import Batch, Costs
from podslab.recommend.populations import KnownRates
from podslab.recommend.what_pays import what_pays
from podslab.report.curves import ArmCurves, Clock
from podslab.report.drawing import INK, OKABE_ITO, style
from podslab.report.statistics import speed_up

#: Seconds of generating a rollout, where a pass over a row takes one.
RATIOS = (0.05, 0.12, 0.27, 1.0, 2.0)
#: Pass rates before training in the settings with few prompts: 2 to 7 columns, 256 rollouts each.
FEW = KnownRates((0.73, 0.62, 0.46, 0.38, 0.0, 0.0))
#: The settings whose runs are replayed.
RATES = {"few-512": FEW, "few-4000": FEW}
_PREDICTED = {"drop": "best-4-steps", "choose": "grpo-8-thompson", "both": "best-4-steps-thompson"}


def replayed(found: Mapping[str, ArmCurves], grpo: str) -> dict[str, dict[str, float | None]]:
    """Times as fast as GRPO by g/u, one of `RATIOS`; None where its level is not reached."""
    clocks = {f"{ratio:g}": Clock(generate=ratio, update=1.0) for ratio in RATIOS}
    return {
        key: {g: speed_up(found[grpo].replay(at), one.replay(at)).ratio for g, at in clocks.items()}
        for key, one in found.items()
        if key != grpo
    }


def predicted(setting: str, rows: int) -> dict[str, list[float]]:
    """The same by the model behind `pods recommend`, at its own best n, by the method it is of."""
    sizes, times = splits(rows), [Costs.of_rollouts(ratio, 1.0) for ratio in RATIOS]
    rates = RATES[setting]
    pays = [what_pays(rates, at, grid(rates, at, sizes), Batch(rows)) for at in times]
    return {key: [getattr(one, what) for one in pays] for what, key in _PREDICTED.items()}


def figure(
    times: Mapping[str, Any], names: Mapping[str, str], foreseen: Mapping[str, Any]
) -> Figure:
    """A line for each method that reached the level; the prediction dashed, in its colour."""
    with style():
        drawn = Figure(figsize=(6.4, 4.6), layout="constrained")
        axes = drawn.subplots()
        reached = {key: values for key, values in times.items() if any(values.values())}
        for place, (key, values) in enumerate(reached.items()):
            colour = OKABE_ITO[place % len(OKABE_ITO)]
            known = [value or float("nan") for value in values.values()]
            axes.plot(RATIOS, known, "o-", color=colour, label=names[key])
            if key in foreseen:
                axes.plot(RATIOS, foreseen[key], "--", color=colour)
        axes.axhline(1.0, color=INK, lw=1.0)
        axes.set_xscale("log")
        axes.set_xticks(RATIOS, [f"{ratio:g}" for ratio in RATIOS])
        axes.set(xlabel="g/u", ylabel="times as fast as the best GRPO", ylim=0)
        axes.legend(fontsize=9, loc="lower left", bbox_to_anchor=(-0.05, 1.0))
    return drawn
