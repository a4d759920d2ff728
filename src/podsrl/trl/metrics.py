"""What is logged of a generation: TRL's reward metrics over all n rollouts, and ours."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from trl.trainer.utils import nanstd

from podsrl.metrics import part_correlations, selection_metrics
from podsrl.trl.rollouts import Kept, Rollouts


def trl_metrics(rollouts: Rollouts, names_F: Sequence[str]) -> dict[str, float]:
    """TRL's own reward metrics, over all n rollouts where TRL would see the kept ones only."""
    rewards_P_N = rollouts.rewards_P_N
    deviation_P = nanstd(rewards_P_N, dim=-1)
    constant_P = torch.isnan(deviation_P) | torch.isclose(deviation_P, 0 * deviation_P)
    found = {
        "reward": torch.nanmean(rewards_P_N).item(),
        "reward_std": nanstd(rewards_P_N.flatten()).item(),
        "frac_reward_zero_std": constant_P.float().mean().item(),
    }
    for name, of_function in zip(names_F, rollouts.rewards_P_N_F.unbind(-1), strict=True):
        found[f"rewards/{name}/mean"] = torch.nanmean(of_function).item()
        found[f"rewards/{name}/std"] = nanstd(of_function.flatten()).item()
    return found


def pods_metrics(
    kept: Kept, advantages_K: torch.Tensor, names_F: Sequence[str], baseline: str
) -> dict[str, float]:
    """What the update sees of a generation, under `pods/`; `names_F` are the reward functions'."""
    of, kept_P_N = kept.of, kept.kept_P_N.cpu().numpy()
    advantages_P_N = np.zeros(kept_P_N.shape)
    advantages_P_N[kept_P_N] = advantages_K.tolist()
    rewards_P_N, masked = of.rewards_P_N.cpu().double().numpy(), of.masked_P_N.cpu().numpy()
    given = rewards_P_N, kept_P_N, advantages_P_N, of.tokens.numpy()
    found = selection_metrics(*given, masked_P_N=masked)
    found["pods/partly_scored"] = float(of.partly.any(dim=-1).sum())
    parts_P_N_F = of.rewards_P_N_F.cpu().numpy()
    return found | part_correlations(names_F, parts_P_N_F, advantages_P_N, kept_P_N, baseline)


def masked_rows(output: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The number of this rank's rows that vLLM's importance correction takes out of the loss."""
    counted = output["completion_mask"].bool()
    left = counted & (output["importance_sampling_ratio"] != 0)
    return (counted.any(dim=1) & ~left.any(dim=1)).sum()
