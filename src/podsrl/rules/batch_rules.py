"""Batch rules: which rows of a whole batch to keep, any number of each prompt."""

from typing import Any

import numpy as np

from podsrl.rules.allocation import allocate_rows
from podsrl.rules.ordering import Floats, Integers, Mask, Order, Seed, sort_groups
from podsrl.rules.prompt_rules import best_of_sorted
from podsrl.rules.registry import rule

# Rewards are scaled so that the widest group spans 2. Sums closer than this count as equal.
_EQUAL = 1e-9
# What a row of a group without contrast is worth less than no row: more than all that `_EQUAL`
# decides, less than any contrast that is not rounding.
_NO_CONTRAST = 1e-5


@rule(scope="batch", source="podsrl")
def max_contrast(rewards_P_N: Floats, rows: int, seed: Seed = None) -> Mask:
    r"""Keep the rows with the largest sum of the groups' contrasts.

    .. math:: \arg\max \sum_g \Big(\sum_{i \in S_g} (r_i - \bar r_{S_g})^2\Big)^{1/2},
        \quad \sum_g |S_g| = rows

    S_g are the kept rollouts of prompt g, any number of them. Among equal choices (up to 1e-9 of
    the widest group's spread) the rule takes the one with the most even spread over prompts. It is
    exact, in a time that is nearly linear in the rollouts (proof in docs/theory.md). A group
    without contrast gets rows only when no other rows are left; their advantage is 0. For a single
    prompt the rule keeps the same rollouts as `max_variance`.

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
    contrast_P_J = contrast_of_best_sets(order)

    # Equal choices are decided by the order of the groups, which a seed draws anew.
    turn_P = _turns(len(rewards_P_N), seed)
    share_P = np.zeros_like(turn_P)
    share_P[turn_P] = allocate_rows(contrast_P_J[turn_P], rows)
    return _keep_shares(order, share_P)


@rule(scope="batch", needs_group_baseline=True, source="CPPO, arXiv 2503.22342")
def top_advantage(rewards_P_N: Floats, rows: int, seed: Seed = None) -> Mask:
    r"""Keep the rows with the largest absolute advantage (CPPO, arXiv 2503.22342).

    .. math:: \arg\max \sum_{(g,i) \in S} |A_{gi}|, \quad
        A_{gi} = (r_{gi} - \mathrm{mean}_g) / \mathrm{std}_g, \quad |S| = rows

    Mean and standard deviation are those of all n; where they are 0 the advantage is 0. The
    arguments and the result are those of `max_contrast`.

    >>> top_advantage(np.array([[0.0, 0, 0, 1], [0, 0, 1, 1]]), 2).nonzero()
    (array([0, 1]), array([3, 0]))
    """
    smallest_last = -np.abs(_advantages(rewards_P_N)).reshape(1, -1)
    order = sort_groups(smallest_last, seed)
    return _mask(order.rollout_P_N[0, :rows], rewards_P_N.shape)


@rule(scope="batch", needs_group_baseline=True, source="D3S, arXiv 2509.22115")
def advantage_variance(rewards_P_N: Floats, rows: int, seed: Seed = None) -> Mask:
    r"""Keep the rows whose advantages have the largest variance (D3S, arXiv 2509.22115).

    .. math:: \arg\max \mathrm{Var}(\{A_{gi} : (g,i) \in S\}), \quad |S| = rows

    These are the largest and the smallest advantages of the batch, found as in `max_variance` for
    one group. The arguments and the result are those of `max_contrast`.

    >>> advantage_variance(np.array([[0.0, 0, 0, 1], [0, 0, 1, 1]]), 2).nonzero()
    (array([0, 1]), array([3, 0]))
    """
    order = sort_groups(_advantages(rewards_P_N).reshape(1, -1), seed)
    kept_K = best_of_sorted(order, rows)[0] if rows else []
    return _mask(kept_K, rewards_P_N.shape)


def filled_by_contrast(rewards_P_N: Floats, rows: int) -> bool:
    """Whether the groups whose rewards are not all equal have as many rows."""
    _, square_P, _ = _moments(rewards_P_N, each_group=True)
    scored_P = (~np.isnan(rewards_P_N)).sum(axis=1)
    return bool(scored_P[square_P > 0].sum() >= rows)


@rule(scope="batch", source="DAPO, arXiv 2503.14476", is_full=filled_by_contrast)
def dynamic_sampling(rewards_P_N: Floats, rows: int, seed: Seed = None) -> Mask:
    r"""Keep whole groups whose rewards are not all equal (DAPO's filter, arXiv 2503.14476).

    With rewards of 0 and 1 these are the groups with k right answers of n, :math:`0 < k < n`.

    Groups are taken in their order, until `rows` is reached; `max_variance` chooses among the
    rollouts of the last one. If these groups have too few rows, groups without contrast fill the
    batch, with advantage 0. The arguments and the result are those of `max_contrast`.

    >>> dynamic_sampling(np.array([[0.0, 0, 0, 0], [0, 0, 0, 1], [0, 1, 1, 1]]), 4).sum(axis=1)
    array([0, 4, 0])
    """
    turn_P = _turns(len(rewards_P_N), seed)
    every_group_P = np.ones(len(rewards_P_N), dtype=bool)
    return _keep_whole_groups(
        rewards_P_N, rows, preferred_P=every_group_P, turn_P=turn_P, seed=seed
    )


@rule(scope="batch", source="RAGEN-2, arXiv 2604.06268")
def variance_top_p(rewards_P_N: Floats, rows: int, seed: Seed = None, p: float = 0.9) -> Mask:
    r"""Keep whole groups of the largest variance (RAGEN-2, arXiv 2604.06268).

    Groups are sorted by their variance v, and the smallest number of them is taken with

    .. math:: \sum_{g \le G} v_g \ge p \sum_g v_g

    Rows are then taken as in `dynamic_sampling`; if they are too few, first from other groups with
    contrast. The arguments and the result are those of `max_contrast`.

    >>> variance_top_p(np.array([[0.0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 0, 0]]), 4).sum(axis=1)
    array([0, 4, 0])
    """
    _, square_P, count_P = _moments(rewards_P_N, each_group=False)
    variance_P = (square_P / count_P).round(9)  # equal variances differ by rounding only

    turn_P = _turns(len(variance_P), seed)
    turn_P = turn_P[np.argsort(-variance_P[turn_P], kind="stable")]

    before_P = np.cumsum(variance_P[turn_P]) - variance_P[turn_P]
    preferred_P = np.empty(len(turn_P), dtype=bool)
    preferred_P[turn_P] = before_P < p * variance_P.sum() - _EQUAL
    return _keep_whole_groups(rewards_P_N, rows, preferred_P=preferred_P, turn_P=turn_P, seed=seed)


def contrast_of_best_sets(order: Order) -> Floats:
    r"""The worth of the best j rollouts of each group, j = 0..n, shape (P, n + 1).

    The best sets are nested: the best j + 1 rollouts are the best j and one more, the lowest or the
    highest of what is left, whichever is farther from their mean (proof in docs/theory.md). A value
    x that is added to j values of mean :math:`\mu` raises their sum of squared deviations by

    .. math:: (x - \mu)^2 \, j / (j + 1)

    so one walk from both ends gives all of them, for all groups at once. The worth is the root of
    that sum. A little is taken off for rows of a group without contrast, which so come last, and
    for j^2, which spreads equal choices evenly over the groups.

    Returns:
        Worths in units of half the widest group's range; -inf where a group has fewer than j
        scorable rollouts.

    >>> rewards_P_N = np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    >>> contrast_of_best_sets(sort_groups(rewards_P_N, seed=None))[:, 2:].round(3)
    array([[1.414, 1.633, 2.   ],
           [1.414, 1.633, 1.732]])
    """
    ascending_P_N = order.ascending_P_N
    count_P = order.count_P_1[:, 0]
    groups, n = ascending_P_N.shape
    every_P = np.arange(groups)

    # Shifted to each group's middle and scaled by the widest range, for precision. Halves are
    # subtracted, since the difference of two large rewards may not be a finite number.
    half_low_P = ascending_P_N[:, 0] / 2
    half_high_P = ascending_P_N[every_P, np.maximum(count_P - 1, 0)] / 2
    half_range_P = np.nan_to_num(half_high_P - half_low_P)
    widest = half_range_P.max(initial=0.0) or 1.0
    middle_P_1 = (half_low_P + half_high_P)[:, None]
    # Rollouts first, so that a step over all groups reads memory in order; as a copy of its own,
    # since `take` copies a transposed view as a whole each time.
    x_P_N = np.nan_to_num((ascending_P_N - middle_P_1) / widest)
    x_N_P = np.ascontiguousarray(x_P_N.T)

    # Where the next lowest and highest of each group stand in x_N_P.flat.
    next_low_P = every_P.copy()
    next_high_P = (count_P - 1) * groups + every_P
    mean_P = np.zeros(groups)
    square_J_P = np.zeros((n + 1, groups))

    for j in range(n):
        below_P = mean_P - x_N_P.take(next_low_P, mode="clip")
        above_P = x_N_P.take(next_high_P, mode="clip") - mean_P
        takes_high_P = above_P > below_P
        step_P = np.where(takes_high_P, above_P, -below_P)  # x - mean

        is_there_P = j < count_P
        square_J_P[j + 1] = square_J_P[j] + step_P * step_P * (j / (j + 1)) * is_there_P
        mean_P += step_P / (j + 1)
        next_low_P += groups * ~takes_high_P
        next_high_P -= groups * takes_high_P

    j_J = np.arange(n + 1)
    without_contrast_P_1 = (half_range_P <= 0)[:, None]
    worth_P_J: Floats = np.sqrt(square_J_P).T
    worth_P_J = worth_P_J - _NO_CONTRAST * without_contrast_P_1 * j_J - _EQUAL * j_J**2.0
    return np.where(j_J > count_P[:, None], -np.inf, worth_P_J)


def _keep_whole_groups(
    rewards_P_N: Floats, rows: int, *, preferred_P: Mask, turn_P: Integers, seed: Seed
) -> Mask:
    """Whole groups, until there are enough rows.

    Preferred groups with contrast come first. Then come those without contrast, whose rows have no
    gradient, so that the update is that of the preferred ones. Other groups with contrast come
    last. Within each of these three classes the order is that of their turns.
    """
    order = sort_groups(rewards_P_N, seed)
    _, square_P, _ = _moments(rewards_P_N, each_group=True)

    has_contrast_P = square_P > 0
    class_P = np.full(len(rewards_P_N), 2)
    class_P[~has_contrast_P] = 1
    class_P[has_contrast_P & preferred_P] = 0
    turn_P = turn_P[np.argsort(class_P[turn_P], kind="stable")]

    # Rows are handed out until there are none; the last group that gets some may be cut.
    count_P = order.count_P_1[turn_P, 0]
    left_P = rows - (np.cumsum(count_P) - count_P)
    share_P = np.empty_like(count_P)
    share_P[turn_P] = np.clip(left_P, 0, count_P)
    return _keep_shares(order, share_P)


def _keep_shares(order: Order, share_P: Integers) -> Mask:
    """Keep as many rollouts of each group as its share says, by `max_variance`."""
    kept_P_N = np.zeros(order.rollout_P_N.shape, dtype=bool)
    for share in np.unique(share_P[share_P > 0]).tolist():
        groups = np.flatnonzero(share_P == share)
        order_of_groups = Order._make(column[groups] for column in order)
        kept_P_N[groups[:, None], best_of_sorted(order_of_groups, share)] = True
    return kept_P_N


def _mask(places: Any, shape: tuple[int, ...]) -> Mask:
    """True at these places of the flattened batch."""
    kept_P_N = np.zeros(shape, dtype=bool)
    kept_P_N.flat[places] = True
    return kept_P_N


def _turns(groups: int, seed: Seed) -> Integers:
    """The groups in the order in which equal ones are taken."""
    turn_P = np.arange(groups)
    return turn_P if seed is None else np.random.default_rng(seed).permutation(turn_P)


def _advantages(rewards_P_N: Floats) -> Floats:
    """Rewards relative to their group's mean, in standard deviations of all n.

    They are rounded to 9 digits, since equal advantages of two groups differ by rounding.
    """
    away_P_N, square_P, count_P = _moments(rewards_P_N, each_group=True)
    deviation_P = np.sqrt(square_P / np.maximum(count_P - 1, 1))
    divisor_P = np.where(deviation_P > 0, deviation_P, 1.0)
    return np.round(away_P_N / divisor_P[:, None], 9)


def _moments(rewards_P_N: Floats, *, each_group: bool) -> tuple[Floats, Floats, Integers]:
    """Rewards less their group's mean; the sum of their squares and the number of scored ones.

    Rewards are scaled into [0, 1] first, by each group's own range, or by the widest one so that
    groups can be compared.

    Args:
        rewards_P_N: The rewards; NaN where a rollout could not be scored.
        each_group: Whether each group is scaled by its own range.

    Returns:
        away_P_N, square_P, and count_P, which is 1 where no rollout was scored.
    """
    # Halves are subtracted, since the difference of two large rewards may not be a finite number.
    half_low_P_1 = np.fmin.reduce(rewards_P_N, axis=1, keepdims=True) / 2
    half_range = np.fmax.reduce(rewards_P_N, axis=1, keepdims=True) / 2 - half_low_P_1
    if not each_group:
        half_range = np.fmax.reduce(half_range)
    x_P_N = (rewards_P_N / 2 - half_low_P_1) / np.where(half_range > 0, half_range, 1.0)

    count_P = np.maximum(1, (~np.isnan(x_P_N)).sum(axis=1))
    mean_P = np.nansum(x_P_N, axis=1) / count_P
    away_P_N = x_P_N - mean_P[:, None]
    return away_P_N, np.nansum(np.square(away_P_N), axis=1), count_P
