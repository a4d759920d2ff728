"""Group rules: which m rollouts of each prompt to keep (arXiv 2504.13818, section 3)."""

from array_api_compat import array_namespace

from podsrl.downsampling.ordering import (
    Array,
    Order,
    Seed,
    keep_ends,
    ramp,
    random_keys,
    sort_groups,
)

# Scaled rewards span 2, so for m > 1 the best sum of squares is at least 2. Sums closer than this
# differ by rounding only, and count as equal.
_EQUAL = 1e-9


def max_variance(rewards_P_N: Array, m: int, seed: Seed = None) -> Array:
    r"""Keep the m rollouts of each group with the largest reward variance.

    .. math:: \arg\max_{S \subseteq [n],\,|S| = m} \mathrm{Var}(\{r_i : i \in S\})

    Exact: an optimal S is the k highest and the m - k lowest rewards for some k (arXiv 2504.13818,
    Lemma 3.1), so one sort and prefix sums find it in O(n log n) per group, for all groups at once
    and without a device synchronisation. Of several best k the one nearest m/2 is taken.

    Args:
        rewards_P_N: float64 rewards of P groups; NaN marks a rollout that could not be scored.
        m: rollouts to keep, 1 <= m <= N.
        seed: breaks ties between equal rewards at random; None takes the lowest index.

    Returns:
        kept_P_M, integer indices, in no particular order.
    """
    return best_of_sorted(sort_groups(rewards_P_N, seed), m)


def best_of_sorted(order: Order, m: int) -> Array:
    """The choice of `max_variance` for groups that are sorted already."""
    xp = array_namespace(order.ascending_P_N)
    k_K = ramp(xp, m + 1, order.ascending_P_N)[None, :]
    highest = xp.take_along_axis(
        order.ascending_P_N, xp.clip(order.count_P_1 - 1 - k_K[..., :m], 0), axis=-1
    )
    low_P_M, high_P_M = _scale(order.ascending_P_N[..., :m], highest)

    def sums(low_P_M: Array, high_P_M: Array) -> Array:
        """Over the m - k lowest and the k highest, k = 0..m."""
        low = xp.cumulative_sum(low_P_M, axis=-1, include_initial=True)
        return xp.flip(low, axis=-1) + xp.cumulative_sum(high_P_M, axis=-1, include_initial=True)

    squares_P_K = sums(low_P_M**2, high_P_M**2) - sums(low_P_M, high_P_M) ** 2 / m
    among_best = squares_P_K >= xp.max(squares_P_K, axis=-1, keepdims=True) - _EQUAL
    unbalance = xp.where(among_best, xp.abs(2 * k_K - m), 2 * m + 1)
    return keep_ends(order, m, xp.argmin(unbalance, axis=-1, keepdims=True))


def _scale(low_P_M: Array, high_P_M: Array) -> tuple[Array, Array]:
    """Both ends' rewards shifted and scaled into [-1, 1]; missing ones (NaN) are 0.

    Squares are summed only after this, so neither an offset of 1e6 nor a spread of 1e-200 costs
    precision, and no sum overflows.
    """
    xp = array_namespace(low_P_M)
    lowest, highest = low_P_M[..., :1] / 2, high_P_M[..., :1] / 2
    half_range = xp.where(highest > lowest, highest - lowest, 1.0)

    def scaled(rewards_P_M: Array) -> Array:
        rewards_P_M = (rewards_P_M - (lowest + highest)) / half_range
        return xp.where(xp.isnan(rewards_P_M), 0.0, rewards_P_M)

    return scaled(low_P_M), scaled(high_P_M)


def balanced(rewards_P_N: Array, m: int, seed: Seed = None) -> Array:
    """Keep the m // 2 highest and the other m - m // 2 lowest rewards of each group.

    Of right and wrong answers that is half of each, filled from the other side where there are too
    few (Reinforce-Ada, arXiv 2510.04996, which takes the baseline over the whole "group").
    The arguments and the result are those of `max_variance`.
    """
    order = sort_groups(rewards_P_N, seed)
    return keep_ends(order, m, 0 * order.count_P_1 + m // 2)


def max_reward(rewards_P_N: Array, m: int, seed: Seed = None) -> Array:
    """Keep the m highest rewards of each group.

    The arguments and the result are those of `max_variance`.
    """
    order = sort_groups(rewards_P_N, seed)
    return keep_ends(order, m, 0 * order.count_P_1 + m)


def random(rewards_P_N: Array, m: int, seed: Seed = None) -> Array:
    """Keep m scorable rollouts of each group, uniformly without replacement.

    The arguments and the result are those of `max_variance`; without a seed every call draws anew.
    """
    xp = array_namespace(rewards_P_N)
    keys = random_keys(rewards_P_N, seed)
    keys = xp.where(xp.isnan(rewards_P_N), keys + 1, keys)  # unscorable ones come last
    return xp.argsort(keys, axis=-1)[..., :m]


def percentile(rewards_P_N: Array, m: int, seed: Seed = None) -> Array:
    """Keep the sorted rewards at the quantiles (i + 0.5)/m, i = 0..m-1, of each group.

    The arguments and the result are those of `max_variance`.
    """
    xp = array_namespace(rewards_P_N)
    _, rollout, count = sort_groups(rewards_P_N, seed)
    i_M = ramp(xp, m, rewards_P_N)[None, :]
    place = xp.where(count < m, i_M, (2 * i_M + 1) * count // (2 * m))
    return xp.take_along_axis(rollout, place, axis=-1)
