"""Down-sampling of groups that need not have the same size."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from podsrl.downsampling.across_prompts import downsample_batch
from podsrl.downsampling.ordering import Seed
from podsrl.downsampling.registry import Rule, downsample, refuse_infinite


def downsample_ragged(
    rewards: Sequence[Any],
    m: int,
    rule: str | Rule = "max_variance",
    seed: Seed = None,
) -> list[list[int]]:
    """`downsample` of each group; one of at most m rollouts (some failed) is kept whole.

    Args:
        rewards: rewards of each group, 1-d arrays or lists; NaN means "could not be scored".
        m, rule, seed: as in `downsample`. The same seed gives the same choice for the same groups
            in the same order.

    Returns:
        For each group its kept indices, ascending.

    Raises:
        InvalidInputError, UnknownNameError: as in `downsample`.

    >>> downsample_ragged([[0.0, 0.0, 1.0], [0.5]], m=2)
    [[0, 2], [0]]
    """
    kept = [list(range(len(group))) for group in rewards]
    by_size: dict[int, list[int]] = defaultdict(list)
    for i, group in enumerate(rewards):
        if len(group) > m:
            by_size[len(group)].append(i)
        else:
            refuse_infinite(np.asarray(group, dtype=np.float64))
    for where in by_size.values():
        rewards_P_N = np.array([rewards[i] for i in where], dtype=np.float64)
        for i, kept_M in zip(where, downsample(rewards_P_N, m, rule, seed).tolist(), strict=True):
            kept[i] = kept_M
    return kept


def downsample_ragged_batch(
    rewards: Sequence[Any], rows: int, seed: Seed = None
) -> list[list[int]]:
    """`downsample_batch` of groups of any sizes; all are kept where there are fewer than `rows`.

    Args:
        rewards, seed: as in `downsample_ragged`.
        rows: to keep in all.

    Returns:
        For each group its kept indices, ascending.

    >>> downsample_ragged_batch([[0.0, 0.0, 1.0], [0.5]], rows=2)
    [[0, 2], []]
    """
    widest = max((len(group) for group in rewards), default=0)
    rewards_P_N = np.full((len(rewards), widest), np.nan)
    there_P_N = np.zeros(rewards_P_N.shape, dtype=bool)
    for i, group in enumerate(rewards):
        rewards_P_N[i, : len(group)], there_P_N[i, : len(group)] = group, True
    scorable_P_N = ~np.isnan(rewards_P_N)
    spare = rows - int(scorable_P_N.sum())
    if spare < 0:
        kept_P_N = downsample_batch(rewards_P_N, rows, seed)
    else:  # unscorable ones too, never the places that a shorter group has not
        refuse_infinite(rewards_P_N)
        kept_P_N = scorable_P_N.copy()
        places = np.argwhere(there_P_N & ~scorable_P_N)[:spare]
        kept_P_N[tuple(places.T)] = True
    return [np.flatnonzero(kept_N).tolist() for kept_N in kept_P_N]
