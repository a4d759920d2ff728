"""Group rules: which m rollouts of each prompt to keep (arXiv 2504.13818, section 3)."""

import numpy as np

from podsrl.downsampling.ordering import Floats, Integers, Order, Seed, keep_ends, sort_groups

# Scaled rewards span 2, so for m > 1 the best sum of squares is at least 2. Sums closer than this
# differ by rounding only, and count as equal.
_EQUAL = 1e-9


def max_variance(rewards_P_N: Floats, m: int, seed: Seed = None) -> Integers:
    r"""Keep the m rollouts of each group with the largest reward variance.

    .. math:: \arg\max_{S \subseteq [n],\,|S| = m} \mathrm{Var}(\{r_i : i \in S\})

    Exact: an optimal S is the k highest and the m - k lowest rewards for some k (arXiv 2504.13818,
    Lemma 3.1), so one sort and prefix sums find it in O(n log n) per group, for all groups at once.
    Of several best k the one nearest m/2 is taken.

    Args:
        rewards_P_N: float64 rewards of P groups; NaN marks a rollout that could not be scored.
        m: rollouts to keep, 1 <= m <= N.
        seed: breaks ties between equal rewards at random; None takes the lowest index.

    Returns:
        kept_P_M, integer indices, in no particular order.
    """
    return best_of_sorted(sort_groups(rewards_P_N, seed), m)


def best_of_sorted(order: Order, m: int) -> Integers:
    """The choice of `max_variance` for groups that are sorted already."""
    ascending, _, count = order
    k_K = np.arange(m + 1)
    highest = np.take_along_axis(ascending, np.maximum(count - 1 - k_K[:m], 0), axis=-1)
    ends = _scaled(ascending[:, :m], highest)
    sums = np.zeros((2, 2, len(ascending), m + 1))
    np.cumsum([ends, [end**2 for end in ends]], axis=-1, out=sums[..., 1:])
    # over the m - k lowest and the k highest, k = 0..m
    first_P_K, second_P_K = sums[:, 0, :, ::-1] + sums[:, 1]
    squares_P_K = second_P_K - first_P_K**2 / m
    among_best = squares_P_K >= squares_P_K.max(axis=-1, keepdims=True) - _EQUAL
    unbalance = np.where(among_best, np.abs(2 * k_K - m), 2 * m + 1)
    return keep_ends(order, m, unbalance.argmin(axis=-1, keepdims=True))


def _scaled(*ends_P_M: Floats) -> list[Floats]:
    """Both ends' rewards shifted and scaled into [-1, 1], for precision; missing ones are 0."""
    lowest, highest = (end[:, :1] / 2 for end in ends_P_M)
    half_range = np.where(highest > lowest, highest - lowest, 1.0)
    return [np.nan_to_num((end - (lowest + highest)) / half_range) for end in ends_P_M]


def balanced(rewards_P_N: Floats, m: int, seed: Seed = None) -> Integers:
    """Keep the m // 2 highest and the other m - m // 2 lowest rewards of each group.

    Of right and wrong answers that is half of each, filled from the other side where there are too
    few (Reinforce-Ada, arXiv 2510.04996, which takes the baseline over the whole "group").
    The arguments and the result are those of `max_variance`.
    """
    return keep_ends(sort_groups(rewards_P_N, seed), m, high_P_1=m // 2)


def max_reward(rewards_P_N: Floats, m: int, seed: Seed = None) -> Integers:
    """Keep the m highest rewards of each group. The rest is as in `max_variance`."""
    return keep_ends(sort_groups(rewards_P_N, seed), m, high_P_1=m)


def random(rewards_P_N: Floats, m: int, seed: Seed = None) -> Integers:
    """Keep m scorable rollouts of each group, drawn uniformly; without a seed anew each time."""
    keys = np.random.default_rng(seed).random(rewards_P_N.shape)
    return np.argsort(keys + np.isnan(rewards_P_N), axis=-1)[:, :m]  # unscorable ones come last


def percentile(rewards_P_N: Floats, m: int, seed: Seed = None) -> Integers:
    """Keep the sorted rewards at the quantiles (i + 0.5)/m, i = 0..m-1, of each group."""
    _, rollout, count = sort_groups(rewards_P_N, seed)
    i_M = np.arange(m)
    place = np.where(count < m, i_M, (2 * i_M + 1) * count // (2 * m))
    return np.take_along_axis(rollout, place, axis=-1)
