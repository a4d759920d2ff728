"""Batch rules: which rows of a whole batch to keep, any number of each prompt."""

import numpy as np
import numpy.typing as npt

from podsrl.downsampling.group_rules import best_of_sorted
from podsrl.downsampling.ordering import Order, Seed, sort_groups
from podsrl.downsampling.registry import batch_rule

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Rewards are scaled so that the widest group spans 2. Sums closer than this count as equal.
_EQUAL = 1e-9
_FILLER = 1e-5  # taken off for a row of a group without contrast


@batch_rule
def max_contrast(rewards_P_N: Floats, rows: int, seed: Seed = None) -> npt.NDArray[np.bool_]:
    r"""Keep the rows with the largest sum of the groups' contrasts.

    .. math:: \arg\max \sum_g \Big(\sum_{i \in S_g} (r_i - \bar r_{S_g})^2\Big)^{1/2},
        \quad \sum_g |S_g| = rows

    S_g are the kept rollouts of prompt g, and any number of them may be. Of equal choices (up to
    1e-9 of the widest group's spread) the most even spread over prompts is taken. Exact:
    docs/rules.md has the proof. A group without contrast gets no row while another has one left;
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
    turn_P = np.arange(len(rewards_P_N))
    if seed is not None:
        turn_P = np.random.default_rng(seed).permutation(turn_P)
    worth_P_J = _worths(order.ascending_P_N, order.count_P_1[:, 0])
    share_P = np.zeros_like(turn_P)
    share_P[turn_P] = share_rows(worth_P_J[turn_P], rows)
    kept_P_N = np.zeros(rewards_P_N.shape, dtype=bool)
    for share in np.unique(share_P[share_P > 0]).tolist():
        groups = np.flatnonzero(share_P == share)
        best = best_of_sorted(Order(*(part[groups] for part in order)), share)
        kept_P_N[groups[:, None], best] = True
    return kept_P_N


def share_rows(worth_P_J: Floats, rows: int) -> Integers:
    """How many rows each group gets, for the largest sum of worths; by dynamic programming.

    best[g, r] is the largest sum of the first g groups with r rows together. It takes
    P (rows + 1) (n + 1) additions and 8 P (rows + n) bytes.

    Args:
        worth_P_J: What j rows of each group are worth, j = 0..n; -inf where it has not as many.
        rows: The number of rows in all; groups must have as many together.
    """
    groups, most = len(worth_P_J), worth_P_J.shape[1] - 1
    best = np.full((groups + 1, most + rows + 1), -np.inf)  # a margin of n before r = 0
    best[0, most] = 0.0
    # before[g, j, r] is best[g, r - j]
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
    """What the best j rollouts of each group are worth, j = 0..n; shape (P, n + 1).

    The best j + 1 rollouts of a group are the best j and the one at an end that is farther from
    their mean: the lowest or the highest of those left.
    """
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
