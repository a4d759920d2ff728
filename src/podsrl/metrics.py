"""What every host logs of a selection, under `pods/`. Pure numpy."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from podsrl.advantages import group_advantages

#: Numbers from here on are left out, as NaN is: their squares could not be summed.
_HUGE = 1e100


def selection_metrics(
    rewards_P_N: np.ndarray,  # NaN where a rollout could not be scored
    kept_P_N: np.ndarray,  # True for the rollouts that the update sees
    advantages_P_N: np.ndarray,  # of these
    tokens_P_N: np.ndarray,  # of prompt and completion
    generated_P_N: np.ndarray | None = None,  # True where there is one, if groups differ in size
    masked_P_N: np.ndarray | bool = False,  # True where the host's loss leaves it out anyway
) -> dict[str, float]:
    """What the update sees of the rollouts of a step."""
    generated = np.ones_like(kept_P_N) if generated_P_N is None else generated_P_N
    scored, dropped = ~np.isnan(rewards_P_N), generated & ~kept_P_N
    counted = kept_P_N & scored
    kept_rewards, dropped_rewards = rewards_P_N[counted], rewards_P_N[dropped & scored]
    differs = kept_P_N & (np.abs(advantages_P_N) > 1e-9)
    teaches = differs & ~np.asarray(masked_P_N)
    numbers = {
        "rollouts": generated.sum(),
        "kept_rollouts": kept_P_N.sum(),
        "kept_reward": kept_rewards.mean() if kept_rewards.size else math.nan,
        "dropped_reward": dropped_rewards.mean() if dropped_rewards.size else math.nan,
        "kept_reward_std": kept_rewards.std(ddof=1) if kept_rewards.size > 1 else math.nan,
        "kept_tokens": tokens_P_N[kept_P_N].sum(),
        "dropped_tokens": tokens_P_N[dropped].sum(),
        "zero_variance_groups": (kept_P_N.any(axis=1) & ~differs.any(axis=1)).sum(),
        "zero_advantage_rows": (kept_P_N & ~teaches).sum(),
        "unscorable": (generated & ~scored).sum(),
    }
    return {f"pods/{name}": float(number) for name, number in numbers.items()}


def part_correlations(
    names_F: Sequence[str], parts_P_N_F: Any, advantages_P_N: Any, kept_P_N: Any, baseline: Any
) -> dict[str, float]:
    r"""How closely the update follows each part of the reward, from -1 to 1.

    .. math:: \mathrm{corr}(a_i, p_{if} - \mathrm{mean}_{g(i)}(p_f)), \quad i \in S

    Over all kept rollouts, each part relative to its group's mean by the baseline: a prompt that is
    easier than others is no signal. It is 0 where a part or the advantages do not vary.
    Where a part is NaN or beyond 1e100, the rollout is left out for it.

    >>> part_correlations(["right"], [[[1.0], [0.0]]], [[0.7, -0.7]], [[True, True]], "kept")
    {'pods/correlation/right': 1.0}
    """
    parts_F_P_N = np.moveaxis(np.asarray(parts_P_N_F, dtype=np.float64), -1, 0)
    known = np.abs(parts_F_P_N) < _HUGE
    kept = np.broadcast_to(np.asarray(kept_P_N, dtype=bool), known.shape)
    part = group_advantages(np.where(known, parts_F_P_N, np.nan), kept, baseline, scale=False)
    part = np.where(np.abs(part) <= 1e-9 * np.abs(parts_F_P_N), 0.0, part)  # rounding
    advantage = np.where(kept & known, np.asarray(advantages_P_N, dtype=np.float64), 0.0)
    together_F = (advantage * part).sum(axis=(1, 2))
    size_F = np.sqrt((part**2).sum(axis=(1, 2)) * (advantage**2).sum(axis=(1, 2)))
    found_F = (together_F / np.where(size_F > 0, size_F, 1.0)).clip(-1, 1)
    return {f"pods/correlation/{name}": float(r) for name, r in zip(names_F, found_F, strict=True)}
