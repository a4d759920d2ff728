"""The PODS rule: keep the rollouts whose rewards have the largest variance."""

from array_api_compat import array_namespace

from podsrl.downsampling.ordering import Array, Ordered, Seed, keep_ends, ramp, sort_groups

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
    groups = sort_groups(rewards_P_N, seed)
    j_N = ramp(xp, rewards_P_N.shape[-1], rewards_P_N)[None, :]
    scaled_P_N = _centre_and_scale(groups, j_N)

    # sums_P_K[:, k]: sum over the m - k lowest and the k highest, k = 0..m.
    k_K = ramp(xp, m + 1, rewards_P_N)[None, :]
    low_end = m - k_K + xp.zeros_like(groups.count_P_1)
    high_start = xp.maximum(groups.count_P_1 - k_K, xp.zeros_like(k_K))

    def sums(x_P_N: Array) -> Array:
        total = xp.cumulative_sum(x_P_N, axis=-1, include_initial=True)
        low = xp.take_along_axis(total, low_end, axis=-1)
        return low + total[..., -1:] - xp.take_along_axis(total, high_start, axis=-1)

    variance_P_K = sums(scaled_P_N**2) / m - (sums(scaled_P_N) / m) ** 2
    best = xp.max(variance_P_K, axis=-1, keepdims=True)
    among_best = variance_P_K >= best - _EQUAL / m
    unbalance = xp.where(among_best, xp.abs(2 * k_K - m), xp.full_like(k_K, 2 * m + 1))
    high_P_1 = xp.argmin(unbalance, axis=-1, keepdims=True)
    return keep_ends(groups, m, high_P_1)


def _centre_and_scale(groups: Ordered, j_N: Array) -> Array:
    """Sorted rewards shifted and scaled into [-2, 2] around mean 0; unscorable ones are 0.

    Squares are summed only after this, so neither an offset of 1e6 nor a spread of 1e-200 costs
    precision, and no sum overflows.
    """
    values, _, count = groups
    xp = array_namespace(values)
    scorable = j_N < count
    zeros = xp.zeros_like(values)
    last = xp.maximum(count - 1, xp.zeros_like(count))
    lowest = values[..., :1]
    highest = xp.take_along_axis(values, last, axis=-1)
    middle = lowest / 2 + highest / 2
    half_range = highest / 2 - lowest / 2
    half_range = xp.where(half_range > 0, half_range, xp.ones_like(half_range))
    x = xp.where(scorable, (values - middle) / half_range, zeros)
    mean = xp.sum(x, axis=-1, keepdims=True) / xp.maximum(count, xp.ones_like(count))
    return xp.where(scorable, x - mean, zeros)
