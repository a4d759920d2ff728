"""Helpers of the rules: rewards in order, ties between equal ones, keeping both ends."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Seed = int | list[int] | None  # what numpy's SeedSequence takes


class Order(NamedTuple):
    """The rollouts of each group by reward."""

    ascending_P_N: Floats  # the rewards, unscorable ones (NaN) last
    rollout_P_N: Integers  # which rollout each of them belongs to
    count_P_1: Integers  # how many rollouts of the group are scorable


def sort_groups(rewards_P_N: Floats, seed: Seed) -> Order:
    """Sort each group; equal rewards by the rollouts' indices, or at random with a seed."""
    if seed is None:
        rollout_P_N = np.argsort(rewards_P_N, axis=-1, kind="stable")
    else:
        keys_P_N = np.random.default_rng(seed).random(rewards_P_N.shape)
        rollout_P_N = np.lexsort((keys_P_N, rewards_P_N), axis=-1)

    ascending_P_N = np.take_along_axis(rewards_P_N, rollout_P_N, axis=-1)
    count_P_1 = (~np.isnan(ascending_P_N)).sum(axis=-1, keepdims=True)
    return Order(ascending_P_N, rollout_P_N, count_P_1)


def keep_ends(order: Order, m: int, high_P_1: Integers | int) -> Integers:
    """The m - high lowest and the `high` highest rewards of each group; of equal ones the first.

    A group with fewer than m scorable rollouts keeps all of them, and then unscorable ones.
    """
    ascending_P_N, rollout_P_N, count_P_1 = order
    j_M = np.arange(m)
    low_P_1 = m - high_P_1

    # Places in the sorted group: the first `low` ones, then, after a gap, the last `high` ones.
    gap_P_1 = np.maximum(count_P_1 - m, 0)
    place_P_M = j_M + gap_P_1 * (j_M >= low_P_1)

    # The highest places may begin inside a run of equal rewards, of which they are the last ones.
    # The order inside a run is what breaks ties, so its first free places are taken instead.
    first_high_P_1 = np.clip(low_P_1 + gap_P_1, 0, count_P_1 - 1)
    least_P_1 = np.take_along_axis(ascending_P_N, first_high_P_1, axis=-1)
    run_start_P_1 = (ascending_P_N < least_P_1).sum(axis=-1, keepdims=True)
    in_run_P_M = np.take_along_axis(ascending_P_N, place_P_M, axis=-1) == least_P_1
    moved_P_M = j_M + np.maximum(run_start_P_1 - low_P_1, 0)
    place_P_M = np.where(in_run_P_M & (j_M >= low_P_1), moved_P_M, place_P_M)

    return np.take_along_axis(rollout_P_N, place_P_M, axis=-1)
