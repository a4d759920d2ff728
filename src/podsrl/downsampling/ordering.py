"""What the rules share: rewards in order, what decides between equal ones, keeping both ends."""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

Array = Any  # any array that array-api-compat understands: numpy, torch, cupy, jax
Seed = int | list[int] | None  # what numpy's SeedSequence takes


class Order(NamedTuple):
    """The rollouts of each group by reward.

    ascending_P_N: the rewards, unscorable ones (NaN) last.
    rollout_P_N: the rollout each belongs to; equal rewards by index, or at random with a seed.
    count_P_1: how many rollouts of the group are scorable.
    """

    ascending_P_N: Array
    rollout_P_N: Array
    count_P_1: Array


def sort_groups(rewards_P_N: Array, seed: Seed) -> Order:
    """Sort each group, once."""
    xp = array_namespace(rewards_P_N)
    shuffled = None
    if seed is not None:
        shuffled = xp.argsort(random_keys(rewards_P_N, seed), axis=-1, stable=False)
        rewards_P_N = xp.take_along_axis(rewards_P_N, shuffled, axis=-1)
    rollout = xp.argsort(rewards_P_N, axis=-1, stable=True)  # NaN last, in every library
    ascending = xp.take_along_axis(rewards_P_N, rollout, axis=-1)
    if shuffled is not None:
        rollout = xp.take_along_axis(shuffled, rollout, axis=-1)
    count = xp.sum(~xp.isnan(ascending), axis=-1, keepdims=True, dtype=xp.int64)
    return Order(ascending, rollout, count)


def keep_ends(order: Order, m: int, high_P_1: Array) -> Array:
    """The m - high lowest and the `high` highest rewards of each group.

    Of equal rewards those that come first are kept, at both ends. A group with fewer than m
    scorable rollouts keeps all of them, and then unscorable ones.
    """
    ascending, rollout, count = order
    xp = array_namespace(ascending)
    j_M, low = ramp(xp, m, ascending)[None, :], m - high_P_1
    skipped = xp.clip(count - m, 0)  # places between the two ends
    place = j_M + skipped * xp.astype(j_M >= low, xp.int64)
    # The last places of a run of equal rewards: take its first free ones.
    least = xp.take_along_axis(ascending, xp.clip(low + skipped, 0, count - 1), axis=-1)
    run = xp.sum(ascending < least, axis=-1, keepdims=True, dtype=xp.int64)
    in_run = xp.take_along_axis(ascending, place, axis=-1) == least
    place = xp.where(in_run & (j_M >= low), j_M + xp.clip(run - low, 0), place)
    return xp.take_along_axis(rollout, place, axis=-1)


def random_keys(rewards_P_N: Array, seed: Seed) -> Array:
    """Uniform float64 keys, one per rollout: the same for numpy and for torch on any device."""
    xp = array_namespace(rewards_P_N)
    keys = np.random.default_rng(seed).random(tuple(rewards_P_N.shape))
    return xp.asarray(keys, device=device(rewards_P_N))


def ramp(xp: ModuleType, stop: int, like: Array) -> Array:
    """0, 1, ..., stop - 1 as int64, on the device of `like`."""
    return xp.arange(stop, dtype=xp.int64, device=device(like))
