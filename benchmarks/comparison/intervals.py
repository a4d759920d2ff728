"""Intervals for few seeds, and how long runs take to a level."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]

RESAMPLES = 4999


@dataclass(frozen=True)
class Difference:
    """A mean paired difference over seeds.

    Args:
        mean: In the units of what is compared.
        low, high: Its 95 % interval by Student's t over seeds.
        wide_low, wide_high: Its 95 % interval by a bootstrap over seeds and questions.
        p: Of Student's t, two-sided.
    """

    mean: float
    low: float
    high: float
    wide_low: float
    wide_high: float
    p: float


def difference(differences_S_Q: Floats) -> Difference:
    """The mean difference between two arms, paired by seeds and by questions.

    Args:
        differences_S_Q: Of each seed and question, shape (S, Q); S >= 2.

    >>> found = difference(np.array([[1.0], [2.0], [3.0]]))
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)  # 2 -+ 4.303 / sqrt(3)
    (2.0, -0.484, 4.484)
    """
    of_seeds_S = differences_S_Q.mean(axis=1)
    low, high, p = _by_t(of_seeds_S)
    wide_low, wide_high = _by_bootstrap(differences_S_Q)
    return Difference(
        mean=float(of_seeds_S.mean()),
        low=low,
        high=high,
        wide_low=wide_low,
        wide_high=wide_high,
        p=p,
    )


def _by_t(values_S: Floats) -> tuple[float, float, float]:
    """The 95 % interval of a mean, and the p of its being 0, by Student's t."""
    mean = float(values_S.mean())
    if np.ptp(values_S) == 0:  # no spread, of which t would divide by 0
        return mean, mean, float(mean == 0)
    test = stats.ttest_1samp(values_S, 0.0)
    interval = test.confidence_interval(0.95)
    return float(interval.low), float(interval.high), float(test.pvalue)


def _by_bootstrap(values_S_Q: Floats) -> tuple[float, float]:
    """The 95 % percentile interval of a mean over S seeds and Q questions, which cross.

    Seeds and questions are both drawn anew, independently: Owen's pigeonhole bootstrap (2007,
    doi:10.1214/07-AOAS122). With few seeds it is somewhat too narrow where they decide, and too
    wide where the questions do.
    """
    seeds, questions = values_S_Q.shape
    seeds_B_S = _shares_drawn(seeds)
    questions_B_Q = _shares_drawn(questions)
    means_B = ((seeds_B_S @ values_S_Q) * questions_B_Q).sum(axis=1)
    low, high = np.percentile(means_B, [2.5, 97.5])
    return float(low), float(high)


@lru_cache
def _shares_drawn(count: int) -> Floats:
    """The share that each of `count` has in each resample, shape (B, count)."""
    draw = np.random.default_rng(count)
    drawn: Floats = draw.multinomial(count, np.full(count, 1 / count), size=RESAMPLES) / count
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


def not_there_yet(times_S: Sequence[float], end: float, at_T: Sequence[float]) -> list[float]:
    """The survival curve (Kaplan-Meier): the share of runs not yet at the level, at some times.

    Args:
        times_S: When each run got there; infinity for one that had not at the end.
        end: When the runs ended, where those are censored.
        at_T: The times at which the curve is read.

    >>> not_there_yet([15.0, 30.0, float("inf"), 30.0], 60.0, [15.0, 30.0, 60.0])
    [0.75, 0.25, 0.25]
    """
    there = [time for time in times_S if time <= end]
    if not there:
        return [1.0] * len(at_T)
    censored = [end] * (len(times_S) - len(there))
    curve = stats.ecdf(stats.CensoredData(uncensored=there, right=censored)).sf
    return [float(value) for value in curve.evaluate(np.asarray(at_T, dtype=np.float64))]
