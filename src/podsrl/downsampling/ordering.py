"""What the rules share: rewards in order, and what decides between equal ones."""

from types import ModuleType
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

Array = Any  # any array that array-api-compat understands: numpy, torch, cupy, jax
Seed = int | list[int] | None  # what numpy's SeedSequence takes


def random_keys(rewards_P_N: Array, seed: Seed) -> Array:
    """Uniform float64 keys, one per rollout: the same for numpy and for torch on any device."""
    xp = array_namespace(rewards_P_N)
    keys = np.random.default_rng(seed).random(tuple(rewards_P_N.shape))
    return xp.asarray(keys, device=device(rewards_P_N))


def shuffle_groups(rewards_P_N: Array, seed: Seed) -> tuple[Array, Array | None]:
    """Rewards in an order that decides between equal ones: as they are, or random with a seed.

    Returns:
        The rewards, and the rollout that each belongs to; None without a seed: nothing moved.
    """
    if seed is None:
        return rewards_P_N, None
    xp = array_namespace(rewards_P_N)
    rollout = xp.argsort(random_keys(rewards_P_N, seed), axis=-1, stable=False)
    return xp.take_along_axis(rewards_P_N, rollout, axis=-1), rollout


def sort_groups(rewards_P_N: Array, seed: Seed) -> tuple[Array, Array]:
    """Rollouts by reward, unscorable ones last, and how many are scorable.

    Equal rewards stay in index order, or go in random order with a seed.

    Returns:
        order_P_N and count_P_1.
    """
    xp = array_namespace(rewards_P_N)
    rewards, rollout = shuffle_groups(rewards_P_N, seed)
    order = xp.argsort(rewards, axis=-1, stable=True)  # NaN last, in every library
    if rollout is not None:
        order = xp.take_along_axis(rollout, order, axis=-1)
    scorable = xp.astype(~xp.isnan(rewards_P_N), xp.int64)
    return order, xp.sum(scorable, axis=-1, keepdims=True)


def ramp(xp: ModuleType, stop: int, like: Array) -> Array:
    """0, 1, ..., stop - 1 as int64, on the device of `like`."""
    return xp.arange(stop, dtype=xp.int64, device=device(like))
