"""Metrics over all n rollouts by verl's own functions, and over the kept ones under `pods/`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.trainer.ppo.metric_utils import compute_data_metrics, compute_timing_metrics

from podsrl.selection import Options
from podsrl.verl.groups import Group

# What verl.trainer.ppo.metric_utils says about rollouts. The rest of what it reports (advantages,
# returns, values) exists for trained rows only.
_OF_ROLLOUTS = ("response", "prompt_length", "num_turns")


def summarise_rows(
    rewards: Sequence[float], tags: Sequence[Mapping[str, Any]], num_turns: Sequence[int]
) -> DataProto:
    """All rows of a step, without their tokens, in the form that verl's metric functions read.

    Args:
        rewards: reward of each row; NaN if it could not be scored.
        tags: verl's tags of each row; lengths in tokens.
        num_turns: turns of each row's conversation.
    """
    rows = len(rewards)
    reward = torch.tensor(rewards, dtype=torch.float32).unsqueeze(-1)
    prompt_length = torch.tensor([tag["prompt_len"] for tag in tags])
    response_length = torch.tensor([tag["response_len"] for tag in tags])
    unused = torch.zeros(rows, 1)

    def of_width(width: int) -> torch.Tensor:  # verl reads only the width of these
        return torch.zeros(1, 1).expand(rows, width)

    batch = TensorDict(
        {
            "token_level_scores": reward,
            "token_level_rewards": reward,
            "advantages": unused,
            "returns": unused,
            "response_mask": torch.ones(rows, 1),
            "prompts": of_width(int(prompt_length.max())),
            "responses": of_width(int(response_length.max())),
            "prompt_length": prompt_length.float(),
            "response_length": response_length.float(),
        },
        batch_size=rows,
    )
    turns = np.asarray(num_turns, dtype=np.int32)
    return DataProto(batch=batch, non_tensor_batch={"__num_turns__": turns})


def all_rollout_metrics(
    rows: DataProto, timing_raw: Mapping[str, float], kl_in_reward: bool
) -> dict[str, float]:
    """verl's own metrics of rewards, lengths and turns, over all n rollouts.

    Args:
        rows: from `summarise_rows`.
        timing_raw: seconds of each stage of the step.
        kl_in_reward: verl's `critic/rewards` has the KL penalty in it, which only kept rows have.
    """
    found = compute_data_metrics(batch=rows, use_critic=False)
    metrics = {name: found[name] for name in found if name.startswith(_OF_ROLLOUTS)}
    for name in ("mean", "max", "min"):
        metrics[f"training/num_turns/{name}"] = metrics[f"num_turns/{name}"]

    scorable = ~rows.batch["token_level_scores"].isnan().any(dim=-1)
    if scorable.any():
        found = compute_data_metrics(batch=rows.select_idxs(scorable), use_critic=False)
        names = ["critic/score/"] if kl_in_reward else ["critic/score/", "critic/rewards/"]
        metrics |= {name: found[name] for name in found if name.startswith(tuple(names))}

    per_token = "timing_per_token_ms/gen"
    timing = compute_timing_metrics(batch=rows, timing_raw=dict(timing_raw))
    return metrics | ({per_token: timing[per_token]} if per_token in timing else {})


def selection_metrics(
    groups: Sequence[Group], tags: Mapping[str, Mapping[str, Any]], options: Options
) -> dict:
    """What the update sees, under `pods/`, with the meaning that the names have in TRL.

    Args:
        groups: the selected groups of one step.
        tags: verl's tags by key.
        options: of the selection.
    """
    kept_keys = set().union(*(group.kept_keys for group in groups))
    tokens = {key: tag["seq_len"] for key, tag in tags.items()}
    kept_tokens = sum(tokens[key] for key in kept_keys)
    kept = [group.kept_rewards for group in groups]
    dropped = [np.delete(group.rewards_N, list(group.kept)) for group in groups]
    constant = [len(np.unique(_scored(rewards))) < 2 for rewards in kept]
    by_group = list(zip(kept, constant, strict=True))
    return {
        "pods/rollouts": sum(len(group.sessions) for group in groups),
        "pods/kept_rollouts": sum(len(group.kept) for group in groups),
        "pods/kept_reward": _mean(np.concatenate(kept)),
        "pods/dropped_reward": _mean(np.concatenate(dropped)),
        "pods/kept_reward_std": _std(np.concatenate(kept)),
        "pods/kept_tokens": kept_tokens,
        "pods/dropped_tokens": sum(tokens.values()) - kept_tokens,
        "pods/zero_variance_groups": sum(bool(r.size) and flat for r, flat in by_group),
        # their advantages are 0
        "pods/filler_rows": sum(r.size if flat else int(np.isnan(r).sum()) for r, flat in by_group),
        "pods/short_groups": sum(len(group.sessions) < options.m for group in groups),
        "pods/unscorable": sum(int(np.isnan(group.rewards_N).sum()) for group in groups),
    }


def _scored(rewards: np.ndarray) -> np.ndarray:
    return rewards[~np.isnan(rewards)]


def _mean(rewards: np.ndarray) -> float:
    scored = _scored(rewards)
    return float(scored.mean()) if len(scored) else math.nan


def _std(rewards: np.ndarray) -> float:
    scored = _scored(rewards)
    return float(scored.std(ddof=1)) if len(scored) > 1 else math.nan
