"""Prompt rules: which m rollouts of each prompt to keep (arXiv 2504.13818, section 3)."""

import numpy as np

from podsrl.rules.ordering import Floats, Integers, Order, Seed, keep_ends, sort_groups
from podsrl.rules.registry import rule

_PODS = "arXiv 2504.13818"

# Scaled rewards span 2, so for m > 1 the best sum of squares is at least 2. Sums closer than this
# differ by rounding only, and count as equal.
_EQUAL = 1e-9


def half_of_each(m: int) -> tuple[int, int]:
    """Half of m lowest and half highest rewards; of an odd m one more of the lowest."""
    return m - m // 2, m // 2


def highest_alone(m: int) -> tuple[int, int]:
    """None of the lowest rewards, and m of the highest."""
    return 0, m


@rule(scope="prompt", least_kept=2, source=_PODS, kept_at_bounds=half_of_each)
def max_variance(rewards_P_N: Floats, m: int, seed: Seed = None) -> Integers:
    r"""Keep the m rollouts of each group with the largest reward variance.

    .. math:: \arg\max_{S \subseteq [n],\,|S| = m} \mathrm{Var}(\{r_i : i \in S\})

    Exact: an optimal S is the k highest and the m - k lowest rewards for some k (arXiv 2504.13818,
    Lemma 3.1), so one sort and prefix sums find it in O(n log n) per group, for all groups at once.
    Among several best k it takes the one nearest to m/2.

    Args:
        rewards_P_N: float64 rewards of P groups; NaN marks a rollout that could not be scored.
        m: The number of rollouts to keep, 1 <= m <= N.
        seed: Breaks ties between equal rewards at random; None takes the lowest index.

    Returns:
        kept_P_M, integer indices, in no particular order.
    """
    return best_of_sorted(sort_groups(rewards_P_N, seed), m)


@rule(scope="prompt", least_kept=2, source="arXiv 2510.04996", kept_at_bounds=half_of_each)
def balanced(rewards_P_N: Floats, m: int, seed: Seed = None) -> Integers:
    """Keep the m // 2 highest and the other m - m // 2 lowest rewards of each group.

    With right and wrong answers it keeps half of each; if one kind has too few, the other fills up
    (Reinforce-Ada, arXiv 2510.04996, with the baseline of the whole "group").
    The arguments and the result are those of `max_variance`.
    """
    return keep_ends(sort_groups(rewards_P_N, seed), m, high_P_1=m // 2)


@rule(
    scope="prompt",
    source=f"{_PODS}; alone: RAFT, arXiv 2504.11343",
    kept_at_bounds=highest_alone,
)
def max_reward(rewards_P_N: Floats, m: int, seed: Seed = None) -> Integers:
    """Keep the m highest rewards of each group. The rest is as in `max_variance`."""
    return keep_ends(sort_groups(rewards_P_N, seed), m, high_P_1=m)


@rule(scope="prompt", source=_PODS)
def random(rewards_P_N: Floats, m: int, seed: Seed = None) -> Integers:
    """Keep m scorable rollouts of each group, drawn uniformly; without a seed anew each time."""
    keys_P_N = np.random.default_rng(seed).random(rewards_P_N.shape)
    keys_P_N += np.isnan(rewards_P_N)  # unscorable ones come last
    return np.argsort(keys_P_N, axis=-1)[:, :m]


@rule(scope="prompt", least_kept=2, source=_PODS)
def percentile(rewards_P_N: Floats, m: int, seed: Seed = None) -> Integers:
    """Keep the sorted rewards at the quantiles (i + 0.5)/m, i = 0..m-1, of each group."""
    _, rollout_P_N, count_P_1 = sort_groups(rewards_P_N, seed)
    i_M = np.arange(m)
    quantile_P_M = (2 * i_M + 1) * count_P_1 // (2 * m)
    place_P_M = np.where(count_P_1 < m, i_M, quantile_P_M)
    return np.take_along_axis(rollout_P_N, place_P_M, axis=-1)


def best_of_sorted(order: Order, m: int) -> Integers:
    """The choice of `max_variance` for groups that are sorted already."""
    ascending_P_N, _, count_P_1 = order
    k_K = np.arange(m + 1)  # how many of the highest rewards are kept, 0..m

    lowest_P_M = ascending_P_N[:, :m]
    highest_P_M = np.take_along_axis(ascending_P_N, np.maximum(count_P_1 - 1 - k_K[:m], 0), axis=-1)
    lowest_P_M, highest_P_M = _scaled(lowest_P_M, highest_P_M)

    # Sums and sums of squares over the m - k lowest and the k highest rewards, for every k.
    sum_P_K = _prefix_sums(lowest_P_M)[:, ::-1] + _prefix_sums(highest_P_M)
    square_P_K = _prefix_sums(lowest_P_M**2)[:, ::-1] + _prefix_sums(highest_P_M**2)
    deviation_P_K = square_P_K - sum_P_K**2 / m  # m times the variance

    among_best_P_K = deviation_P_K >= deviation_P_K.max(axis=-1, keepdims=True) - _EQUAL
    unbalance_P_K = np.where(among_best_P_K, np.abs(2 * k_K - m), 2 * m + 1)
    return keep_ends(order, m, unbalance_P_K.argmin(axis=-1, keepdims=True))


def _prefix_sums(values_P_M: Floats) -> Floats:
    """The sums of the first 0, 1, ..., m values of each group, shape (P, m + 1)."""
    sums_P_K = np.zeros((len(values_P_M), values_P_M.shape[1] + 1))
    np.cumsum(values_P_M, axis=-1, out=sums_P_K[:, 1:])
    return sums_P_K


def _scaled(lowest_P_M: Floats, highest_P_M: Floats) -> tuple[Floats, Floats]:
    """Both ends' rewards shifted and scaled into [-1, 1], for precision; missing ones are 0.

    Halves are subtracted, since the difference of two large rewards may not be a finite number.
    """
    half_low_P_1 = lowest_P_M[:, :1] / 2
    half_high_P_1 = highest_P_M[:, :1] / 2
    middle_P_1 = half_low_P_1 + half_high_P_1
    half_range_P_1 = np.where(half_high_P_1 > half_low_P_1, half_high_P_1 - half_low_P_1, 1.0)
    return (
        np.nan_to_num((lowest_P_M - middle_P_1) / half_range_P_1),
        np.nan_to_num((highest_P_M - middle_P_1) / half_range_P_1),
    )
