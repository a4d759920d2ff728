"""Means over seeds with intervals, and the speed-up as the authors of PODS define it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from podslab.statistics.curves import ArmCurves, Floats

#: An arm has caught up when its mean accuracy is at this share of the reference's best.
CAUGHT_UP = 0.99
#: How often an arm that learns nothing may seem to have learned.
FALSE_ALARMS = 0.05


class Estimate(NamedTuple):
    """A mean over this many seeds, and half of its 95 % interval; None for a single seed."""

    mean: float
    error: float | None
    seeds: int


class Rise(NamedTuple):
    """The rise of the best mean accuracy above the start, and the rise by noise alone."""

    size: float
    noise: float

    @property
    def learned(self) -> bool:
        """The rise is more than noise."""
        return self.size > self.noise


@dataclass(frozen=True)
class Speedup:
    """The ratio by which an arm is sooner at 99 % of the reference's best mean accuracy.

    Args:
        learned: Whether the reference learned (`rise`). If it did not, there is nothing to reach:
            no time, no ratio and no interval is given.
        threshold: 0.99 x the best mean accuracy of the reference, or as `speed_up` says of a rise.
        paired: Whether seeds were resampled in pairs (both arms have the same ones).
        reference_seconds, seconds: The time of the first evaluation at or above the threshold;
            None: not reached.
        ratio: reference_seconds / seconds; None: not reached.
        low, high: The 95 % bootstrap interval over seeds, in which a resample that does not reach
            the threshold counts as ratio 0; None for a single seed.
        reached: The share of the resamples that reach it; None for a single seed.
        by_seed: The same ratio for each seed alone, against that seed's own reference run; None
            where not reached, () where seeds are not paired.
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
        if not self.by_seed:
            return None
        return float(np.median([ratio or 0.0 for ratio in self.by_seed]))


def mean_over_seeds(values: Floats) -> Floats:
    """Mean over the axis of seeds (the last but one), leaving NaN out; NaN where all are.

    >>> mean_over_seeds(np.array([[1.0, 2.0], [3.0, np.nan]])).tolist()
    [2.0, 2.0]
    """
    is_there = ~np.isnan(values)
    count = is_there.sum(axis=-2)
    total = np.where(is_there, values, 0.0).sum(axis=-2)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def standard_error_over_seeds(values_S_T: Floats) -> Floats:
    """The standard error of the mean over seeds; NaN where there are fewer than two.

    >>> standard_error_over_seeds(np.array([[1.0], [3.0]])).tolist()  # std sqrt(2), over sqrt(2)
    [1.0]
    """
    count_T = _count(values_S_T)
    squares_S_T = (values_S_T - mean_over_seeds(values_S_T)) ** 2
    variance_T = np.nansum(squares_S_T, axis=0) / np.maximum(count_T - 1, 1)
    return np.where(count_T > 1, np.sqrt(variance_T / np.maximum(count_T, 1)), np.nan)


def error_over_seeds(values_S_T: Floats) -> Floats:
    """Half of the 95 % interval of the mean over seeds, by Student's t; NaN below two seeds.

    >>> error_over_seeds(np.array([[1.0], [3.0]])).round(3).tolist()  # one degree of freedom
    [12.706]
    """
    from scipy.special import stdtrit

    quantile_T = stdtrit(np.maximum(_count(values_S_T) - 1, 1), 0.975)
    error_T: Floats = quantile_T * standard_error_over_seeds(values_S_T)
    return error_T


def _count(values_S_T: Floats) -> npt.NDArray[np.int64]:
    """The number of seeds that have each point."""
    return (~np.isnan(values_S_T)).sum(axis=0)


def estimate_at(values_S_T: Floats, point: int) -> Estimate:
    """The mean over seeds at one evaluation point, with half of its 95 % interval by t."""
    column_S_1 = values_S_T[:, [point]]
    error = float(error_over_seeds(column_S_1)[0])
    return Estimate(
        mean=float(mean_over_seeds(column_S_1)[0]),
        error=None if np.isnan(error) else error,
        seeds=int((~np.isnan(column_S_1)).sum()),
    )


def best_point(curves: ArmCurves) -> int:
    """The evaluation point with the best mean accuracy; the untrained model does not count."""
    is_trained_T = mean_over_seeds(curves.seconds) > 0
    accuracy_T = mean_over_seeds(curves.accuracy)
    return int(np.nanargmax(np.where(is_trained_T, accuracy_T, -np.inf)))


def rise(curves: ArmCurves) -> Rise:
    """From the first evaluation, the untrained model's, to the best of the T later ones.

    Noise is what the best of T gets by chance in at most `FALSE_ALARMS` of all cases (Bonferroni),
    the larger of two: of grading these answers, and between seeds.
    """
    accuracy_T = mean_over_seeds(curves.accuracy)
    start, *later = np.flatnonzero(~np.isnan(accuracy_T)).tolist()
    if not later:
        return Rise(0.0, 0.0)

    best = max(later, key=lambda point: float(accuracy_T[point]))
    level = 1.0 - FALSE_ALARMS / len(later)
    noise = max(
        _noise_of_grading(curves, start, best, level),
        _noise_between_seeds(curves, start, later, best, level),
    )
    return Rise(float(accuracy_T[best] - accuracy_T[start]), noise)


def _noise_of_grading(curves: ArmCurves, start: int, best: int, level: float) -> float:
    """The difference that two equally good models may show by chance, with so many answers.

    They are two equal proportions, of p right answers. Their difference has the deviation

        sqrt(p (1 - p) (1 / answers at the best + 1 / answers at the start)).
    """
    from scipy.special import ndtri

    # The one start that all runs share counts once.
    answers_S = curves.answers[:, start]
    start_is_shared = np.ptp(curves.accuracy[:, start]) == 0
    answers_at_start = answers_S[0] if start_is_shared else np.nansum(answers_S)
    if not answers_at_start > 0:
        return 0.0
    answers_at_best = np.nansum(curves.answers[:, best])

    accuracy_T = mean_over_seeds(curves.accuracy)
    p = (accuracy_T[start] + accuracy_T[best]) / 2
    deviation = np.sqrt(p * (1.0 - p) * (1.0 / answers_at_best + 1.0 / answers_at_start))
    return float(ndtri(level) * deviation)


def _noise_between_seeds(
    curves: ArmCurves, start: int, later: Sequence[int], best: int, level: float
) -> float:
    """The mean rise over these seeds that chance alone may give, by Student's t.

    The variance between seeds is that of their rises at the best evaluation, or one pooled over all
    evaluations. Those of a run resemble each other, so the pooled one has half their degrees of
    freedom. The lower noise counts: seeds that learn at different speeds differ much on the way.
    """
    from scipy.special import stdtrit

    rises_S_T = curves.accuracy[:, later] - curves.accuracy[:, [start]]
    error_T = standard_error_over_seeds(rises_S_T)
    if np.isnan(error_T).all():  # no two seeds have a rise
        return 0.0

    free = len(curves.seeds) - 1
    pooled_free = max(free * len(later) / 2, 1.0)
    pooled = np.sqrt(np.nanmean(error_T**2)) * stdtrit(pooled_free, level)
    at_best = error_T[later.index(best)] * stdtrit(free, level)
    # NaN at the best evaluation, where one seed alone was measured: the pooled one.
    return float(min(pooled, at_best))


def speed_up(
    reference: ArmCurves,
    arm: ArmCurves,
    caught_up: float = CAUGHT_UP,
    of_rise: bool = False,
) -> Speedup:
    """The speed-up of an arm over the reference, with a bootstrap interval over seeds.

    t_ref / t_arm, where t is the time of the first evaluation with a mean accuracy over seeds of at
    least 0.99 x the best mean accuracy of the reference; the untrained model does not count. This
    is the definition in the authors' scripts/plot.py (github.com/YixuanEvenXu/pods). The interval
    is the percentile one of `scipy.stats.bootstrap`, with a fixed seed. `caught_up` is another
    share of the reference's best accuracy in place of 0.99.

    With `of_rise` the threshold is start + 0.99 x (best - start), where the start is the
    reference's first evaluation. Rewards need it, as they may begin anywhere: with a negative best,
    0.99 x the best lies above the best.
    """
    reference_seeds = np.arange(len(reference.seeds))
    arm_seeds = np.arange(len(arm.seeds))
    of_all = _times_to_reach(reference, arm, reference_seeds, arm_seeds, caught_up, of_rise)
    threshold = float(of_all.threshold_B[0])
    paired = reference.seeds == arm.seeds
    if not rise(reference).learned:
        return Speedup(learned=False, threshold=threshold, paired=paired)

    def ratio_of(reference_seeds: Any, arm_seeds: Any) -> Floats:
        return _times_to_reach(
            reference, arm, reference_seeds, arm_seeds, caught_up, of_rise
        ).ratio_B

    low, high, reached = _interval(reference_seeds, arm_seeds, ratio_of, paired)
    by_seed: list[float | None] = []
    if paired:
        # Samples of one seed each; a ratio of 0 is one that was not reached.
        ratio_S = ratio_of(reference_seeds[:, None], arm_seeds[:, None])
        by_seed = [ratio or None for ratio in ratio_S]

    seconds = float(of_all.arm_B[0])
    reference_seconds = float(of_all.reference_B[0])
    is_reached = np.isfinite(seconds)
    return Speedup(
        learned=True,
        threshold=threshold,
        reference_seconds=reference_seconds,
        seconds=seconds if is_reached else None,
        ratio=reference_seconds / seconds if is_reached else None,
        low=low,
        high=high,
        reached=reached,
        paired=paired,
        by_seed=tuple(by_seed),
    )


class _Times(NamedTuple):
    """The threshold of B samples of seeds, both times to it (inf: never), and their ratio."""

    threshold_B: Floats
    reference_B: Floats
    arm_B: Floats
    ratio_B: Floats


def _times_to_reach(
    reference: ArmCurves,
    arm: ArmCurves,
    reference_seeds: Any,
    arm_seeds: Any,
    caught_up: float,
    of_rise: bool,
) -> _Times:
    """The times of samples of seeds, given by their places, shape (B, S); (S,) for one sample."""
    seconds_B_T, accuracy_B_T = _means(reference, reference_seeds)
    trained_B_T = np.where(seconds_B_T > 0, accuracy_B_T, -np.inf)
    best_B = np.nanmax(trained_B_T, axis=-1)
    threshold_B = caught_up * best_B
    if of_rise:
        # A sample that only falls is at its best there, and not below it.
        start_B = _start(accuracy_B_T)
        threshold_B = np.minimum(start_B + caught_up * (best_B - start_B), best_B)

    reference_B = _first(seconds_B_T, accuracy_B_T, threshold_B)
    arm_B = _first(*_means(arm, arm_seeds), threshold_B)
    ratio_B = np.where(np.isfinite(arm_B), reference_B / arm_B, 0.0)
    return _Times(threshold_B, reference_B, arm_B, ratio_B)


def _means(curves: ArmCurves, index: Any) -> tuple[Floats, Floats]:
    """Mean times and accuracies, shape (B, T), of samples of seeds; one sample needs no axis B."""
    index = np.atleast_2d(index).astype(np.intp)
    return mean_over_seeds(curves.seconds[index]), mean_over_seeds(curves.accuracy[index])


def _start(accuracy_B_T: Floats) -> Floats:
    """The accuracy at the first evaluation that has one."""
    first_B = np.argmax(~np.isnan(accuracy_B_T), axis=-1)
    start_B_1 = np.take_along_axis(accuracy_B_T, first_B[:, None], axis=-1)
    return start_B_1[:, 0]


def _first(seconds_B_T: Floats, accuracy_B_T: Floats, threshold_B: Floats) -> Floats:
    """The time of the first evaluation at the threshold, the untrained model's left out."""
    is_there_B_T = (accuracy_B_T >= threshold_B[:, None]) & (seconds_B_T > 0)
    return np.where(is_there_B_T, seconds_B_T, np.inf).min(axis=-1)


def _interval(
    reference_seeds: Any, arm_seeds: Any, ratio_of: Callable[..., Floats], paired: bool
) -> tuple[float | None, float | None, float | None]:
    """The ends of the interval, and the share of resamples with a ratio; None for one seed."""
    from scipy.stats import bootstrap

    if min(len(reference_seeds), len(arm_seeds)) < 2:
        return None, None, None

    def ratio(reference_index: Any, arm_index: Any, axis: int = -1) -> Floats:
        # scipy asks for axes before that of the seeds, of which `ratio_of` knows one.
        return ratio_of(reference_index, arm_index).reshape(reference_index.shape[:-1])

    result = bootstrap(
        (reference_seeds, arm_seeds),
        ratio,
        paired=paired,
        vectorized=True,
        method="percentile",
        n_resamples=9999,
        rng=np.random.default_rng(0),
    )
    low, high = result.confidence_interval
    return float(low), float(high), float(np.mean(result.bootstrap_distribution > 0))
