"""verl's own metrics of rewards, lengths and turns, over all n rollouts by verl's own functions."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.trainer.ppo.metric_utils import compute_data_metrics, compute_timing_metrics

from podsrl.verl.groups import Row

# What verl.trainer.ppo.metric_utils says about rollouts. The rest of what it reports (advantages,
# returns, values) exists for trained rows only.
_OF_ROLLOUTS = ("response", "prompt_length", "num_turns")


def summarise_rows(rows: Sequence[Row]) -> DataProto:
    """The rows of a step, without their tokens, in the form that verl's metric functions read."""
    reward = torch.tensor([row.reward for row in rows], dtype=torch.float32).unsqueeze(-1)
    prompt_length = torch.tensor([row.tag["prompt_len"] for row in rows])
    response_length = torch.tensor([row.tag["response_len"] for row in rows])
    unused = torch.zeros(len(rows), 1)
    fields = {
        "token_level_scores": reward,
        "token_level_rewards": reward,
        "advantages": unused,
        "returns": unused,
        "response_mask": torch.ones(len(rows), 1),
        "prompts": unused.expand(-1, int(prompt_length.max())),  # verl reads only the width
        "responses": unused.expand(-1, int(response_length.max())),
        "prompt_length": prompt_length.float(),
        "response_length": response_length.float(),
    }
    batch = TensorDict(fields, batch_size=len(rows))
    turns = np.array([row.turns for row in rows], dtype=np.int32)
    return DataProto(batch=batch, non_tensor_batch={"__num_turns__": turns})


def all_rollout_metrics(
    rows: Sequence[Row], timing_raw: Mapping[str, float], kl_in_reward: bool
) -> dict[str, float]:
    """verl's own metrics of rewards, lengths and turns, over all n rollouts of a step."""
    batch = summarise_rows(rows)
    of_all = compute_data_metrics(batch=batch, use_critic=False)
    metrics = {name: of_all[name] for name in of_all if name.startswith(_OF_ROLLOUTS)}
    for name in ("mean", "max", "min"):
        metrics[f"training/num_turns/{name}"] = metrics[f"num_turns/{name}"]

    # Rows are left out before they are summarised: to select from a summary would give its views
    # of width as many numbers as all rows have tokens.
    scored = [row for row in rows if not math.isnan(row.reward)]
    if scored:
        of_scored = compute_data_metrics(batch=summarise_rows(scored), use_critic=False)
        # A reward with the KL penalty is known of kept rows only.
        names = ("critic/score/",) if kl_in_reward else ("critic/score/", "critic/rewards/")
        metrics |= {name: of_scored[name] for name in of_scored if name.startswith(names)}

    # Of verl's times per token only that of generating is over all n rollouts.
    timing = compute_timing_metrics(batch=batch, timing_raw=dict(timing_raw))
    per_token = "timing_per_token_ms/gen"
    if per_token in timing:
        metrics[per_token] = timing[per_token]
    return metrics
