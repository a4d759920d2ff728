"""Group-relative advantages of the kept rollouts."""

from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace

from podsrl.errors import InvalidInputError

BASELINES = ("kept", "group")


def group_advantages(
    rewards_P_N: Any,
    kept_P_M: Any,
    baseline: Literal["kept", "group"] = "kept",
    scale: bool = True,
    eps: float = 1e-4,
) -> Any:
    r"""Advantages of the kept rollouts, normalised within their group.

    .. math:: a_i = (r_i - \mathrm{mean}(R)) / (\mathrm{std}(R) + \epsilon), \quad i \in S

    R are the kept rewards (arXiv 2504.13818, algorithm 1) or, with ``baseline="group"``, all n.
    The standard deviation is the unbiased one. A NaN reward (could not be scored) counts in neither
    and gets advantage 0.

    Args:
        rewards_P_N: rewards, shape (..., n); numpy, torch or nested lists.
        kept_P_M: indices from `downsample`, shape (..., m).
        baseline: "kept" (the paper) or "group" (ablation).
        scale: divide by the standard deviation; False gives r - mean (Dr. GRPO).
        eps: added to the standard deviation, in units of reward.

    Returns:
        advantages_P_M, of the kind of `rewards_P_N`.

    Raises:
        InvalidInputError: unknown baseline, shapes that don't match, indices out of range.

    >>> group_advantages([0.0, 0.0, 1.0], [0, 2], eps=0.0)  # mean 1/2, std sqrt(1/2)
    [-0.7071067811865475, 0.7071067811865475]
    """
    as_lists = isinstance(rewards_P_N, (list, tuple))
    rewards = np.asarray(rewards_P_N, dtype=np.float64) if as_lists else rewards_P_N
    kept = np.asarray(kept_P_M) if isinstance(kept_P_M, (list, tuple)) else kept_P_M
    xp = array_namespace(rewards)
    if not xp.isdtype(rewards.dtype, "real floating"):
        rewards = xp.astype(rewards, xp.float64)
    _check(rewards, kept, baseline)
    kept_rewards = xp.take_along_axis(rewards, kept, axis=-1)
    reference = kept_rewards if baseline == "kept" else rewards

    scorable = ~xp.isnan(reference)
    count = xp.sum(xp.astype(scorable, rewards.dtype), axis=-1, keepdims=True)
    zeros, ones = xp.zeros_like(reference), xp.ones_like(count)
    total = xp.sum(xp.where(scorable, reference, zeros), axis=-1, keepdims=True)
    mean = total / xp.maximum(count, ones)
    advantages = kept_rewards - mean
    if scale:
        squares = xp.where(scorable, (reference - mean) ** 2, zeros)
        variance = xp.sum(squares, axis=-1, keepdims=True) / xp.maximum(count - 1, ones)
        deviation = xp.sqrt(variance)
        # eps = 0 and all rewards equal: 0/0, and the advantage is 0
        divisor = xp.where(deviation + eps > 0, deviation + eps, xp.ones_like(deviation))
        advantages = advantages / divisor
    advantages = xp.where(xp.isnan(advantages), xp.zeros_like(advantages), advantages)
    return advantages.tolist() if as_lists else advantages


def _check(rewards: Any, kept: Any, baseline: str) -> None:
    if baseline not in BASELINES:
        raise InvalidInputError(f"unknown baseline {baseline!r}; allowed: {', '.join(BASELINES)}")
    if tuple(rewards.shape[:-1]) != tuple(kept.shape[:-1]):
        raise InvalidInputError(
            f"rewards {tuple(rewards.shape)} and kept {tuple(kept.shape)} must have the same"
            " leading dimensions"
        )
    if bool(((kept < 0) | (kept >= rewards.shape[-1])).any()):
        raise InvalidInputError(f"kept holds indices outside 0..{rewards.shape[-1] - 1}")
