"""TRL's loop in the process that generates, which scores n rollouts and hands on m.

What is kept is decided where the rewards are, so that nothing of the others crosses to the trainer
except what is logged.
"""

import logging
import math
import queue
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import islice
from typing import Any

import torch
from trl.experimental.async_grpo.async_rollout_worker import (
    RolloutGroup,
    RolloutSample,
    _AsyncRolloutLoop,
)

from podsrl.selection import Selection
from podsrl.trl.rewards import checked
from podsrl.trl.rollouts import partly_scored
from podsrl.trl.swapped import swapped

logger = logging.getLogger(__name__)

SCORED = "podsrl: scored"  # where a group's record travels in TRL's queue of metrics


class SelectingLoop(_AsyncRolloutLoop):
    """TRL's loop in the process that generates; a group's dropped rollouts end here."""

    def __init__(self, *, selection: Selection, select_partly_scored: bool, **given: Any) -> None:
        super().__init__(**given)
        self._selection, self._select_partly = selection, select_partly_scored
        self._version = 0  # of the weights that the group being scored was generated with
        named = zip(self.reward_funcs, self.reward_func_names, strict=False)  # environments' follow
        self.reward_funcs = [checked(one, name, lambda: self._version) for one, name in named]

    async def _score_group(self, group: RolloutGroup) -> list[RolloutSample]:
        """TRL's rows of the kept rollouts, with advantages as if there had been no others.

        All n are scored once, by TRL's own method. It is called again on those that are kept, with
        reward functions that know what they gave.
        """
        self._version = group.model_version
        samples = await super()._score_group(group)
        rows = iter(samples)
        rows_N = [list(islice(rows, len(one))) for one in group.completions_sequences]
        names = self.reward_func_names
        nothing = dict.fromkeys(["reward", *(f"rewards/{name}" for name in names)], math.nan)
        metrics_N = [one[0].metrics if one else nothing for one in rows_N]
        parts_N = [{name: one[f"rewards/{name}"] for name in names} for one in metrics_N]
        rewards_N = [one["reward"] for one in metrics_N]
        scored = zip(rewards_N, parts_N, strict=True)
        scores_N = [self._selection.score(reward, parts) for reward, parts in scored]
        weights = self._selection.selection_weights or dict.fromkeys(names, 1.0)
        weights_F = [1.0 if "score" in weights else weights.get(name, 0.0) for name in names]
        parts_N_F = [list(parts.values()) for parts in parts_N]
        if not self._select_partly:
            partly_P_N_F = partly_scored(torch.tensor([parts_N_F]), torch.tensor(weights_F))
            last_N = partly_P_N_F[0].any(dim=-1).tolist()
            scores_N = [math.nan if last else s for s, last in zip(scores_N, last_N, strict=True)]
        kept = self._selection.select([scores_N], group.group_id)[0]
        if len(kept) < len(rows_N):
            if self._selection.baseline != "kept":
                samples = [row for i in kept for row in rows_N[i]]
            else:
                called = names[: len(self.reward_funcs)]
                known = [partial(_known, [parts_N[i][name] for i in kept]) for name in called]
                with swapped(self, reward_funcs=known):
                    samples = await super()._score_group(kept_of(group, kept))
            of_all_n = _means(metrics_N)
            for row in samples:
                row.metrics.update(of_all_n)
        advantages, rows = [], iter(samples)
        for i in kept:
            own = list(islice(rows, len(rows_N[i])))
            advantages.append(own[0].advantage if own else 0.0)
        answers = group.reward_kwargs.get("answer", [None] * len(rows_N))
        record = {
            "names": names,
            "rewards": rewards_N,
            "parts": parts_N_F,
            "weights": weights_F,
            "kept": kept,
            "advantages": advantages,
            "row": [{"answer": answer} for answer in answers],
            "prompt_ids": [_prompt_of(one[0]) if one else [] for one in rows_N],
            "completion_ids": group.completions_ids,
            "completion": group.completions,
        }
        try:
            self._metrics_queue.put_nowait({SCORED: record})
        except queue.Full:  # as TRL's metrics it is given up if the trainer lags
            logger.info("the trainer reads no metrics; what was logged of a group is lost")
        return samples


def kept_of(group: RolloutGroup, kept: Sequence[int]) -> RolloutGroup:
    """A group of the rollouts at `kept` only: each of its lists at the same places."""
    shorter: dict[str, Any] = {}
    for field in fields(group):
        value = getattr(group, field.name)
        if isinstance(value, list):  # without environments that of their rewards is empty
            shorter[field.name] = [value[i] for i in kept] if value else []
        elif isinstance(value, dict):
            shorter[field.name] = {key: [of[i] for i in kept] for key, of in value.items()}
    return replace(group, **shorter)


def _known(rewards: list[float], **given: Any) -> list[float]:
    return rewards


def _prompt_of(row: RolloutSample) -> list[int]:
    """The tokens before the first one that the model wrote."""
    return row.input_ids[: int(row.completion_mask.argmax())].tolist()


def _means(metrics_N: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric over the rollouts that have it, without NaN."""
    found = {}
    for name in dict.fromkeys(name for metrics in metrics_N for name in metrics):
        values = [metrics[name] for metrics in metrics_N if not math.isnan(metrics[name])]
        found[name] = sum(values) / len(values) if values else math.nan
    return found
