"""What the rules share: rewards in order, what decides between equal ones, keeping both ends."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Seed = int | list[int] | None  # what numpy's SeedSequence takes


class Order(NamedTuple):
    """The rollouts of each group by reward."""

    ascending_P_N: Floats  # the rewards, unscorable ones (NaN) last
    rollout_P_N: Integers  # which rollout each of them belongs to
    count_P_1: Integers  # how many rollouts of the group are scorable


def sort_groups(rewards_P_N: Floats, seed: Seed) -> Order:
    """Sort each group; equal rewards by the rollouts' indices, or at random with a seed."""
    if seed is None:
        rollout = np.argsort(rewards_P_N, axis=-1, kind="stable")
    else:
        keys = np.random.default_rng(seed).random(rewards_P_N.shape)
        rollout = np.lexsort((keys, rewards_P_N), axis=-1)
    ascending = np.take_along_axis(rewards_P_N, rollout, axis=-1)
    return Order(ascending, rollout, (~np.isnan(ascending)).sum(axis=-1, keepdims=True))


def keep_ends(order: Order, m: int, high_P_1: Integers | int) -> Integers:
    """The m - high lowest and the `high` highest rewards of each group; of equal ones the first.

    A group with fewer than m scorable rollouts keeps all of them, and then unscorable ones.
    """
    ascending, rollout, count = order
    j_M, low = np.arange(m), m - high_P_1
    skipped = np.maximum(count - m, 0)  # places between the two ends
    place = j_M + skipped * (j_M >= low)
    # The last places of a run of equal rewards: take its first free ones.
    least = np.take_along_axis(ascending, np.clip(low + skipped, 0, count - 1), axis=-1)
    run = (ascending < least).sum(axis=-1, keepdims=True)
    in_run = np.take_along_axis(ascending, place, axis=-1) == least
    place = np.where(in_run & (j_M >= low), j_M + np.maximum(run - low, 0), place)
    return np.take_along_axis(rollout, place, axis=-1)
