"""What is logged of a generation: TRL's reward metrics over all n rollouts, and podsrl's."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from trl.trainer.utils import nanstd

from podsrl.metrics import part_correlations, selection_metrics
from podsrl.trl.generation import Rollouts, Selected


def trl_metrics(rollouts: Rollouts, names_F: Sequence[str]) -> dict[str, float]:
    """TRL's own reward metrics, over all n rollouts where TRL would see the kept ones only."""
    # As tensors and by TRL's own functions, so that the values are TRL's to the last digit.
    rewards_P_N = torch.from_numpy(rollouts.rewards.total_P_N)
    # In float32, as TRL has them, the deviation of eight rewards of .4 is 3e-8, and not 0.
    deviation_P = nanstd(rewards_P_N.double(), dim=-1)
    is_constant_P = torch.isnan(deviation_P) | torch.isclose(
        deviation_P, torch.zeros_like(deviation_P)
    )
    metrics = {
        "reward": torch.nanmean(rewards_P_N).item(),
        "reward_std": nanstd(rewards_P_N.flatten()).item(),
        "frac_reward_zero_std": is_constant_P.float().mean().item(),
    }
    for name, of_function_P_N in zip(names_F, rollouts.by_function_P_N_F.unbind(-1), strict=True):
        metrics[f"rewards/{name}/mean"] = torch.nanmean(of_function_P_N).item()
        metrics[f"rewards/{name}/std"] = nanstd(of_function_P_N.flatten()).item()
    return metrics


def pods_metrics(
    selected: Selected, advantages_P_N: np.ndarray, names_F: Sequence[str]
) -> dict[str, float]:
    """What the update sees of a generation, under `pods/`.

    Args:
        selected: What is kept.
        advantages_P_N: The advantages that it is trained with, which are TRL's own where it
            computes them; 0 where nothing is kept.
        names_F: The names of the reward functions.
    """
    rollouts = selected.rollouts
    rewards = rollouts.rewards
    metrics = selection_metrics(
        rewards.total_P_N.astype(np.float64),
        selected.kept_P_N,
        advantages_P_N,
        rollouts.tokens_P_N,
        masked_P_N=rewards.cut_off_P_N,
    )
    metrics["pods/partly_scored"] = float(rewards.partly_scored_P_N_F.any(axis=-1).sum())
    return metrics | part_correlations(
        names_F, rewards.by_function_P_N_F, advantages_P_N, selected.kept_P_N, selected.baseline
    )


def masked_rows(output: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The number of this rank's rows that vLLM's importance correction takes out of the loss."""
    counted = output["completion_mask"].bool()
    left = counted & (output["importance_sampling_ratio"] != 0)
    return (counted.any(dim=1) & ~left.any(dim=1)).sum()
