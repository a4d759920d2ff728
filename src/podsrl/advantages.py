"""Group-relative advantages of the kept rollouts: the one place where they are computed."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from podsrl.arrays import Array, as_array, as_rewards, like
from podsrl.errors import InvalidInputError

#: Which rewards of each group the kept ones are compared to, from the mask of the kept rollouts:
#: these (arXiv 2504.13818, algorithm 1), or all n (Reinforce-Ada, arXiv 2510.04996).
BASELINES: dict[str, Callable[[Any], Any]] = {
    "kept": lambda kept_P_N: kept_P_N,
    "group": lambda kept_P_N: kept_P_N | True,
}


def group_advantages(
    rewards_P_N: Any,
    kept: Any,
    baseline: Literal["kept", "group"] = "kept",
    scale: bool = True,
    eps: float = 1e-4,
    correction: int = 1,
) -> Any:
    r"""Advantages of the kept rollouts, normalised within their group.

    .. math:: a_i = (r_i - \mathrm{mean}(R)) / (\mathrm{std}(R) + \epsilon), \quad i \in S

    R are the rewards that the baseline names. A NaN reward (could not be scored) counts in neither
    mean nor standard deviation, and gets advantage 0.

    Args:
        rewards_P_N: Rewards, shape (..., n); numpy, torch or nested lists.
        kept: Indices from `downsample`, shape (..., m), or booleans from `downsample_batch`, shape
            (..., n).
        baseline: What advantages are relative to: the "kept" rewards, or those of all n rollouts
            of the "group"; a name in `BASELINES`.
        scale: Whether to divide by the standard deviation; False gives r - mean (Dr. GRPO).
        eps: A number that is added to the standard deviation, in units of reward.
        correction: 1 for the unbiased standard deviation, 0 for that of a whole population.

    Returns:
        The advantages, of the kind of `rewards_P_N` and of the shape of `kept`; 0 where `kept` is
        False.

    Raises:
        InvalidInputError: An unknown baseline, shapes that don't match, indices out of range.

    >>> group_advantages([0.0, 0.0, 1.0], [0, 2], eps=0.0)  # mean 1/2, std sqrt(1/2)
    [-0.7071067811865475, 0.7071067811865475]
    """
    rewards, chosen = as_rewards(rewards_P_N), as_array(kept)
    if baseline not in BASELINES:
        raise InvalidInputError(f"unknown baseline {baseline!r}; allowed: {', '.join(BASELINES)}")
    kept_P_N = _mask_of(chosen, rewards.shape)
    counted = BASELINES[baseline](kept_P_N) & ~np.isnan(rewards)
    count = counted.sum(axis=-1, keepdims=True)
    total = np.where(counted, rewards, 0.0).sum(axis=-1, keepdims=True)
    advantages = rewards - total / np.maximum(count, 1)
    rounding = count * np.finfo(np.float64).eps * np.abs(rewards)  # of a mean of equal rewards
    advantages = np.where(np.abs(advantages) <= rounding, 0.0, advantages)
    if scale:
        squares = np.where(counted, advantages**2, 0.0).sum(axis=-1, keepdims=True)
        divisor = np.sqrt(squares / np.maximum(count - correction, 1)) + eps
        # eps = 0 and all rewards equal: 0/0, and the advantage is 0
        advantages = advantages / np.where(divisor > 0, divisor, 1.0)
    advantages = np.where(kept_P_N & ~np.isnan(advantages), advantages, 0.0)
    if chosen.dtype != bool:
        advantages = np.take_along_axis(advantages, chosen, axis=-1)
    return like(rewards_P_N, advantages)


def _mask_of(chosen: Array, shape: tuple[int, ...]) -> Array:
    """What is kept as booleans of this shape, from such booleans or from indices."""
    by_index = chosen.dtype != bool
    same = slice(-1) if by_index else slice(None)
    if shape[same] != chosen.shape[same]:
        raise InvalidInputError(
            f"rewards {shape} and kept {chosen.shape} must have the same dimensions,"
            " except for the last where kept holds indices"
        )
    if not by_index:
        return chosen
    if chosen.dtype.kind not in "iu" or ((chosen < 0) | (chosen >= shape[-1])).any():
        raise InvalidInputError(f"kept must hold booleans, or integers in 0..{shape[-1] - 1}")
    kept_P_N = np.zeros(shape, dtype=bool)
    np.put_along_axis(kept_P_N, chosen, True, axis=-1)
    return kept_P_N
