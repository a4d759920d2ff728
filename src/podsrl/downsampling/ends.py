"""The lowest and the highest rewards of each group, and keeping some of each."""

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array

from podsrl.downsampling.ordering import Array, Seed, ramp, shuffle_groups


class Ends(NamedTuple):
    """The m lowest and the m highest rewards of each group.

    rewards_P_N: NaN where unscorable; the group's order decides between equal rewards.
    rollout_P_N: rewards_P_N[p, j] is the reward of rollout rollout_P_N[p, j]; None: of rollout j.
    lowest_P_M: ascending; infinite where the group has no more scorable rollouts.
    highest_P_M: descending; minus infinite there.
    count_P_1: how many rollouts of the group are scorable.
    """

    rewards_P_N: Array
    rollout_P_N: Array | None
    lowest_P_M: Array
    highest_P_M: Array
    count_P_1: Array


def find_ends(rewards_P_N: Array, m: int, seed: Seed) -> Ends:
    """Sort the rewards, not the rollouts: that is several times cheaper."""
    xp = array_namespace(rewards_P_N)
    rewards, rollout = shuffle_groups(rewards_P_N, seed)
    ascending = _ascending(rewards)
    n = rewards.shape[-1]
    unscorable = xp.sum(xp.isnan(rewards), axis=-1, keepdims=True, dtype=xp.int64)
    count = n - unscorable
    j_M = ramp(xp, m, rewards)[None, :]
    lowest = xp.where(j_M < count, ascending[..., :m], xp.inf)
    highest = xp.take_along_axis(ascending, xp.clip(count - 1 - j_M, 0, n - 1), axis=-1)
    highest = xp.where(j_M < count, highest, -xp.inf)
    return Ends(rewards, rollout, lowest, highest, count)


def _ascending(rewards_P_N: Array) -> Array:
    """Each group's rewards in order; NaN last, in every library."""
    xp = array_namespace(rewards_P_N)
    if is_torch_array(rewards_P_N) and rewards_P_N.device.type == "cpu":
        # the same memory, which numpy sorts some twenty times as fast as torch
        return xp.asarray(np.sort(rewards_P_N.detach().numpy(), axis=-1))
    return xp.sort(rewards_P_N, axis=-1, stable=False)


def keep_ends(ends: Ends, high_P_1: Array) -> Array:
    """Keep the m - high lowest and the `high` highest rewards of each group.

    Of equal rewards those that come first in the order are kept, at both ends. A group with fewer
    than m scorable rollouts keeps all of them, and then unscorable ones.
    """
    rewards, rollout, lowest, highest, count = ends
    xp = array_namespace(rewards)
    m = lowest.shape[-1]
    low = xp.where(count < m, xp.full_like(count, m), m - high_P_1)
    # Everything below one reward and above another is kept, and some of those equal to them.
    at_low, from_low = _threshold(lowest, low, -xp.inf, lowest)
    at_high, from_high = _threshold(highest, m - low, xp.inf, -highest)
    met = at_low == at_high
    from_low = xp.where(met, from_low + from_high, from_low)
    from_high = xp.where(met, xp.zeros_like(from_high), from_high)
    unscorable_too = xp.isnan(rewards) & (count < m)
    kept = (rewards < at_low) | (rewards > at_high)
    kept = kept | _first((rewards == at_low) | unscorable_too, from_low)
    kept = kept | _first(rewards == at_high, from_high)
    position = _positions(kept, m)
    return position if rollout is None else xp.take_along_axis(rollout, position, axis=-1)


def _threshold(end_P_M: Array, keep_P_1: Array, none: float, key_P_M: Array) -> tuple[Array, Array]:
    """The last of the first `keep` rewards of an end, and how many equal to it are kept.

    none: the threshold where nothing is kept. key_P_M: the end with its order made ascending.
    """
    xp = array_namespace(end_P_M)
    last = xp.clip(keep_P_1 - 1, 0, end_P_M.shape[-1] - 1)
    at = xp.take_along_axis(end_P_M, last, axis=-1)
    key = xp.take_along_axis(key_P_M, last, axis=-1)
    before = xp.sum(key_P_M < key, axis=-1, keepdims=True, dtype=xp.int64)
    nothing = keep_P_1 == 0
    at = xp.where(nothing, xp.full_like(at, none), at)
    return at, xp.where(nothing, xp.zeros_like(before), keep_P_1 - before)


def _first(equal_P_N: Array, count_P_1: Array) -> Array:
    """The first `count` true places of each group."""
    xp = array_namespace(equal_P_N)
    rank = xp.cumulative_sum(equal_P_N, axis=-1, dtype=xp.int32)
    return equal_P_N & (rank <= count_P_1)


def _positions(kept_P_N: Array, m: int) -> Array:
    """Where each group's m true places are, ascending."""
    xp = array_namespace(kept_P_N)
    groups, n = kept_P_N.shape
    home = device(kept_P_N)
    if str(getattr(home, "type", home)) == "cpu":
        (place,) = xp.nonzero(xp.reshape(kept_P_N, (groups * n,)))
        return xp.reshape(place, (groups, m)) % n
    # elsewhere `nonzero` would wait for the device to learn how many there are
    return xp.argsort(xp.astype(~kept_P_N, xp.uint8), axis=-1, stable=True)[..., :m]
