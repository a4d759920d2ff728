"""The rules that max_variance is compared with (arXiv 2504.13818, section 3 and figure 5)."""

from array_api_compat import array_namespace

from podsrl.downsampling.ordering import Array, Seed, keep_ends, ramp, random_keys, sort_groups


def max_reward(rewards_P_N: Array, m: int, seed: Seed = None) -> Array:
    """Keep the m highest rewards of each group.

    Args and result as in `max_variance`.
    """
    order = sort_groups(rewards_P_N, seed)
    return keep_ends(order, m, 0 * order.count_P_1 + m)


def random(rewards_P_N: Array, m: int, seed: Seed = None) -> Array:
    """Keep m scorable rollouts of each group, uniformly without replacement.

    Args and result as in `max_variance`; without a seed every call draws again.
    """
    xp = array_namespace(rewards_P_N)
    keys = random_keys(rewards_P_N, seed)
    keys = xp.where(xp.isnan(rewards_P_N), keys + 1, keys)  # unscorable ones come last
    return xp.argsort(keys, axis=-1)[..., :m]


def percentile(rewards_P_N: Array, m: int, seed: Seed = None) -> Array:
    """Keep the sorted rewards at the quantiles (i + 0.5)/m, i = 0..m-1, of each group.

    Args and result as in `max_variance`.
    """
    xp = array_namespace(rewards_P_N)
    _, rollout, count = sort_groups(rewards_P_N, seed)
    i_M = ramp(xp, m, rewards_P_N)[None, :]
    place = xp.where(count < m, i_M, (2 * i_M + 1) * count // (2 * m))
    return xp.take_along_axis(rollout, place, axis=-1)
