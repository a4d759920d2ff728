"""verl's `trainer.rollout_data_dir`: one file `<step>.jsonl` for each step.

A line has `input`, `output`, `gts`, `score`, `step` and what the reward function returned beside
its score (verl 0.4 to 0.9). podsrl adds verl's key of a row as `uid`, and `kept`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from podsrl.errors import InvalidInputError
from podsrl.inspector.fields import prompt_of_verl
from podsrl.inspector.reading import first_rows, rows_of_file
from podsrl.inspector.sources.base import KnownFormat, RolloutFile, listed, number_at_end, numbered
from podsrl.rewards import is_number
from podsrl.rollout_log.columns import REWARD_PREFIX

_FILE = r"(\d+)\.jsonl"
_KNOWN = {"input", "output", "gts", "score", "step", "kept", "uid", "request_id"}


class VerlDump(KnownFormat):
    """A folder of verl's dumps."""

    format = "verl's rollout_data_dir"
    words: ClassVar[Mapping[str, str]] = {
        "prompt": "`input`",
        "completion": "`output`",
        "reward": "`score`",
        "group": "`uid` where podsrl wrote it, else rollouts of one `input`, `gts` and step",
        "step": "`step`",
    }

    def files(self) -> list[RolloutFile]:
        """The files, which verl writes in place."""
        return listed(numbered(self.path, _FILE), in_place=True)

    def step_of(self, file: RolloutFile) -> int | None:
        """The number in its name, unless the user named a field."""
        return None if self.options.fields.step else number_at_end(file.path.name)

    def rollouts(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """The rows of a step; other numbers of the reward function are parts of the reward."""
        for row in rows_of_file(path):
            parts = {
                REWARD_PREFIX + name: value
                for name, value in row.items()
                if name not in _KNOWN and is_number(value)
            }
            yield self.as_said(
                row,
                {
                    "step": row.get("step", int(path.stem)),
                    "group": prompt_of_verl(row.get("uid")),
                    "prompt": row.get("input"),
                    "completion": row.get("output"),
                    "reward": row.get("score"),
                    "answer": row.get("gts"),
                    "kept": row.get("kept"),
                    **parts,
                },
            )


def is_verl(folder: Path) -> bool:
    """Whether a folder has numbered files with verl's fields."""
    for path in numbered(folder, _FILE)[:1]:
        try:
            rows = first_rows(path, 1)
        except InvalidInputError:
            return False
        return not rows or {"input", "output", "score"} <= set(rows[0])
    return False
