"""Which of several reward functions the update follows. Pure numpy; both hosts use it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

#: A part with less than this share of the weight ...
SMALL_WEIGHT = 0.2
#: ... should not drive more than this share of the update.
LARGE_DRIVE = 0.5
#: Generations to look at before saying that it does: one alone is noise.
WATCHED = 10
#: Numbers from here on are left out, as NaN is: their squares could not be summed.
_HUGE = 1e100


def drives(advantages_P_N: Any, parts_P_N_F: Any, counted_P_N: Any = None) -> np.ndarray:
    r"""How closely the advantages follow each reward function, from -1 to 1.

    .. math:: \mathrm{corr}(a_i, p_{if} - \mathrm{mean}_{g(i)}(p_f))

    The correlation over all counted rollouts, each reward taken relative to its group's mean: a
    prompt that is easier than others is no signal. Groups of unequal size: leave slots uncounted.

    Args:
        advantages_P_N: advantages; P groups of N slots.
        parts_P_N_F: what each of F reward functions gave; where it is NaN or beyond 1e100, the
            rollout is left out for this function.
        counted_P_N: which rollouts count, such as the kept ones; default all.

    Returns:
        One number per function; 0 where its rewards or the advantages do not vary.

    >>> drives([[1.0, -1.0, 0.0]], [[[1.0, 0.5], [0.0, 0.5], [0.5, 0.5]]]).round(9).tolist()
    [1.0, 0.0]
    """
    advantages = np.asarray(advantages_P_N, dtype=np.float64)
    parts = np.asarray(parts_P_N_F, dtype=np.float64)
    counted = np.ones(advantages.shape, dtype=bool) if counted_P_N is None else counted_P_N
    counted_P_N_F = np.asarray(counted, dtype=bool)[..., None] & (np.abs(parts) < _HUGE)
    part = _centred(np.where(counted_P_N_F, parts, 0.0), counted_P_N_F)
    repeated = np.broadcast_to(advantages[..., None], parts.shape)
    advantage = _centred(np.where(counted_P_N_F, repeated, 0.0), counted_P_N_F)
    together, own, theirs = (
        (left * right).sum(axis=(0, 1))
        for left, right in ((advantage, part), (part, part), (advantage, advantage))
    )
    scale = np.sqrt(own * theirs)
    return np.where(scale > 0, together / np.where(scale > 0, scale, 1.0), 0.0)


def drive_metrics(
    names_F: Sequence[str],
    parts_P_N_F: Any,
    kept_advantages_P_N: Any,
    all_advantages_P_N: Any,
    kept_P_N: Any,
) -> dict[str, float]:
    """`drives` under the names that every host logs: of the kept rollouts, and of all n.

    Args:
        names_F: the reward functions.
        parts_P_N_F: what each gave; NaN where it gave nothing.
        kept_advantages_P_N: the update's advantages; read where `kept_P_N` is true.
        all_advantages_P_N: those that an update on all n would have.
        kept_P_N: which rollouts were kept.
    """
    kept = drives(kept_advantages_P_N, parts_P_N_F, kept_P_N)
    of_all = drives(all_advantages_P_N, parts_P_N_F)
    found = {f"pods/drives/{name}": float(d) for name, d in zip(names_F, kept, strict=True)}
    found |= {f"pods/drives_all/{name}": float(d) for name, d in zip(names_F, of_all, strict=True)}
    return found


def shaping_only(
    parts_P_N_F: Any,
    kept_P_N: Any,
    weights_F: Sequence[float],
    selection_weights_F: Sequence[float] | None = None,
) -> float:
    """The share of groups whose kept rollouts differ in some reward, but in no outcome reward.

    Args:
        parts_P_N_F: what each reward function gave; NaN where it gave nothing.
        kept_P_N: which rollouts were kept.
        weights_F, selection_weights_F: of the functions; a function without any has no part in it.
            `outcome_parts` says which judge the outcome.

    >>> shaping_only([[[1.0, 0.1], [1.0, 0.2]], [[1.0, 0.1], [0.0, 0.2]]], [[True] * 2] * 2,
    ...              [1.0, 0.2])
    0.5
    """
    outcome = np.array(outcome_parts(weights_F, selection_weights_F))
    counts = outcome | (np.asarray(weights_F) != 0)
    parts, outcome = np.asarray(parts_P_N_F, dtype=np.float64)[..., counts], outcome[counts]
    counted = np.asarray(kept_P_N, dtype=bool)[..., None] & ~np.isnan(parts)
    highest = np.where(counted, parts, -np.inf).max(axis=1)
    lowest = np.where(counted, parts, np.inf).min(axis=1)
    varies_P_F = highest > lowest
    only = varies_P_F.any(axis=-1) & ~varies_P_F[:, outcome].any(axis=-1)
    return float(only.mean()) if len(only) else 0.0


def outcome_parts(
    weights_F: Sequence[float], selection_weights_F: Sequence[float] | None = None
) -> list[bool]:
    """Which reward functions judge the outcome: those selected by, else the one that weighs most.

    Of equal weights the first does.

    >>> outcome_parts([1.0, 0.2]), outcome_parts([1.0, 0.2], [0.0, 1.0])
    ([True, False], [False, True])
    """
    if selection_weights_F is not None:
        return [weight != 0 for weight in selection_weights_F]
    sizes = [abs(weight) for weight in weights_F]
    return [place == sizes.index(max(sizes)) for place in range(len(sizes))]


class DriveWatch:
    """Says, once, that a reward function of little weight drives most of the update.

    Its share of the update is its squared drive, of the sum over functions, on average so far.

    Args:
        names_F: the reward functions.
        weights_F: their weights in the reward.
    """

    def __init__(self, names_F: Sequence[str], weights_F: Sequence[float]) -> None:
        self.names = list(names_F)
        self.weigh(weights_F)
        self._squares = np.zeros(len(self.names))
        self._seen = 0
        self._said = len(self.names) < 2

    def weigh(self, weights_F: Sequence[float]) -> None:
        """Take other weights from now on, where they are measured."""
        sizes = np.abs(np.asarray(weights_F, dtype=np.float64))
        self.weight_share = sizes / max(float(sizes.sum()), 1e-12)

    def observe(self, drives_F: Any) -> str | None:
        """The warning, when one more generation's drives bring it about; otherwise None."""
        self._squares += np.square(np.asarray(drives_F, dtype=np.float64))
        self._seen += 1
        total = self._squares.sum()
        if self._said or self._seen < WATCHED or not total:
            return None
        shares = self._squares / total
        small = np.flatnonzero((shares > LARGE_DRIVE) & (self.weight_share < SMALL_WEIGHT))
        if not len(small):
            return None
        self._said = True
        part = int(small[0])
        return (
            f"reward function {self.names[part]!r} has {self.weight_share[part]:.0%} of the weight"
            f" and drives {shares[part]:.0%} of the update (pods/drives): set selection_weights to"
            " select by the outcome alone"
        )


class FittedWeights:
    """Weights of the parts of a reward, for a host that is given only their weighted sum.

    They come from least squares over all rollouts so far. There are none as long as a part has not
    varied, or if the parts explain less than 99 % of the reward's variance: no claim is better than
    a wrong one.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._count = 0
        self._origin = self._sums = self._products = np.zeros(0)

    def observe(self, names_F: Sequence[str], parts_R_F: Any, rewards_R: Any) -> list[float] | None:
        """The weights, with more rollouts to go by.

        Args:
            names_F: the parts; others than before start anew.
            parts_R_F: of each rollout; one with NaN or a number beyond 1e100 is left out.
            rewards_R: theirs.

        >>> parts = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
        >>> np.round(FittedWeights().observe(["right", "short"], parts, parts @ [1.0, 0.2]), 6)
        array([1. , 0.2])
        """
        rows = np.column_stack([np.asarray(parts_R_F, dtype=np.float64), rewards_R])
        rows = rows[(np.abs(rows) < _HUGE).all(axis=1)]
        if not len(rows):
            return None
        if list(names_F) != self.names:
            self.names, self._count, self._origin = list(names_F), 0, rows[0]
            self._sums = np.zeros(rows.shape[1])
            self._products = np.zeros((rows.shape[1], rows.shape[1]))
        rows = rows - self._origin
        self._count += len(rows)
        self._sums = self._sums + rows.sum(axis=0)
        self._products = self._products + rows.T @ rows
        mean = self._sums / self._count
        covariance = self._products / self._count - np.outer(mean, mean)
        scale = np.sqrt(covariance.diagonal().clip(min=0))
        if (scale < 1e-9 * (1 + np.abs(self._origin))).any():
            return None
        correlation = covariance / np.outer(scale, scale)
        with_reward = correlation[:-1, -1]
        weights = np.linalg.pinv(correlation[:-1, :-1], rcond=1e-6, hermitian=True) @ with_reward
        if weights @ with_reward < 0.99:
            return None
        weights = weights * scale[-1] / scale[:-1]
        return np.where(np.abs(weights) > 1e-6 * np.abs(weights).max(), weights, 0.0).tolist()


def _centred(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Values relative to the mean of the counted ones of their group (axis 1); 0 elsewhere."""
    total = values.sum(axis=1, keepdims=True)
    mean = total / np.maximum(counted.sum(axis=1, keepdims=True), 1)
    away = values - mean
    rounding = np.abs(away) <= 1e-9 * np.abs(mean)
    return np.where(counted & ~rounding, away, 0.0)
