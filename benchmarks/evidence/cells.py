"""The map of `benchmarks/evidence`: where PODS pays, by how much, and whether that is foreseen.

A cell is one comparison: GRPO, GRPO-GA and PODS in one setting.
"""

import math
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from scipy.stats import bootstrap

from podslab.report.curves import ArmCurves, Clock
from podslab.report.drawing import Label, label_ends, look, style
from podslab.report.figures import LINES
from podslab.report.load_runs import Choices, load_comparison
from podslab.report.statistics import Speedup, mean_over_seeds, speed_up
from podslab.report.summary import interval, median, speed
from podsrl.errors import InvalidInputError
from podslab.recommend.measured_run import Measured, read_measured
from podslab.recommend.choice import grid
from podslab.recommend.costs import Costs, Sizes
from podslab.recommend.populations import Population
from podslab.recommend.signal import MEASURED as VARIANCES
from podslab.recommend.signal import Variances
from podsrl.rollout_log.run_folder import find_runs

#: Arms by the (n, m) that they train with.
ARMS = {"grpo": (16, 16), "grpo_ga": (64, 64), "pods": (64, 16)}
REFERENCES = ("grpo", "grpo_ga")
#: Seconds of update for each second of generation, a rollout; 8.4 is about the authors' L40S.
COSTS = (0.5, 1.0, 2.0, 4.0, 8.4, 16.0)
MEASURED = "measured"
#: The levels of `sooner`: shares of the way from the untrained model's accuracy to the best that
#: both arms get to. The last one counts where there is one number.
LEVELS = (0.25, 0.5, 0.75, 0.95)
LEVEL = LEVELS[-1]
#: How near to the best measured a choice is counted as right.
NEAR = 0.9


def speedup(
    population: Population,
    costs: Costs,
    arm: Sizes,
    reference: Sizes,
    variances: Variances = VARIANCES,
) -> float:
    """Predicted speed-up of one arm over another: the ratio of what they learn per second.

    >>> from podslab.recommend.populations import KnownRates
    >>> costs = Costs.of_rollouts(generate=0.05, update=0.42)
    >>> round(speedup(KnownRates((0.1,)), costs, Sizes(8, 8, 2), Sizes(1, 16, 16)), 2)
    2.11
    """
    one, other = grid(population, costs, (arm, reference), variances)
    if not other.worth:
        raise InvalidInputError(f"{reference} learns nothing of these prompts: no speed-up over it")
    return one.per_second / other.per_second


@dataclass(frozen=True)
class Cell:
    """One setting.

    speedups: as the authors define them, by reference and by clock: "measured", or the modelled
        cost of an update. sooner: by the same, how many times sooner PODS's mean curve gets to an
        accuracy that both arms get to; unlike a speed-up it always exists. predicted: the measured
        one from the model of docs/signal.md, by reference. pass_rate: mean over all rollouts.
        update_cost: seconds of update per second of generation, for a rollout of PODS.
    by_level: the measured `sooner` by reference and level. intervals: 95 % bootstrap interval over
        seeds of the measured `sooner`, by reference. spread: standard deviation over seeds of
        a run's mean accuracy, by arm.
    """

    speedups: Mapping[tuple[str, str], Speedup]
    sooner: Mapping[tuple[str, str], float]
    predicted: Mapping[str, float]
    pass_rate: float
    update_cost: float
    by_level: Mapping[tuple[str, float], float]
    intervals: Mapping[str, tuple[float, float]]
    spread: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "pass_rate": self.pass_rate,
            "update_cost": self.update_cost,
            "sooner": {", ".join(key): value for key, value in self.sooner.items()},
            "by_level": {
                f"{arm}, {level:g}": value for (arm, level), value in self.by_level.items()
            },
            "intervals": {arm: list(ends) for arm, ends in self.intervals.items()},
            "spread": dict(self.spread),
            "predicted": dict(self.predicted),
            "speedups": {
                ", ".join(key): {
                    "learned": s.learned,
                    "ratio": s.ratio,
                    "low": s.low,
                    "high": s.high,
                    "median": s.median,
                    "by_seed": s.by_seed,
                }
                for key, s in self.speedups.items()
            },
        }


def cell(folder: Path) -> Cell:
    """What a comparison shows, from its saved runs."""
    speedups, sooner, intervals, spread = {}, {}, {}, {}
    by_level: dict[tuple[str, float], float] = {}
    for cost in (None, *COSTS):
        clock = None if cost is None else Clock(generate=0.05, update=0.05 * cost)
        comparison = load_comparison([folder], Choices(references=REFERENCES, clock=clock))
        curves = {arm: comparison.arm(arm).curves for arm in ARMS}
        for reference in REFERENCES:
            pair = equally_long(curves[reference], curves["pods"])
            key = (reference, MEASURED if cost is None else f"{cost:g}")
            speedups[key], sooner[key] = speed_up(*pair), times_sooner(*pair)
            if cost is None:
                by_level |= {(reference, at): times_sooner(*pair, at) for at in LEVELS}
                intervals[reference] = sooner_interval(*pair)
        if cost is None:
            spread = {arm: float(mean_accuracy(own).std(ddof=1)) for arm, own in curves.items()}
    found = read_measured(*(run for arm in ARMS for run in find_runs(folder / arm)))
    return Cell(
        speedups,
        sooner,
        predictions(found),
        found.mean_reward,
        _update_cost(found),
        by_level,
        intervals,
        spread,
    )


def with_interval(found: Speedup) -> str:
    """A speed-up with its interval over seeds, or why there is none."""
    said = speed(found)
    return f"{said} ({interval(found)})" if found.ratio else said


def mean_accuracy(curves: ArmCurves) -> npt.NDArray[np.float64]:
    """Of each seed, over all evaluations but the first: what it learned, early and late."""
    return np.asarray(np.nanmean(curves.accuracy[:, 1:], axis=1))


def predictions(found: Measured) -> dict[str, float]:
    """PODS's speed-up by the model, from measured costs and rewards alone, by reference."""
    arms = {arm: Sizes(found.now.prompts, *size) for arm, size in ARMS.items()}
    return {
        reference: speedup(found.population, found.costs, arms["pods"], arms[reference])
        for reference in REFERENCES
    }


def _update_cost(found: Measured) -> float:
    sizes = Sizes(found.now.prompts, *ARMS["pods"])
    phases = found.costs.phases(sizes)
    return (phases["update"] / sizes.rows) / (phases["generate"] / sizes.rollouts)


def equally_long(reference: ArmCurves, arm: ArmCurves) -> tuple[ArmCurves, ArmCurves]:
    """The curves up to the time that both last: replayed ones end at different times."""
    ends = [float(np.nanmax(mean_over_seeds(curves.seconds))) for curves in (reference, arm)]
    last = min(ends) * 1.02  # an evaluation waits for its step to end

    def cut(curves: ArmCurves) -> ArmCurves:
        late = mean_over_seeds(curves.seconds) > last
        return replace(
            curves,
            seconds=np.where(late, np.nan, curves.seconds),
            accuracy=np.where(late, np.nan, curves.accuracy),
        )

    return cut(reference), cut(arm)


def times_sooner(reference: ArmCurves, arm: ArmCurves, level: float = LEVEL) -> float:
    """t_reference / t_arm to a level (see `LEVELS`); between evaluations by a straight line."""
    pairs = [
        (mean_over_seeds(curves.seconds), mean_over_seeds(curves.accuracy))
        for curves in (reference, arm)
    ]
    untrained = float(pairs[0][1][0])
    best = min(float(np.nanmax(accuracy)) for _, accuracy in pairs)
    goal = untrained + level * (best - untrained)
    seconds = [_reached(seconds, accuracy, goal) for seconds, accuracy in pairs]
    return seconds[0] / seconds[1] if seconds[1] else math.nan


def sooner_interval(reference: ArmCurves, arm: ArmCurves) -> tuple[float, float]:
    """95 % bootstrap interval of `times_sooner` over seeds, which are resampled in pairs."""

    def ratio(index: npt.NDArray[np.intp]) -> float:
        return times_sooner(_resampled(reference, index), _resampled(arm, index))

    found = bootstrap(
        (np.arange(len(arm.seeds)),),
        ratio,
        vectorized=False,
        method="percentile",
        n_resamples=1999,
        rng=np.random.default_rng(0),
    )
    low, high = found.confidence_interval
    return float(low), float(high)


def _resampled(curves: ArmCurves, index: npt.NDArray[np.intp]) -> ArmCurves:
    return replace(curves, seconds=curves.seconds[index], accuracy=curves.accuracy[index])


def _reached(seconds: Any, accuracy: Any, level: float) -> float:
    after = int(np.argmax(np.nan_to_num(accuracy, nan=-1.0) >= level))
    if after == 0:
        return float(seconds[0])
    share = (level - accuracy[after - 1]) / (accuracy[after] - accuracy[after - 1])
    return float(seconds[after - 1] + share * (seconds[after] - seconds[after - 1]))


def typical_factor(pairs: Iterable[tuple[float, float]]) -> float:
    """By how much (predicted, measured) differ: exp of the mean |log ratio|, 1 where they agree."""
    return math.exp(float(np.mean([abs(math.log(a / b)) for a, b in pairs])))


def as_markdown(table: Mapping[str, Cell]) -> str:
    """Where PODS pays, measured and modelled, and what was foreseen."""
    labels = [MEASURED, *(f"{cost:g}" for cost in COSTS)]
    lines = [
        "## The map\n",
        "Speed-up of PODS to 99 % of the reference's best accuracy (95 % interval; median over"
        " seeds). *Measured* is training time here. The other columns are modelled: the same"
        " curves at an update that costs this many times a rollout's generation (8.4 is about the"
        " authors' L40S, where one pass is made), with all passes, up to the time that both arms"
        " last.\n",
    ]
    for reference in REFERENCES:
        lines += [f"### Over {reference}\n", "| |" + "|".join(labels) + "|"]
        lines.append("|---|" + "---|" * len(labels))
        for name, found in table.items():
            texts = []
            for label in labels:
                s = found.speedups[reference, label]
                texts.append(f"{speed(s)} ({interval(s)}; {median(s)})")
            lines.append(f"| {name} |" + "|".join(texts) + "|")
        lines.append("")
    return "\n".join(
        [
            *lines,
            f"How many times sooner PODS's mean curve has covered {LEVEL:.0%} of the way from the"
            " untrained accuracy to the best that both reach, by the modelled cost of an update:\n",
            "![map](map.png)\n",
            *_levels_markdown(table),
            *_foreseen_markdown(table),
        ]
    )


def _levels_markdown(table: Mapping[str, Cell]) -> list[str]:
    lines = [
        "### Early and late, and how alike the seeds are\n",
        "How many times sooner PODS has covered that share of the way (measured time), and the"
        " standard deviation over seeds of a run's mean accuracy.\n",
        "| | over |" + "|".join(f"{level:.0%}" for level in LEVELS) + "| spread of PODS | of it |",
        "|---|---|" + "---|" * (len(LEVELS) + 2),
    ]
    lines += [
        f"| {name} | {reference} |"
        + "|".join(f"{found.by_level[reference, level]:.2f}" for level in LEVELS)
        + f"| {found.spread['pods']:.1%} | {found.spread[reference]:.1%} |"
        for name, found in table.items()
        for reference in REFERENCES
    ]
    return [*lines, ""]


def _foreseen_markdown(table: Mapping[str, Cell]) -> list[str]:
    lines = [
        "## Foreseen?\n",
        f"How many times sooner PODS's mean curve has covered {LEVEL:.0%} of the way, beside what"
        " [the model](../signal.md) predicts from the costs and rewards of the same runs.\n",
        "| | over | mean reward | update cost | predicted | sooner |",
        "|---|---|---|---|---|---|",
    ]
    pairs = []
    for name, found in table.items():
        for reference in REFERENCES:
            pair = found.predicted[reference], found.sooner[reference, MEASURED]
            pairs.append(pair)
            lines.append(
                f"| {name} | {reference} | {found.pass_rate:.2f} | {found.update_cost:.1f} |"
                f" {pair[0]:.2f} | {pair[1]:.2f} |"
            )
    factor = typical_factor(pairs)
    return [*lines, "", f"Typical factor between prediction and measurement: {factor:.2f}.\n"]


def figure(table: Mapping[str, Cell]) -> Figure:
    """The map as curves: how much sooner against the cost of an update, one line per setting."""
    looks = {name: look(place) for place, name in enumerate(table)}
    shares = np.array_split(list(table), -(-len(table) // LINES))
    panels = [(reference, names) for reference in REFERENCES for names in shares]
    with style():
        drawn = Figure(figsize=(7.0, 2.9 * len(panels)), layout="constrained")
        rows = np.atleast_1d(drawn.subplots(len(panels), 1, sharex=True, sharey=True))
        rows[-1].set_xlabel("modelled seconds of update per second of generation")
        rows[0].set_xscale("log", base=2)
        rows[0].xaxis.set_major_formatter("{x:g}")
        for cell in table.values():  # the limits, before names are placed by them
            rows[0].plot(COSTS, [cell.sooner[REFERENCES[0], f"{c:g}"] for c in COSTS], alpha=0)
            rows[0].plot(COSTS, [cell.sooner[REFERENCES[-1], f"{c:g}"] for c in COSTS], alpha=0)
        rows[0].set_ylim(rows[0].get_ylim())
        for axes, (reference, names) in zip(rows, panels, strict=True):
            axes.set(title=f"Over {reference}", ylabel="times sooner")
            axes.axhline(1.0, color="#4D4D4D", lw=1.0)
            ends = []
            for name in map(str, names):
                color, dashes, marker = looks[name]
                ratios = [table[name].sooner[reference, f"{cost:g}"] for cost in COSTS]
                axes.plot(COSTS, ratios, color=color, ls=dashes, marker=marker)
                ends.append(Label("\n".join(textwrap.wrap(name, 28)), COSTS[-1], ratios[-1], color))
            label_ends(axes, ends)
    return drawn
