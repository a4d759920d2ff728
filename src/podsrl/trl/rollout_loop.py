"""TRL's loop in the process that generates, which scores n rollouts of a prompt and sends m.

What is kept is decided where the rewards are, so that nothing of the others crosses to the trainer
except what is logged.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
import torch
from trl.experimental.async_grpo.async_rollout_worker import (
    RolloutGroup,
    RolloutSample,
    _AsyncRolloutLoop,
)

from podsrl.advantages import group_advantages
from podsrl.errors import InvalidInputError
from podsrl.rules.api import refuse_infinite
from podsrl.selection import Selection
from podsrl.trl.rewards import checked
from podsrl.trl.rollouts import Rollouts

SCORED = "podsrl: scored"  # where groups' records travel in TRL's queue of metrics

_Scored = tuple[RolloutGroup, list[list[RolloutSample]]]  # a group, and TRL's rows by rollout


class SelectingLoop(_AsyncRolloutLoop):
    """TRL's loop in the process that generates; dropped rollouts end here.

    It selects once `window` groups are scored: one for a group rule, several for a batch rule.
    """

    def __init__(self, *, selection: Selection, window: int, **given: Any) -> None:
        super().__init__(**given)
        self._selection, self._window = selection, window
        self._scored: list[_Scored] = []
        self._version = 0  # of the weights that the group being scored was generated with
        named = zip(self.reward_funcs, self.reward_func_names, strict=False)  # environments' follow
        self.reward_funcs = [checked(one, name, lambda: self._version) for one, name in named]

    async def _score_group(self, group: RolloutGroup) -> list[RolloutSample]:
        """The rows of what is kept, once TRL has scored the last group of a window; else none."""
        self._version = group.model_version
        rows = iter(await super()._score_group(group))
        rows_N = [list(islice(rows, len(one))) for one in group.completions_sequences]
        self._scored.append((group, rows_N))
        if len(self._scored) < self._window:
            return []
        scored, self._scored = self._scored, []
        return self._select(scored)

    def _select(self, scored: Sequence[_Scored]) -> list[RolloutSample]:
        """The rows of what the rule keeps, with advantages as if there had been no others.

        TRL resumes at the first group whose number no trained row has, and counts these numbers to
        end an epoch. So rows of other groups take over the numbers of those that are dropped.
        """
        weights_F = weights_of(self._selection, self.reward_func_names)
        records: Any = [_record(*one, self.reward_func_names, weights_F) for one in scored]
        rollouts = rollouts_of(records)
        rewards_P_N = rollouts.rewards_P_N.numpy()
        refuse_infinite(rewards_P_N)
        numbers = [group.group_id for group, _ in scored]
        chosen = self._selection.select(rollouts.scores().numpy(), numbers[0])
        kept_P_N = np.array([np.isin(range(rewards_P_N.shape[1]), places) for places in chosen])
        given = rollouts.compared().numpy(), kept_P_N, self._selection.baseline
        advantages_P_N = group_advantages(*given, eps=1e-8, correction=0)
        rows_R = [rows for _, rows_N in scored for rows in rows_N]
        if not kept_P_N.all():  # with n = m every value stays TRL's own
            of_all = _means([rows[0].metrics for rows in rows_R if rows])
            for rows, advantage in zip(rows_R, advantages_P_N.flat, strict=True):
                for row in rows:
                    row.advantage = float(advantage)
                    row.metrics.update(of_all)
        choices = zip(records, kept_P_N.tolist(), advantages_P_N.tolist(), strict=True)
        records = [one | {"kept": kept, "advantages": of_kept} for one, kept, of_kept in choices]
        self._push_metrics({SCORED: records})
        sent = [row for place in np.flatnonzero(kept_P_N) for row in rows_R[place]]
        spare = [row for one, row in pairwise(sent) if one.group_id == row.group_id]
        dropped = sorted({*numbers} - {row.group_id for row in sent})
        for row, number in zip(spare, dropped, strict=False):
            row.group_id = number
        return sent


def weights_of(selection: Selection, names: Sequence[str]) -> list[float]:
    """What each reward function weighs in what is selected by; refused if a weight is of none."""
    weights = selection.selection_weights or {"score": 1.0}
    if unknown := sorted(set(weights) - {*names, "score"}):
        raise InvalidInputError(
            f"selection_weights names {unknown[0]!r}, which is no reward function; allowed:"
            f" {', '.join(names)}"
        )
    return [weights.get("score", 0.0) + weights.get(name, 0.0) for name in names]


def rollouts_of(records: Sequence[Mapping[str, Any]], step: int = 0) -> Rollouts:
    """Records of groups as what `PODSTrainer` would have of them."""
    rewards_P_N = torch.tensor([record["rewards"] for record in records], dtype=torch.float64)
    names = ("row", "prompt_ids", "completion_ids", "completion")
    return Rollouts(
        step=step,
        index=0,
        columns={name: [one for r in records for one in r[name]] for name in names},
        rewards_P_N_F=torch.tensor([r["parts"] for r in records], dtype=torch.float64),
        rewards_P_N=rewards_P_N,
        weights_F=torch.tensor(records[0]["weights"]),
        rewarded_F=torch.ones(len(records[0]["names"])),
        masked_P_N=torch.zeros_like(rewards_P_N, dtype=torch.bool),
    )


def _record(
    group: RolloutGroup, rows_N: list[list[RolloutSample]], names: list[str], weights: list[float]
) -> dict[str, Any]:
    """What is selected by and logged of a group; NaN where TRL made no row of a rollout."""
    metrics_N = [rows[0].metrics if rows else {} for rows in rows_N]
    answers = group.reward_kwargs.get("answer", [None] * len(rows_N))
    return {
        "names": names,
        "weights": weights,
        "rewards": [one.get("reward", math.nan) for one in metrics_N],
        "parts": [[one.get(f"rewards/{n}", math.nan) for n in names] for one in metrics_N],
        "row": [{"answer": answer} for answer in answers],
        "prompt_ids": [_prompt_of(rows[0]) if rows else [] for rows in rows_N],
        "completion_ids": group.completions_ids,
        "completion": group.completions,
    }


def _prompt_of(row: RolloutSample) -> list[int]:
    """The tokens before the first one that the model wrote."""
    return row.input_ids[: int(row.completion_mask.argmax())].tolist()


def _means(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric over the rollouts that have it, without NaN."""
    names = dict.fromkeys(name for one in metrics for name in one)
    found = {name: [one.get(name, math.nan) for one in metrics] for name in names}
    return {n: torch.tensor(v, dtype=torch.float64).nanmean().item() for n, v in found.items()}
