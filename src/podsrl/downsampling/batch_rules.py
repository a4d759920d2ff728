"""Batch rules: which rows of a whole batch to keep, any number of each prompt."""

from typing import Any

import numpy as np
import numpy.typing as npt

from podsrl.downsampling.group_rules import best_of_sorted
from podsrl.downsampling.ordering import Floats, Integers, Order, Seed, sort_groups
from podsrl.downsampling.registry import batch_rule

Mask = npt.NDArray[np.bool_]

# Rewards are scaled so that the widest group spans 2. Sums closer than this count as equal.
_EQUAL = 1e-9
_FILLER = 1e-5  # taken off for a row of a group without contrast


@batch_rule
def max_contrast(rewards_P_N: Floats, rows: int, seed: Seed = None) -> Mask:
    r"""Keep the rows with the largest sum of the groups' contrasts.

    .. math:: \arg\max \sum_g \Big(\sum_{i \in S_g} (r_i - \bar r_{S_g})^2\Big)^{1/2},
        \quad \sum_g |S_g| = rows

    S_g are the kept rollouts of prompt g, and any number of them may be. Of equal choices (up to
    1e-9 of the widest group's spread) the most even spread over prompts is taken. Exact:
    docs/methods.md has the proof. A group without contrast gets no row while another has one left;
    its rows have advantage 0. Of one prompt it keeps what `max_variance` keeps.

    Args:
        rewards_P_N: float64 rewards, shape (P, n); NaN marks a rollout that could not be scored.
        rows: The number of rows to keep, at most the number of scorable rollouts.
        seed: Breaks ties between rollouts and between prompts at random; None: by their order.

    Returns:
        kept_P_N, booleans with exactly `rows` true.

    >>> max_contrast(np.array([[0.0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1]]), 4).sum(axis=1).tolist()
    [2, 0, 2]
    """
    order = sort_groups(rewards_P_N, seed)
    turn_P = _turns(len(rewards_P_N), seed)
    worth_P_J = _worths(order.ascending_P_N, order.count_P_1[:, 0])
    share_P = np.zeros_like(turn_P)
    share_P[turn_P] = share_rows(worth_P_J[turn_P], rows)
    return _keep_shares(order, share_P)


@batch_rule
def top_advantage(rewards_P_N: Floats, rows: int, seed: Seed = None) -> Mask:
    r"""Keep the rows with the largest absolute advantage (CPPO, arXiv 2503.22342).

    .. math:: \arg\max \sum_{(g,i) \in S} |A_{gi}|, \quad
        A_{gi} = (r_{gi} - \mathrm{mean}_g) / \mathrm{std}_g, \quad |S| = rows

    Mean and standard deviation are those of all n; where they are 0 the advantage is 0. The
    arguments and the result are those of `max_contrast`.

    >>> top_advantage(np.array([[0.0, 0, 0, 1], [0, 0, 1, 1]]), 2).nonzero()
    (array([0, 1]), array([3, 0]))
    """
    order = sort_groups(-np.abs(_advantages(rewards_P_N)).reshape(1, -1), seed)
    return _mask(order.rollout_P_N[0, :rows], rewards_P_N)


@batch_rule
def advantage_variance(rewards_P_N: Floats, rows: int, seed: Seed = None) -> Mask:
    r"""Keep the rows whose advantages have the largest variance (D3S, arXiv 2509.22115).

    .. math:: \arg\max \mathrm{Var}(\{A_{gi} : (g,i) \in S\}), \quad |S| = rows

    They are the two ends of all advantages of the batch, as `max_variance` finds them in one group.
    The arguments and the result are those of `max_contrast`.

    >>> advantage_variance(np.array([[0.0, 0, 0, 1], [0, 0, 1, 1]]), 2).nonzero()
    (array([0, 1]), array([3, 0]))
    """
    order = sort_groups(_advantages(rewards_P_N).reshape(1, -1), seed)
    return _mask(best_of_sorted(order, rows)[0] if rows else [], rewards_P_N)


@batch_rule
def pass_band(
    rewards_P_N: Floats,
    rows: int,
    seed: Seed = None,
    low: float = 0.0,
    high: float = 1.0,
    kappa: float = 0.0,
) -> Mask:
    r"""Keep whole groups that are neither too hard nor too easy.

    A group has contrast, and its pass rate is in [low, high]. By default that is DAPO's
    :math:`0 < k < n` for k right answers of n (arXiv 2503.14476). With `kappa` the group's variance
    is at least this share of the largest that n rewards can have (VCRL, arXiv 2509.19803). Rewards
    other than 0 and 1 count relative to the lowest and the highest of the batch.

    Groups are taken in their order; of the last one those rollouts are kept that `max_variance`
    keeps. Where such groups have too few rows, groups without contrast fill up: their advantages
    are 0. Only then follow the others. Further arguments and the result are those of
    `max_contrast`.

    >>> pass_band(np.array([[0.0, 0, 0, 0], [0, 0, 0, 1], [0, 1, 1, 1]]), 4, low=0.5).sum(axis=1)
    array([0, 0, 4])
    """
    _, rate_P, squares_P, count_P = _moments(rewards_P_N, None)
    largest_P = count_P // 2 * (count_P - count_P // 2) / count_P
    share_P = squares_P / np.where(largest_P > 0, largest_P, 1.0)
    inside = (rate_P >= low - _EQUAL) & (rate_P <= high + _EQUAL) & (share_P >= kappa - _EQUAL)
    return _keep_whole(rewards_P_N, rows, inside, _turns(len(inside), seed), seed)


@batch_rule
def variance_top_p(rewards_P_N: Floats, rows: int, seed: Seed = None, p: float = 0.9) -> Mask:
    r"""Keep whole groups of the largest variance (RAGEN-2, arXiv 2604.06268).

    Groups are sorted by their variance v, and the smallest number of them is taken with

    .. math:: \sum_{g \le G} v_g \ge p \sum_g v_g

    How it cuts and fills up is as in `pass_band`, of which further arguments and result are those.

    >>> variance_top_p(np.array([[0.0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 0, 0]]), 4).sum(axis=1)
    array([0, 4, 0])
    """
    _, _, squares_P, count_P = _moments(rewards_P_N, None)
    variance_P = (squares_P / count_P).round(9)
    turn_P = _turns(len(variance_P), seed)
    turn_P = turn_P[np.argsort(-variance_P[turn_P], kind="stable")]
    before = np.cumsum(variance_P[turn_P]) - variance_P[turn_P]
    inside = np.empty(len(turn_P), dtype=bool)
    inside[turn_P] = before < p * variance_P.sum() - _EQUAL
    return _keep_whole(rewards_P_N, rows, inside, turn_P, seed)


def _keep_whole(rewards_P_N: Floats, rows: int, inside: Mask, turn_P: Integers, seed: Seed) -> Mask:
    """Whole groups in their turns: those inside with contrast, without contrast, the others."""
    order = sort_groups(rewards_P_N, seed)
    _, _, squares_P, _ = _moments(rewards_P_N, 1)
    class_P = np.where(squares_P > 0, np.where(inside, 0, 2), 1)
    turn_P = turn_P[np.argsort(class_P[turn_P], kind="stable")]
    count_P = order.count_P_1[turn_P, 0]
    share_P = np.empty_like(count_P)
    share_P[turn_P] = np.clip(rows - np.cumsum(count_P) + count_P, 0, count_P)
    return _keep_shares(order, share_P)


def _keep_shares(order: Order, share_P: Integers) -> Mask:
    """Of each group as many rollouts as its share, those that `max_variance` keeps."""
    kept_P_N = np.zeros(order.rollout_P_N.shape, dtype=bool)
    for share in np.unique(share_P[share_P > 0]).tolist():
        groups = np.flatnonzero(share_P == share)
        part = Order._make(column[groups] for column in order)
        kept_P_N[groups[:, None], best_of_sorted(part, share)] = True
    return kept_P_N


def _mask(places: Any, rewards_P_N: Floats) -> Mask:
    kept_P_N = np.zeros(rewards_P_N.shape, dtype=bool)
    kept_P_N.flat[places] = True
    return kept_P_N


def _turns(groups: int, seed: Seed) -> Integers:
    """The groups in the order in which equal ones are taken."""
    turn_P = np.arange(groups)
    return turn_P if seed is None else np.random.default_rng(seed).permutation(turn_P)


def _advantages(rewards_P_N: Floats) -> Floats:
    """Rewards relative to their group's mean, in standard deviations; equal ones to 9 digits."""
    away_P_N, _, squares_P, count_P = _moments(rewards_P_N, 1)
    deviation_P = np.sqrt(squares_P / np.maximum(count_P - 1, 1))
    return np.round(away_P_N / np.where(deviation_P > 0, deviation_P, 1.0)[:, None], 9)


def _moments(rewards_P_N: Floats, axis: int | None) -> tuple[Floats, Floats, Floats, Integers]:
    """Rewards less their group's mean; of each group the mean, the squares' sum, the count (>= 1).

    They are scaled into [0, 1], each group by itself (axis 1) or the batch as a whole (None).
    """
    lowest = np.fmin.reduce(rewards_P_N, axis=axis, keepdims=True) / 2
    range_ = np.fmax.reduce(rewards_P_N, axis=axis, keepdims=True) / 2 - lowest
    x_P_N = (rewards_P_N / 2 - lowest) / np.where(range_ > 0, range_, 1.0)
    count_P = np.maximum(1, (~np.isnan(x_P_N)).sum(axis=1))
    mean_P = np.nansum(x_P_N, axis=1) / count_P
    away_P_N = x_P_N - mean_P[:, None]
    return away_P_N, mean_P, np.nansum(np.square(away_P_N), axis=1), count_P


def share_rows(worth_P_J: Floats, rows: int) -> Integers:
    """How many rows each group gets, for the largest sum of worths; by dynamic programming.

    A group's worth_J says what j rows of it are worth, j = 0..n; -inf where it has not as many.
    It takes P (rows + 1) (n + 1) additions and 8 P (rows + n) bytes.
    """
    groups, most = len(worth_P_J), worth_P_J.shape[1] - 1
    # best[g, n + r] is the largest sum of the first g groups with r rows together
    best = np.full((groups + 1, most + rows + 1), -np.inf)
    best[0, most] = 0.0
    # before[g, j, r] is that of r - j rows
    before = np.lib.stride_tricks.sliding_window_view(best, rows + 1, axis=1)[:, ::-1]
    sums_J_R = np.empty((most + 1, rows + 1))
    for g, worth_J in enumerate(worth_P_J):
        np.add(before[g], worth_J[:, None], out=sums_J_R)
        sums_J_R.max(axis=0, out=best[g + 1, most:])
    share_P = np.zeros(groups, dtype=np.int64)
    for g in reversed(range(groups)):
        share_P[g] = np.argmax(before[g, :, rows] + worth_P_J[g])
        rows -= int(share_P[g])
    return share_P


def _worths(ascending_P_N: Floats, count_P: Integers) -> Floats:
    """What the best j rollouts of each group are worth, j = 0..n, shape (P, n + 1): nested sets."""
    groups, n = ascending_P_N.shape
    every = np.arange(groups)
    lowest, highest = ascending_P_N[:, 0] / 2, ascending_P_N[every, np.maximum(count_P - 1, 0)] / 2
    half_range = np.nan_to_num(highest - lowest)
    widest = half_range.max(initial=0.0) or 1.0
    x_N_P = np.nan_to_num((ascending_P_N - (lowest + highest)[:, None]) / widest).T.copy()
    squares = np.zeros((n + 1, groups))
    low, high, mean = every.copy(), (count_P - 1) * groups + every, np.zeros(groups)  # places in x
    for j in range(n):
        below = mean - x_N_P.take(low, mode="clip")
        above = x_N_P.take(high, mode="clip") - mean
        is_high = above > below
        step = np.where(is_high, above, -below)
        squares[j + 1] = squares[j] + step * step * (j / (j + 1)) * (j < count_P)
        mean += step / (j + 1)
        low += groups * ~is_high
        high -= groups * is_high
    j_J = np.arange(n + 1)
    flat = _FILLER * (half_range <= 0)[:, None] * j_J
    worths: Floats = np.sqrt(squares).T - flat - _EQUAL * j_J**2.0
    return np.where(j_J > count_P[:, None], -np.inf, worths)
