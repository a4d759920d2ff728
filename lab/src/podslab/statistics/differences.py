"""Paired differences between arms: intervals for few seeds, and what is certain of several arms."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from podslab.statistics.curves import Floats

#: How often an interval that is shown holds the truth.
LEVEL = 0.95
_RESAMPLES = 4999

BETTER, WORSE, OPEN = "better", "worse", "no difference shown"


@dataclass(frozen=True)
class Difference:
    """A mean paired difference between two arms.

    Args:
        mean: In the units of what is compared.
        low, high: The interval by Student's t over seeds, for these questions.
        wide_low, wide_high: The interval by a bootstrap over seeds and questions, for other
            questions of the kind, too.
        p: Of Student's t, two-sided; 1 with a single seed.
    """

    mean: float
    low: float
    high: float
    wide_low: float
    wide_high: float
    p: float


def difference(differences_S_Q: Floats, level: float = LEVEL) -> Difference:
    """The mean difference between two arms, paired by seeds and by questions.

    Args:
        differences_S_Q: Of each seed and question, shape (S, Q). NaN where an answer could not be
            scored; the mean of a seed is over the other questions.
        level: How often the intervals hold the truth.

    >>> found = difference(np.array([[1.0], [2.0], [3.0]]))
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)  # 2 -+ 4.303 / sqrt(3)
    (2.0, -0.484, 4.484)
    """
    is_known_Q = ~np.isnan(differences_S_Q).all(axis=0)
    differences_S_Q = differences_S_Q[:, is_known_Q]
    if differences_S_Q.size == 0:
        return Difference(math.nan, -math.inf, math.inf, -math.inf, math.inf, 1.0)

    of_seeds_S = np.nanmean(differences_S_Q, axis=1)
    of_seeds_S = of_seeds_S[~np.isnan(of_seeds_S)]
    low, high, p = _by_t(of_seeds_S, level)
    wide_low, wide_high = _by_bootstrap(differences_S_Q, level)
    return Difference(
        mean=float(of_seeds_S.mean()),
        low=low,
        high=high,
        wide_low=wide_low,
        wide_high=wide_high,
        p=p,
    )


def _by_t(values_S: Floats, level: float) -> tuple[float, float, float]:
    """The interval of a mean, and the p of its being 0, by Student's t."""
    from scipy import stats

    mean = float(values_S.mean())
    if len(values_S) < 2:
        return -math.inf, math.inf, 1.0
    if np.ptp(values_S) == 0:  # no spread, and t would divide by 0
        return mean, mean, float(mean == 0)
    test = stats.ttest_1samp(values_S, 0.0)
    interval = test.confidence_interval(level)
    return float(interval.low), float(interval.high), float(test.pvalue)


def _by_bootstrap(values_S_Q: Floats, level: float) -> tuple[float, float]:
    """The percentile interval of a mean over S seeds and Q questions, which cross.

    Seeds and questions are both drawn anew, independently: Owen's pigeonhole bootstrap (2007,
    doi:10.1214/07-AOAS122). With few seeds it is somewhat too narrow where they decide, and too
    wide where the questions do.
    """
    seeds, questions = values_S_Q.shape
    seeds_B_S = _shares_drawn(seeds)
    questions_B_Q = _shares_drawn(questions)

    is_known_S_Q = ~np.isnan(values_S_Q)
    total_B = ((seeds_B_S @ np.where(is_known_S_Q, values_S_Q, 0.0)) * questions_B_Q).sum(axis=1)
    if is_known_S_Q.all():
        means_B = total_B
    else:
        weight_B = ((seeds_B_S @ is_known_S_Q) * questions_B_Q).sum(axis=1)
        means_B = total_B / np.where(weight_B > 0, weight_B, np.nan)
    outside = 100 * (1 - level) / 2
    low, high = np.nanpercentile(means_B, [outside, 100 - outside])
    return float(low), float(high)


@lru_cache
def _shares_drawn(count: int) -> Floats:
    """The share that each of `count` has in each resample, shape (B, count)."""
    draw = np.random.default_rng(count)
    drawn: Floats = draw.multinomial(count, np.full(count, 1 / count), size=_RESAMPLES) / count
    return drawn


def holm(p_values: Sequence[float]) -> list[float]:
    """The p of several tests, adjusted so that any false alarm is as rare as that of one (Holm).

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]  # 3 x 0.01, 2 x 0.03, and not less: 0.06
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


@dataclass(frozen=True)
class Verdict:
    """A comparison's verdict on an arm beside the reference.

    Args:
        arm: The arm's name.
        difference: Its mean difference to the reference, with 95 % intervals.
        p: The p of that difference, adjusted for the number of arms.
        says: `BETTER`, `WORSE`, or `OPEN`.
    """

    arm: str
    difference: Difference
    p: float
    says: str


def verdicts(
    values: Mapping[str, Floats], reference: str, level: float = 0.05, margin: float = 0.0
) -> list[Verdict]:
    """Judge all arms beside the reference, so that one false alarm in all is as rare as `level`.

    An arm is better if its mean difference is at least `margin` above 0, its p by Student's t over
    seeds, adjusted by Holm for the number of arms, is below `level`, and its interval over seeds
    and questions at that level lies above 0. It is worse by the same rule turned round.

    Args:
        values: Of each arm, by its name: what is compared, of each seed and question, (S, Q). All
            arms have the same seeds and questions.
        reference: The name of the arm that the others are compared with.
        level: The chance of any false alarm; of the look, where there are several.
        margin: The least mean difference that counts.
    """
    shown = {}
    at_levels = {}
    for arm, values_S_Q in values.items():
        if arm != reference:
            shown[arm] = difference(values_S_Q - values[reference])
            at_levels[arm] = difference(values_S_Q - values[reference], 1 - level)

    adjusted = holm([one.p for one in shown.values()])
    found = []
    for (arm, at_level), p in zip(at_levels.items(), adjusted, strict=True):
        says = OPEN
        if p < level and abs(at_level.mean) >= margin:
            if at_level.wide_low > 0:
                says = BETTER
            elif at_level.wide_high < 0:
                says = WORSE
        found.append(Verdict(arm, shown[arm], p, says))
    return found


def not_there_yet(times_S: Sequence[float], end: float, at_T: Sequence[float]) -> list[float]:
    """The survival curve (Kaplan-Meier): the share of runs not yet at a level, at some times.

    Args:
        times_S: When each run got there; infinity for one that had not at the end.
        end: When the runs ended, where those are censored.
        at_T: The times at which the curve is read.

    >>> not_there_yet([15.0, 30.0, float("inf"), 30.0], 60.0, [15.0, 30.0, 60.0])
    [0.75, 0.25, 0.25]
    """
    from scipy import stats

    there = [time for time in times_S if time <= end]
    if not there:
        return [1.0] * len(at_T)
    censored = [end] * (len(times_S) - len(there))
    curve = stats.ecdf(stats.CensoredData(uncensored=there, right=censored)).sf
    return [float(value) for value in curve.evaluate(np.asarray(at_T, dtype=np.float64))]
