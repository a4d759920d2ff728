"""When to stop generating for a prompt, in rounds: once its kept set can no longer improve."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from podsrl.downsampling.registry import downsample
from podsrl.errors import InvalidInputError, RewardError

_ROUNDING = 1e-6  # of the range: rewards are sums


def can_improve(
    rewards_P_N: Any, m: int, reward_range: Sequence[float], stop_at: float | None = None
) -> npt.NDArray[np.bool_]:
    """Which prompts' best m rollouts could have a larger variance if more were generated.

    They can't once m/2 rewards are the lowest of the range and m/2 the highest: for rewards of 0
    and 1, m/2 right and m/2 wrong. Then the m that are kept have the same distribution as those of
    all n; docs/rounds.md has the proof. `stop_at` stops sooner, and there the law is approximate.

    Args:
        rewards_P_N: of the rollouts so far, shape (P, n), rollouts in any place. NaN: not
            generated, or could not be scored; neither is evidence.
        m: rollouts to keep; even, unless `stop_at` is given.
        reward_range: the lowest and the highest reward that there can be.
        stop_at: the share of the largest possible standard deviation of m rewards that is enough.

    Returns:
        A mask, shape (P,).

    Raises:
        InvalidInputError: m is odd, and no `stop_at` is given.

    >>> can_improve([[1, 0, 0, np.nan], [0, 0, 0, np.nan]], m=2, reward_range=(0, 1)).tolist()
    [False, True]
    """
    if m % 2 and stop_at is None:
        raise InvalidInputError(
            f"m = {m} is odd, and then no stop leaves the kept set's distribution as it is; take an"
            " even m, or stop_at"
        )
    rewards = np.asarray(rewards_P_N, dtype=np.float64)
    low, high = reward_range
    near = _near(low, high)
    if stop_at is None:
        lowest, highest = rewards <= low + near, rewards >= high - near
        enough = np.minimum(lowest.sum(axis=1), highest.sum(axis=1)) >= m // 2
    else:
        largest = (high - low) * np.sqrt(m // 2 * (m - m // 2)) / m
        kept = np.take_along_axis(rewards, downsample(rewards, m), axis=1)
        enough = kept.std(axis=1) >= stop_at * largest - near  # not with NaN among them
    return ~enough | (not high > low)


def _near(low: float, high: float) -> float:
    """How far a reward in float32 may lie from an end that it stands for."""
    return _ROUNDING * (high - low) + float(np.spacing(np.float32(max(abs(low), abs(high)))))


def refuse_outside(rewards: Any, reward_range: Sequence[float], step: int) -> None:
    """Check the rewards of a step, from 1, against the range that a stop relies on.

    Raises:
        RewardError: one is outside of it.
    """
    low, high = reward_range
    near = _near(low, high)
    values = np.asarray(rewards, dtype=np.float64)
    outside = values[(values < low - near) | (values > high + near)]
    if outside.size:
        raise RewardError(
            f"a reward of {outside[0]:.6g} at step {step} is outside reward_range [{low:g},"
            f" {high:g}]; give the lowest and the highest reward that there can be"
        )
