"""TRL's loop in the process that generates, which scores n rollouts of a prompt and sends m.

What is kept is decided where the rewards are, so that nothing of the others crosses to the trainer
except what is logged.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
import torch
from trl.experimental.async_grpo.async_rollout_worker import (
    RolloutGroup,
    RolloutSample,
    _AsyncRolloutLoop,
)

from podsrl.errors import InvalidInputError
from podsrl.rewards import Rewards, refuse_infinite
from podsrl.selection import Selection, select
from podsrl.trl.checks import checked
from podsrl.trl.generation import Rollouts
from podsrl.trl.rows import Columns

SCORED = "podsrl: scored"  # where groups' records travel in TRL's queue of metrics

# TRL's `_score_group` normalises by the deviation of a whole population plus this.
_TRL_EPS = 1e-8


@dataclass(frozen=True)
class ScoredGroup:
    """A group that TRL has scored, and the rows that TRL made of each rollout (often one)."""

    group: RolloutGroup
    rows_N: list[list[RolloutSample]]


class SelectingLoop(_AsyncRolloutLoop):
    """TRL's loop in the process that generates; dropped rollouts end here.

    It selects once `window` groups are scored: one for a prompt rule, several for a batch rule.
    """

    def __init__(self, *, selection: Selection, window: int, **of_trl: Any) -> None:
        super().__init__(**of_trl)
        self._selection = selection
        self._window = window
        self._waiting: list[ScoredGroup] = []  # for the window to be full
        self._version = 0  # of the weights that the group being scored was generated with
        self.reward_funcs = [
            checked(function, name, lambda: self._version, lambda: selection.num_rollouts)
            # environments' own names follow those of the functions
            for function, name in zip(self.reward_funcs, self.reward_func_names, strict=False)
        ]

    async def _score_group(self, group: RolloutGroup) -> list[RolloutSample]:
        """The rows of what is kept, once TRL has scored the last group of a window; else none."""
        self._version = group.model_version
        rows = iter(await super()._score_group(group))
        rows_N = [list(islice(rows, len(turns))) for turns in group.completions_sequences]
        self._waiting.append(ScoredGroup(group, rows_N))
        if len(self._waiting) < self._window:
            return []

        window, self._waiting = self._waiting, []
        return self._select(window)

    def _select(self, window: Sequence[ScoredGroup]) -> list[RolloutSample]:
        """The rows of what the rule keeps, with advantages as if there had been no others."""
        weights_F = weights_of(self._selection, self.reward_func_names)
        records = [_record(scored, self.reward_func_names, weights_F) for scored in window]
        rewards = rollouts_of(records).rewards
        refuse_infinite(rewards.total_P_N)

        selected = select(
            self._selection,
            rewards,
            window[0].group.group_id,
            eps=_TRL_EPS,
            correction=0,
        )
        kept_P_N = selected.kept_P_N
        advantages_P_N = selected.advantages_P_N

        rows_R = [rows for scored in window for rows in scored.rows_N]
        if not kept_P_N.all():  # with n = m every value stays TRL's own
            _set_values(rows_R, advantages_P_N)

        for record, kept_N, advantages_N in zip(records, kept_P_N, advantages_P_N, strict=True):
            record |= {"kept": kept_N.tolist(), "advantages": advantages_N.tolist()}
        self._push_metrics({SCORED: records})  # type: ignore[dict-item]

        sent = [row for place in np.flatnonzero(kept_P_N) for row in rows_R[place]]
        _number_anew(sent, [scored.group.group_id for scored in window])
        return sent


def _set_values(rows_R: Sequence[Sequence[RolloutSample]], advantages_P_N: np.ndarray) -> None:
    """Give TRL's rows our advantages, and metrics that describe all n rollouts."""
    of_all = _means([rows[0].metrics for rows in rows_R if rows])
    for rows, advantage in zip(rows_R, advantages_P_N.flat, strict=True):
        for row in rows:
            row.advantage = float(advantage)
            row.metrics.update(of_all)


def _number_anew(sent: Sequence[RolloutSample], numbers: Sequence[int]) -> None:
    """Let every group of the window have a row that is sent, by giving rows other numbers.

    TRL's trainer takes the first group of which it has seen no row as the place where a resumed run
    begins, and it ends an epoch once it has counted as many numbers as there are prompts. A group
    that is dropped as a whole would hold up both for ever. So some row of another group takes over
    its number. What is trained does not change: advantages are computed already, and TRL's packing,
    which places rows by it, matches prefixes by their tokens.
    """
    spare = [row for before, row in pairwise(sent) if before.group_id == row.group_id]
    dropped = sorted(set(numbers) - {row.group_id for row in sent})
    for row, number in zip(spare, dropped, strict=False):
        row.group_id = number


def weights_of(selection: Selection, names_F: Sequence[str]) -> list[float]:
    """The weight of each reward function in what is selected by; one of no function is refused."""
    weights = selection.selection_weights or {"score": 1.0}
    if unknown := sorted(set(weights) - {*names_F, "score"}):
        raise InvalidInputError(
            f"selection_weights names {unknown[0]!r}, which is no reward function; allowed:"
            f" {', '.join(names_F)}"
        )
    return [weights.get("score", 0.0) + weights.get(name, 0.0) for name in names_F]


def rollouts_of(records: Sequence[Mapping[str, Any]], step: int = 0) -> Rollouts:
    """Records of groups as what `PODSTrainer` would have of them."""
    by_function_P_N_F = torch.tensor(
        [record["by_function"] for record in records], dtype=torch.float64
    )
    columns: Columns = {}
    for name in ("row", "prompt_ids", "completion_ids", "completion"):
        columns[name] = [value for record in records for value in record[name]]

    tokens = [
        len(prompt) + len(completion)
        for record in records
        for prompt, completion in zip(record["prompt_ids"], record["completion_ids"], strict=True)
    ]
    shape_P_N = by_function_P_N_F.shape[:2]
    return Rollouts(
        step=step,
        index=0,
        columns=columns,
        places=range(len(tokens)),
        tokens_P_N=np.array(tokens).reshape(shape_P_N),
        by_function_P_N_F=by_function_P_N_F,
        rewards=Rewards(
            by_function_P_N_F=by_function_P_N_F.numpy(),
            reward_weights_F=np.ones(by_function_P_N_F.shape[-1]),
            selection_weights_F=np.array(records[0]["weights"]),
            masked_P_N=np.zeros(shape_P_N, dtype=bool),
            names_F=records[0]["names"],
            given_total_P_N=np.array([record["rewards"] for record in records]),
        ),
    )


def _record(scored: ScoredGroup, names_F: list[str], weights_F: list[float]) -> dict[str, Any]:
    """The record of a group, to select by and to log; NaN where TRL made no row of a rollout."""
    group = scored.group
    rows_N = scored.rows_N
    metrics_N = [rows[0].metrics if rows else {} for rows in rows_N]
    by_function_N_F = []
    for metrics in metrics_N:
        by_function_N_F.append([metrics.get(f"rewards/{name}", math.nan) for name in names_F])

    answers_N = group.reward_kwargs.get("answer", [None] * len(rows_N))
    return {
        "names": names_F,
        "weights": weights_F,
        "rewards": [metrics.get("reward", math.nan) for metrics in metrics_N],
        "by_function": by_function_N_F,
        "row": [{"answer": answer} for answer in answers_N],
        "prompt_ids": [_prompt_of(rows[0]) if rows else [] for rows in rows_N],
        "completion_ids": group.completions_ids,
        "completion": group.completions,
    }


def _prompt_of(row: RolloutSample) -> list[int]:
    """The tokens before the first one that the model wrote."""
    return row.input_ids[: int(row.completion_mask.argmax())].tolist()


def _means(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric over the rollouts that have it, without NaN."""
    names = dict.fromkeys(name for of_rollout in metrics for name in of_rollout)
    means = {}
    for name in names:
        values = [of_rollout.get(name, math.nan) for of_rollout in metrics]
        means[name] = torch.tensor(values, dtype=torch.float64).nanmean().item()
    return means
