"""What every rule shares: rewards in order, and the two ends of that order."""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

Array = Any  # any array that array-api-compat understands: numpy, torch, cupy, jax
Seed = int | list[int] | None  # whatever numpy's SeedSequence takes


class Ordered(NamedTuple):
    """Rewards of each group in ascending order.

    values_P_N: float64, ascending, unscorable rollouts (NaN) last.
    order_P_N: values_P_N[p, j] is the reward of rollout order_P_N[p, j].
    count_P_1: how many rollouts of the group are scorable.
    """

    values_P_N: Array
    order_P_N: Array
    count_P_1: Array


def random_keys(rewards_P_N: Array, seed: Seed) -> Array:
    """Uniform float64 keys, one per rollout: the same for numpy and for torch on any device."""
    xp = array_namespace(rewards_P_N)
    keys = np.random.default_rng(seed).random(tuple(rewards_P_N.shape))
    return xp.asarray(keys, device=device(rewards_P_N))


def sort_groups(rewards_P_N: Array, seed: Seed) -> Ordered:
    """Sort each group; equal rewards stay in index order, or go in random order with a seed."""
    xp = array_namespace(rewards_P_N)
    unscorable = xp.isnan(rewards_P_N)
    sortable = xp.where(unscorable, xp.full_like(rewards_P_N, xp.inf), rewards_P_N)
    if seed is None:
        order = xp.argsort(sortable, axis=-1, stable=True)
    else:
        shuffle = xp.argsort(random_keys(rewards_P_N, seed), axis=-1)
        shuffled = xp.take_along_axis(sortable, shuffle, axis=-1)
        order = xp.take_along_axis(shuffle, xp.argsort(shuffled, axis=-1, stable=True), axis=-1)
    count = xp.sum(xp.astype(~unscorable, xp.int64), axis=-1, keepdims=True)
    return Ordered(xp.take_along_axis(rewards_P_N, order, axis=-1), order, count)


def ramp(xp: ModuleType, stop: int, like: Array) -> Array:
    """0, 1, ..., stop - 1 as int64, on the device of `like`."""
    return xp.arange(stop, dtype=xp.int64, device=device(like))


def keep_ends(groups: Ordered, m: int, high_P_1: Array) -> Array:
    """Keep the m - high lowest and the `high` highest rewards of each group.

    Of equal rewards those that come first in the order are kept, at both ends. A group with fewer
    than m scorable rollouts keeps all of them, and then unscorable ones.
    """
    values, order, count = groups
    xp = array_namespace(values)
    low = xp.where(count < m, xp.full_like(count, m), m - high_P_1)
    j_M = ramp(xp, m, values)[None, :]
    in_high_run = j_M >= low
    position = xp.where(in_high_run, count - m + j_M, j_M + xp.zeros_like(low))

    # The high run may cut through equal rewards; step back to the first of them not yet taken.
    start = xp.clip(count - (m - low), 0, values.shape[-1] - 1)
    at_start = xp.take_along_axis(values, start, axis=-1)
    smaller = xp.sum(xp.astype(values < at_start, xp.int64), axis=-1, keepdims=True)
    step_back = start - xp.maximum(smaller, low)
    tied = in_high_run & (xp.take_along_axis(values, position, axis=-1) == at_start)
    position = xp.where(tied, position - step_back, position)
    return xp.take_along_axis(order, position, axis=-1)
