"""Means over seeds with intervals, and the speed-up as the authors of PODS define it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from podslab.report.curves import ArmCurves, Floats

#: An arm has caught up when its mean accuracy is at this share of the reference's best.
CAUGHT_UP = 0.99
#: How often an arm that learns nothing may seem to have learned.
FALSE_ALARMS = 0.05


class Estimate(NamedTuple):
    """A mean over this many seeds; error is 1.96 standard errors, None for a single seed."""

    mean: float
    error: float | None
    seeds: int


class Rise(NamedTuple):
    """How far the best mean accuracy lies above the start, and how far noise alone may lift it."""

    size: float
    noise: float

    @property
    def learned(self) -> bool:
        """The rise is more than noise."""
        return self.size > self.noise


@dataclass(frozen=True)
class Speedup:
    """How much sooner an arm reaches 99 % of the reference's best mean accuracy.

    learned: the reference learned (`rise`). If it did not, there is nothing to reach: no time, no
        ratio and no interval is given.
    threshold: 0.99 x the best mean accuracy of the reference.
    reference_seconds, seconds: the first evaluation at or above it; None: not reached.
    ratio: reference_seconds / seconds; None: not reached.
    low, high: 95 % bootstrap interval over seeds, in which a resample that does not reach the
        threshold counts as ratio 0; None for a single seed.
    reached: share of the resamples that reach it; None for a single seed.
    paired: seeds were resampled in pairs (both arms have the same ones).
    by_seed: the same ratio for each seed alone, against that seed's own reference run; None where
        not reached, () where seeds are not paired.
    """

    learned: bool
    threshold: float
    paired: bool
    reference_seconds: float | None = None
    seconds: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    reached: float | None = None
    by_seed: tuple[float | None, ...] = ()

    @property
    def median(self) -> float | None:
        """The median of `by_seed`, where a run that doesn't get there counts as 0."""
        return float(np.median([ratio or 0.0 for ratio in self.by_seed])) if self.by_seed else None


def mean_over_seeds(values: Floats) -> Floats:
    """Mean over the axis of seeds (the last but one), leaving NaN out; NaN where all are.

    >>> mean_over_seeds(np.array([[1.0, 2.0], [3.0, np.nan]])).tolist()
    [2.0, 2.0]
    """
    there = ~np.isnan(values)
    count = there.sum(axis=-2)
    total = np.where(there, values, 0.0).sum(axis=-2)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def error_over_seeds(values_S_T: Floats) -> Floats:
    """1.96 standard errors of the mean over seeds; NaN where there are fewer than two.

    >>> error_over_seeds(np.array([[1.0], [3.0]])).tolist()  # std sqrt(2), over sqrt(2)
    [1.96]
    """
    count_T = (~np.isnan(values_S_T)).sum(axis=0)
    squares_S_T = (values_S_T - mean_over_seeds(values_S_T)) ** 2
    variance_T = np.nansum(squares_S_T, axis=0) / np.maximum(count_T - 1, 1)
    error_T = 1.96 * np.sqrt(variance_T / np.maximum(count_T, 1))
    return np.where(count_T > 1, error_T, np.nan)


def estimate_at(values_S_T: Floats, point: int) -> Estimate:
    """Mean and 1.96 standard errors over seeds at one evaluation point."""
    column = values_S_T[:, [point]]
    error = float(error_over_seeds(column)[0])
    count = int((~np.isnan(column)).sum())
    return Estimate(float(mean_over_seeds(column)[0]), None if np.isnan(error) else error, count)


def best_point(curves: ArmCurves) -> int:
    """The evaluation point with the best mean accuracy; the untrained model does not count."""
    trained = mean_over_seeds(curves.seconds) > 0
    return int(np.nanargmax(np.where(trained, mean_over_seeds(curves.accuracy), -np.inf)))


def rise(curves: ArmCurves) -> Rise:
    """From the first evaluation, the untrained model's, to the best of the T later ones.

    Noise is what the best of T gets by chance in at most `FALSE_ALARMS` of all cases (Bonferroni),
    the larger of two: of grading these answers (two equal proportions), and between seeds. The
    latter is Student's t of their rises: at the best evaluation, or with a variance pooled over all
    evaluations and half their degrees of freedom, as those of a run resemble each other; the lower
    one counts, as seeds that learn at different speeds differ much on the way.
    """
    from scipy.special import ndtri, stdtrit

    accuracy_T = mean_over_seeds(curves.accuracy)
    start, *later = np.flatnonzero(~np.isnan(accuracy_T)).tolist()
    if not later:
        return Rise(0.0, 0.0)
    best = max(later, key=lambda point: float(accuracy_T[point]))
    level = 1.0 - FALSE_ALARMS / len(later)
    # the one start that all runs share counts once
    starts_S, shared = curves.answers[:, start], np.ptp(curves.accuracy[:, start]) == 0
    graded = starts_S[0] if shared else np.nansum(starts_S)
    mean = (accuracy_T[start] + accuracy_T[best]) / 2
    per_answer = 1.0 / np.nansum(curves.answers[:, best]) + 1.0 / graded if graded > 0 else 0.0
    noise = ndtri(level) * np.sqrt(mean * (1.0 - mean) * per_answer)
    free = len(curves.seeds) - 1
    error_T = error_over_seeds(curves.accuracy[:, later] - curves.accuracy[:, [start]]) / 1.96
    if not np.isnan(error_T).all():  # two seeds have a rise
        pooled = np.sqrt(np.nanmean(error_T**2)) * stdtrit(max(free * len(later) / 2, 1.0), level)
        noise = max(noise, min(pooled, error_T[later.index(best)] * stdtrit(free, level)))
    return Rise(float(accuracy_T[best] - accuracy_T[start]), float(noise))


def speed_up(reference: ArmCurves, arm: ArmCurves) -> Speedup:
    """The speed-up of an arm over the reference, with a bootstrap interval over seeds.

    t_ref / t_arm, where t is the time of the first evaluation with a mean accuracy over seeds of at
    least 0.99 x the best mean accuracy of the reference; the untrained model does not count. This
    is the definition in the authors' scripts/plot.py (github.com/YixuanEvenXu/pods). The interval
    is the percentile one of `scipy.stats.bootstrap`, with a fixed seed.
    """

    def times(reference_seeds: Any, arm_seeds: Any) -> tuple[Floats, Floats, Floats, Floats]:
        """Of B samples of seeds: the threshold, both times to it (inf: never), and their ratio."""
        seconds, accuracy = _means(reference, reference_seeds)
        threshold_B = CAUGHT_UP * np.nanmax(np.where(seconds > 0, accuracy, -np.inf), axis=-1)
        reference_B = _first(seconds, accuracy, threshold_B)
        arm_B = _first(*_means(arm, arm_seeds), threshold_B)
        ratio_B = np.where(np.isfinite(arm_B), reference_B / arm_B, 0.0)
        return threshold_B, reference_B, arm_B, ratio_B

    every = [np.arange(len(curves.seeds)) for curves in (reference, arm)]
    threshold, reference_seconds, seconds, _ = (float(values[0]) for values in times(*every))
    paired = reference.seeds == arm.seeds
    if not rise(reference).learned:
        return Speedup(False, threshold, paired)
    low, high, reached = _interval(every, lambda *seeds: times(*seeds)[-1], paired)
    by_seed: list[float | None] = []
    if paired:
        by_seed = [ratio or None for ratio in times(*(seeds[:, None] for seeds in every))[-1]]
    there = np.isfinite(seconds)
    return Speedup(
        learned=True,
        threshold=threshold,
        reference_seconds=reference_seconds,
        seconds=seconds if there else None,
        ratio=reference_seconds / seconds if there else None,
        low=low,
        high=high,
        reached=reached,
        paired=paired,
        by_seed=tuple(by_seed),
    )


def _interval(
    every: Sequence[Any], ratio_of: Callable[..., Floats], paired: bool
) -> tuple[float | None, float | None, float | None]:
    from scipy.stats import bootstrap

    if min(map(len, every)) < 2:
        return None, None, None

    def ratio(reference_index: Any, arm_index: Any, axis: int = -1) -> Floats:
        return ratio_of(reference_index, arm_index).reshape(reference_index.shape[:-1])

    result = bootstrap(
        every,
        ratio,
        paired=paired,
        vectorized=True,
        method="percentile",
        n_resamples=9999,
        rng=np.random.default_rng(0),
    )
    low, high = result.confidence_interval
    return float(low), float(high), float(np.mean(result.bootstrap_distribution > 0))


def _means(curves: ArmCurves, index: Any) -> tuple[Floats, Floats]:
    """Mean times and accuracies, shape (B, T), of samples of seeds; one sample needs no axis B."""
    index = np.atleast_2d(index).astype(np.intp)
    return mean_over_seeds(curves.seconds[index]), mean_over_seeds(curves.accuracy[index])


def _first(seconds: Floats, accuracy: Floats, threshold_B: Floats) -> Floats:
    """The time of the first evaluation at the threshold, the untrained model's left out."""
    there = (accuracy >= threshold_B[:, None]) & (seconds > 0)
    return np.where(there, seconds, np.inf).min(axis=-1)
