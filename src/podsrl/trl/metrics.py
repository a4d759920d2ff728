"""What is logged of a batch: TRL's reward metrics over all n rollouts, and ours under `pods/`."""

from collections.abc import Sequence

import numpy as np
import torch
from trl.trainer.utils import nanstd

from podsrl.advantages import group_advantages
from podsrl.drives import drive_metrics, shaping_only
from podsrl.trl.batch import Batch


def trl_metrics(batch: Batch, names_F: Sequence[str]) -> dict[str, float]:
    """TRL's own reward metrics, over all n rollouts where TRL would see the kept ones only.

    In rounds they are over the first rounds: later ones are of the harder prompts.
    """
    first_P_N = batch.rewards_P_N[:, : batch.first]
    found = {
        "reward": _mean(first_P_N),
        "reward_std": nanstd(first_P_N.flatten()).item(),
        "frac_reward_zero_std": _constant(first_P_N).float().mean().item(),
    }
    by_function = batch.rewards_P_N_F[:, : batch.first].unbind(-1)
    for name, rewards_P_N in zip(names_F, by_function, strict=True):
        found[f"rewards/{name}/mean"] = _mean(rewards_P_N)
        found[f"rewards/{name}/std"] = nanstd(rewards_P_N.flatten()).item()
    return found


def pods_metrics(batch: Batch) -> dict[str, float]:
    """What the update sees of a batch."""
    rewards, kept, generated = batch.rewards_P_N, batch.kept_P_N, batch.generated_P_N
    kept_rewards = rewards.masked_fill(~kept, torch.nan)
    constant_P = _constant(kept_rewards)
    teaches_nothing = constant_P[:, None] | torch.isnan(rewards) | batch.cut_off
    tokens = batch.tokens
    kept_tokens = sum(tokens[place] for place in batch.kept_places)
    return {
        "pods/num_rollouts": float(batch.n),
        "pods/kept_reward": _mean(kept_rewards),
        "pods/dropped_reward": _mean(rewards[~kept]),
        "pods/kept_reward_std": nanstd(kept_rewards.flatten()).item(),
        "pods/kept_tokens": float(kept_tokens),
        "pods/dropped_tokens": float(sum(tokens) - kept_tokens),
        "pods/zero_variance_groups": (constant_P & kept.any(dim=-1)).float().sum().item(),
        "pods/filler_rows": (kept & teaches_nothing).float().sum().item(),
        "pods/unscorable": (torch.isnan(rewards) & generated).float().sum().item(),
        "pods/rollouts_saved": 1 - generated.double().mean().item(),
    }


def drives_of(
    batch: Batch,
    names_F: Sequence[str],
    weights_F: Sequence[float],
    selection_weights_F: Sequence[float] | None,
    scale: bool,
) -> dict[str, float]:
    """How closely the update follows each reward function; see `podsrl.drives`.

    Args:
        batch: with its advantages.
        names_F: of the reward functions.
        weights_F, selection_weights_F: theirs; see `shaping_only`.
        scale: whether advantages are divided by the standard deviation.
    """
    rewards_P_N, parts_P_N_F = batch.rewards_P_N.double().cpu(), batch.rewards_P_N_F.cpu().numpy()
    kept_P_N = batch.kept_P_N.cpu().numpy()
    kept_advantages_P_N = np.zeros(kept_P_N.shape)
    kept_advantages_P_N[kept_P_N] = batch.advantages_K.tolist()
    everyone = torch.arange(batch.n).expand(batch.groups, -1)
    all_advantages_P_N = group_advantages(rewards_P_N, everyone, scale=scale).numpy()
    found = drive_metrics(names_F, parts_P_N_F, kept_advantages_P_N, all_advantages_P_N, kept_P_N)
    found["pods/shaping_only_groups"] = shaping_only(
        parts_P_N_F, kept_P_N, weights_F, selection_weights_F
    )
    return found


def _mean(x: torch.Tensor) -> float:
    return torch.nanmean(x).item()


def _constant(rewards_P_N: torch.Tensor) -> torch.Tensor:
    """Which groups have no spread, and so no signal? Unscorable rollouts don't count."""
    deviation = nanstd(rewards_P_N, dim=-1)
    return torch.isnan(deviation) | torch.isclose(deviation, torch.zeros_like(deviation))
