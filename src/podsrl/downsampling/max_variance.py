"""The PODS rule: keep the rollouts whose rewards have the largest variance."""

from array_api_compat import array_namespace

from podsrl.downsampling.ends import Ends, find_ends, keep_ends
from podsrl.downsampling.ordering import Array, Seed, ramp

# Scaled rewards span exactly 2, so for m > 1 the best variance is at least 1/m. Variances closer
# than this fraction of that differ by rounding only, and count as equal.
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
    xp = array_namespace(rewards_P_N)
    ends = find_ends(rewards_P_N, m, seed)
    low_P_M, high_P_M = _centre_and_scale(ends)

    def sums(low_P_M: Array, high_P_M: Array) -> Array:
        """Over the m - k lowest and the k highest, k = 0..m."""
        low = xp.cumulative_sum(low_P_M, axis=-1, include_initial=True)
        high = xp.cumulative_sum(high_P_M, axis=-1, include_initial=True)
        return xp.flip(low, axis=-1) + high

    variance_P_K = sums(low_P_M**2, high_P_M**2) / m - (sums(low_P_M, high_P_M) / m) ** 2
    k_K = ramp(xp, m + 1, rewards_P_N)[None, :]
    best = xp.max(variance_P_K, axis=-1, keepdims=True)
    among_best = variance_P_K >= best - _EQUAL / m
    unbalance = xp.where(among_best, xp.abs(2 * k_K - m), xp.full_like(k_K, 2 * m + 1))
    return keep_ends(ends, xp.argmin(unbalance, axis=-1, keepdims=True))


def _centre_and_scale(ends: Ends) -> tuple[Array, Array]:
    """Both ends' rewards shifted and scaled into [-2, 2] around mean 0; missing ones are 0.

    Squares are summed only after this, so neither an offset of 1e6 nor a spread of 1e-200 costs
    precision, and no sum overflows.
    """
    low, high = ends.lowest_P_M, ends.highest_P_M
    xp = array_namespace(low)
    m = low.shape[-1]
    there = ramp(xp, m, low)[None, :] < ends.count_P_1
    zeros = xp.zeros_like(low)
    low, high = xp.where(there, low, zeros), xp.where(there, high, zeros)
    lowest, highest = low[..., :1], high[..., :1]
    middle = lowest / 2 + highest / 2
    half_range = highest / 2 - lowest / 2
    half_range = xp.where(half_range > 0, half_range, xp.ones_like(half_range))
    low, high = (low - middle) / half_range, (high - middle) / half_range
    mean = xp.sum(low + high, axis=-1, keepdims=True) / (2 * m)
    return xp.where(there, low - mean, zeros), xp.where(there, high - mean, zeros)
