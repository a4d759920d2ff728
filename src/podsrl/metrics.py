"""The metrics that every host logs of a selection, under `pods/`. Pure numpy."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from podsrl.advantages import group_advantages

#: Numbers from here on are left out, as NaN is: their squares could not be summed.
_HUGE = 1e100
#: Up to this an advantage is 0, and a part relative to its size; what is less is rounding.
_ROUNDING = 1e-9


def selection_metrics(
    rewards_P_N: np.ndarray,
    kept_P_N: np.ndarray,
    advantages_P_N: np.ndarray,
    tokens_P_N: np.ndarray,
    generated_P_N: np.ndarray | None = None,
    masked_P_N: np.ndarray | bool = False,
) -> dict[str, float]:
    """The metrics of what the update sees of a step; all arrays have shape (P, N).

    Args:
        rewards_P_N: The rewards; NaN where a rollout could not be scored.
        kept_P_N: True for the rollouts that the update sees.
        advantages_P_N: The advantages of these.
        tokens_P_N: The numbers of tokens, of prompt and completion together.
        generated_P_N: True where there is a rollout, if groups differ in size.
        masked_P_N: True where the host's loss leaves the rollout out anyway.
    """
    generated_P_N = np.ones_like(kept_P_N) if generated_P_N is None else generated_P_N
    scored_P_N = ~np.isnan(rewards_P_N)
    dropped_P_N = generated_P_N & ~kept_P_N
    kept_rewards_K = rewards_P_N[kept_P_N & scored_P_N]
    dropped_rewards = rewards_P_N[dropped_P_N & scored_P_N]

    differs_P_N = kept_P_N & (np.abs(advantages_P_N) > _ROUNDING)
    teaches_P_N = differs_P_N & ~np.asarray(masked_P_N)
    has_kept_P = kept_P_N.any(axis=1)

    numbers = {
        "rollouts": generated_P_N.sum(),
        "kept_rollouts": kept_P_N.sum(),
        "kept_reward": kept_rewards_K.mean() if kept_rewards_K.size else math.nan,
        "dropped_reward": dropped_rewards.mean() if dropped_rewards.size else math.nan,
        "kept_reward_std": kept_rewards_K.std(ddof=1) if kept_rewards_K.size > 1 else math.nan,
        "kept_tokens": tokens_P_N[kept_P_N].sum(),
        "dropped_tokens": tokens_P_N[dropped_P_N].sum(),
        "zero_variance_groups": (has_kept_P & ~differs_P_N.any(axis=1)).sum(),
        "zero_advantage_rows": (kept_P_N & ~teaches_P_N).sum(),
        "unscorable": (generated_P_N & ~scored_P_N).sum(),
    }
    return {f"pods/{name}": float(number) for name, number in numbers.items()}


def part_correlations(
    names_F: Sequence[str], parts_P_N_F: Any, advantages_P_N: Any, kept_P_N: Any, baseline: Any
) -> dict[str, float]:
    r"""The correlation of the advantages with each part of the reward, from -1 to 1.

    .. math:: \mathrm{corr}(a_i, p_{if} - \mathrm{mean}_{g(i)}(p_f)), \quad i \in S

    Over all kept rollouts, each part relative to its group's mean by the baseline: a prompt that is
    easier than others is no signal. It is 0 where a part or the advantages do not vary.
    Where a part is NaN or beyond 1e100, the rollout is left out for it.

    >>> part_correlations(["right"], [[[1.0], [0.0]]], [[0.7, -0.7]], [[True, True]], "kept")
    {'pods/correlation/right': 1.0}
    """
    parts_F_P_N = np.moveaxis(np.asarray(parts_P_N_F, dtype=np.float64), -1, 0)
    known_F_P_N = np.abs(parts_F_P_N) < _HUGE
    kept_F_P_N = np.broadcast_to(np.asarray(kept_P_N, dtype=bool), known_F_P_N.shape)

    # Each part relative to its group's mean; what is left of equal parts is rounding.
    known_parts_F_P_N = np.where(known_F_P_N, parts_F_P_N, np.nan)
    away_F_P_N = group_advantages(known_parts_F_P_N, kept_F_P_N, baseline, scale=False)
    is_rounding = np.abs(away_F_P_N) <= _ROUNDING * np.abs(parts_F_P_N)
    away_F_P_N = np.where(is_rounding, 0.0, away_F_P_N)

    advantages = np.asarray(advantages_P_N, dtype=np.float64)
    advantages_F_P_N = np.where(kept_F_P_N & known_F_P_N, advantages, 0.0)

    together_F = (advantages_F_P_N * away_F_P_N).sum(axis=(1, 2))
    square_F = (away_F_P_N**2).sum(axis=(1, 2)) * (advantages_F_P_N**2).sum(axis=(1, 2))
    size_F = np.sqrt(square_F)
    correlation_F = (together_F / np.where(size_F > 0, size_F, 1.0)).clip(-1, 1)
    return {
        f"pods/correlation/{name}": float(correlation)
        for name, correlation in zip(names_F, correlation_F, strict=True)
    }
