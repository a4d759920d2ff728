"""TorchTitan's `rollout_samples.jsonl`: one file of a run, a line for each rollout.

A line has `group_id`, `rollout_id`, `status`, `reward`, `reward_breakdown`, `advantage`, `turns`
and `is_validation` (August 2026). It has no step: the version of the policy that began the rollout,
which is the number of optimiser steps before it, stands in for one.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from podsrl.inspector.fields import lookup
from podsrl.inspector.reading import rows_of_file
from podsrl.inspector.sources.base import KnownFile, first_line
from podsrl.rewards import is_number
from podsrl.rollout_log.columns import REWARD_PREFIX

_FILE = "rollout_samples.jsonl"


class TitanSamples(KnownFile):
    """The file, or the folder that has it."""

    format = "TorchTitan's rollout samples"
    note = (
        "TorchTitan records the highest and the lowest rollout of each group, unless its filter"
        " says more; rollouts of validations are left out"
    )
    file_name = _FILE
    words: ClassVar[Mapping[str, str]] = {
        "prompt": "`turns`, the first prompt's messages",
        "completion": "`turns`, what the model and its environment said",
        "reward": "`reward`",
        "group": "`group_id`",
        "step": "`step` where there is one, else the policy's version in the first turn",
    }

    def rollouts(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """The rollouts of training."""
        for row in rows_of_file(path):
            if row.get("is_validation"):
                continue
            turns = row.get("turns") or [{}]
            said: list[Any] = []
            for turn in turns:
                said += [turn.get("completion_message") or {"role": "assistant"}]
                said += turn.get("env_messages") or []
            while said and said[-1].get("role") != "assistant":
                said.pop()

            breakdown = row.get("reward_breakdown") or {}
            yield self.as_said(
                row,
                {
                    "step": _step(row, turns[0]),
                    "group": row.get("group_id"),
                    "prompt": turns[0].get("prompt_messages"),
                    "completion": said,
                    "reward": row.get("reward"),
                    "advantage": row.get("advantage"),
                    "cut_off": str(row.get("status")).startswith("truncated"),
                    "token_logprobs": turns[-1].get("completion_logprobs"),
                    **{REWARD_PREFIX + k: v for k, v in breakdown.items() if is_number(v)},
                },
            )


def _step(row: Mapping[str, Any], turn: Mapping[str, Any]) -> Any:
    for step in (row.get("step"), lookup(row, "__metadata__.step")):
        if step is not None:
            return step
    return turn.get("min_policy_version")


def is_titan(path: Path) -> bool:
    """Whether a file, or the file of that name in a folder, has such rollouts."""
    row = first_line(path, _FILE)
    return row is not None and {"group_id", "rollout_id", "turns", "reward"} <= set(row)
