"""Group-relative advantages of the kept rollouts: the one place where they are computed."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace, device

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
) -> Any:
    r"""Advantages of the kept rollouts, normalised within their group.

    .. math:: a_i = (r_i - \mathrm{mean}(R)) / (\mathrm{std}(R) + \epsilon), \quad i \in S

    R are the rewards that the baseline names. The standard deviation is the unbiased one. A NaN
    reward (could not be scored) counts in neither and gets advantage 0.

    Args:
        rewards_P_N: Rewards, shape (..., n); numpy, torch or nested lists.
        kept: Indices from `downsample`, shape (..., m), or booleans from `downsample_batch`, shape
            (..., n).
        baseline: What advantages are relative to: the "kept" rewards, or those of all n rollouts
            of the "group"; a name in `BASELINES`.
        scale: Whether to divide by the standard deviation; False gives r - mean (Dr. GRPO).
        eps: A number that is added to the standard deviation, in units of reward.

    Returns:
        The advantages, of the kind of `rewards_P_N` and of the shape of `kept`; 0 where `kept` is
        False.

    Raises:
        InvalidInputError: An unknown baseline, shapes that don't match, indices out of range.

    >>> group_advantages([0.0, 0.0, 1.0], [0, 2], eps=0.0)  # mean 1/2, std sqrt(1/2)
    [-0.7071067811865475, 0.7071067811865475]
    """
    as_lists = isinstance(rewards_P_N, (list, tuple))
    rewards = np.asarray(rewards_P_N, dtype=np.float64) if as_lists else rewards_P_N
    chosen = np.asarray(kept) if isinstance(kept, (list, tuple)) else kept
    xp = array_namespace(rewards)
    if not xp.isdtype(rewards.dtype, "real floating"):
        rewards = xp.astype(rewards, xp.float64)
    _check(rewards, chosen, baseline)
    by_index = not xp.isdtype(chosen.dtype, "bool")
    kept_P_N = chosen
    if by_index:
        places_N = xp.arange(rewards.shape[-1], device=device(rewards))
        kept_P_N = xp.any(chosen[..., :, None] == places_N, axis=-2)

    counted = BASELINES[baseline](kept_P_N) & ~xp.isnan(rewards)
    zeros = xp.zeros_like(rewards)
    count = xp.sum(xp.astype(counted, rewards.dtype), axis=-1, keepdims=True)
    ones = xp.ones_like(count)
    total = xp.sum(xp.where(counted, rewards, zeros), axis=-1, keepdims=True)
    mean = total / xp.maximum(count, ones)
    advantages = rewards - mean
    if scale:
        squares = xp.where(counted, advantages**2, zeros)
        variance = xp.sum(squares, axis=-1, keepdims=True) / xp.maximum(count - 1, ones)
        deviation = xp.sqrt(variance)
        # eps = 0 and all rewards equal: 0/0, and the advantage is 0
        divisor = xp.where(deviation + eps > 0, deviation + eps, xp.ones_like(deviation))
        advantages = advantages / divisor
    advantages = xp.where(kept_P_N & ~xp.isnan(advantages), advantages, zeros)
    if by_index:
        advantages = xp.take_along_axis(advantages, chosen, axis=-1)
    return advantages.tolist() if as_lists else advantages


def _check(rewards: Any, kept: Any, baseline: str) -> None:
    if baseline not in BASELINES:
        raise InvalidInputError(f"unknown baseline {baseline!r}; allowed: {', '.join(BASELINES)}")
    xp = array_namespace(kept)
    same = slice(None) if xp.isdtype(kept.dtype, "bool") else slice(-1)
    if tuple(rewards.shape[same]) != tuple(kept.shape[same]):
        raise InvalidInputError(
            f"rewards {tuple(rewards.shape)} and kept {tuple(kept.shape)} must have the same"
            " dimensions, except for the last where kept holds indices"
        )
    if same.stop and bool(((kept < 0) | (kept >= rewards.shape[-1])).any()):
        raise InvalidInputError(f"kept holds indices outside 0..{rewards.shape[-1] - 1}")
