"""TRL's own tables of completions, which `log_completions=True` writes.

`<output_dir>/completions/completions_00010.parquet` has the columns step, prompt, completion, one
for each reward function, the columns that these log themselves, and advantage (TRL 0.16 to 1.16).
axolotl, Unsloth and open-r1 write them too, as they train with TRL. A table has the rollouts of the
last generation before the step was logged.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.inspector.fields import weighted
from podsrl.inspector.reading import first_rows, rows_of_file
from podsrl.inspector.sources.base import (
    KnownFormat,
    Options,
    Progress,
    RolloutFile,
    entries,
    listed,
    number_at_end,
    numbered,
)
from podsrl.rewards import is_number
from podsrl.rollout_log.columns import REWARD_PREFIX

#: podsrl gives the tables of evaluations other names.
_FILE = r"completions_(\d+)\.parquet"
#: The columns that TRL and podsrl write beside those of reward functions.
_OTHERS = {"step", "prompt", "completion", "advantage", "kept", "image", "solution", "answer"}


class TrlCompletions(KnownFormat):
    """The folder `completions` of a TRL run, its output_dir, or one table."""

    format = "TRL's table of completions"
    note = "TRL logs the last generation before each logging step, and no lengths"

    def __init__(self, path: Path, options: Options) -> None:
        super().__init__(path, options)
        self._functions: list[str] = []

    def files(self) -> list[RolloutFile]:
        """The tables, which TRL writes in place."""
        return listed(_tables(self.path), in_place=True)

    def step_of(self, file: RolloutFile) -> int | None:
        """The number in its name."""
        return number_at_end(file.path.name)

    def rollouts(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """The rows of a table; the reward is the sum of the functions, as TRL's weights are 1."""
        named = self.options.fields.rewards
        functions = list(named) or _reward_columns(first_rows(path), path)
        self._functions = functions
        for row in rows_of_file(path):
            yield self.as_said(
                row,
                {
                    "step": row.get("step"),
                    "prompt": row.get("prompt"),
                    "completion": row.get("completion"),
                    "reward": weighted(row, dict.fromkeys(functions, 1.0)),
                    "advantage": row.get("advantage"),
                    "kept": row.get("kept"),
                    "answer": row.get("solution", row.get("answer")),
                    **{REWARD_PREFIX + name: row.get(name) for name in functions},
                },
            )

    def reading(self) -> dict[str, str]:
        """With the functions whose sum the reward is."""
        total = " + ".join(f"`{name}`" for name in self._functions)
        each = ", each with weight 1" if len(self._functions) > 1 else ""
        return {"prompt": "`prompt`", "completion": "`completion`", "reward": total + each} | {
            "group": "rollouts of one prompt text and step",
            "step": "`step`",
            **super().reading(),
        }

    def progress(self) -> Progress:
        """From trainer_state.json of the newest checkpoint, if there is one."""
        total = _total_steps(self.path)
        steps = [number_at_end(path.name) for path in _tables(self.path)]
        if total is not None and total in steps:
            return Progress("finished", total_steps=total)
        return Progress(super().progress().state, total_steps=total)


def is_trl(path: Path) -> bool:
    """Whether a folder has TRL's tables, or a parquet file is one."""
    if path.is_dir():
        return bool(_tables(path))
    if path.suffix != ".parquet":
        return False
    try:
        rows = first_rows(path, 1)
    except InvalidInputError:
        return False
    return (
        bool(rows)
        and list(rows[0])[:3] == ["step", "prompt", "completion"]
        and "advantage" in rows[0]
        and "reward" not in rows[0]
    )


def _tables(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return numbered(path / "completions", _FILE) or numbered(path, _FILE)


def _reward_columns(rows: Sequence[Mapping[str, Any]], path: Path) -> list[str]:
    """The columns of numbers between the completion and the advantage.

    TRL writes those of reward functions first, and then what these log themselves, whose numbers
    can't be told from rewards: `--reward` names the right ones.
    """
    functions: list[str] = []
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows if row[name] is not None]
        if name in _OTHERS or any(isinstance(value, bool) for value in values):
            continue
        if values and all(is_number(value) for value in values):
            functions.append(name)
    if rows and not functions:
        raise InvalidInputError(
            f"{path}: no column of numbers beside step and advantage, so no reward; it has"
            f" {', '.join(map(repr, rows[0]))}. Name one with --reward"
        )
    return functions


def _total_steps(path: Path) -> int | None:
    """The steps that a run will have, as its newest checkpoint says."""
    checkpoints = [entry for entry in entries(path) if entry.name.startswith("checkpoint-")]
    for entry in sorted(checkpoints, key=_saved, reverse=True):
        state = Path(entry.path) / "trainer_state.json"
        try:
            steps = json.loads(state.read_bytes()).get("max_steps")
        except (OSError, ValueError, AttributeError):
            continue
        return steps if isinstance(steps, int) and steps > 0 else None
    return None


def _saved(checkpoint: "os.DirEntry[str]") -> tuple[float, int]:
    """A key that sorts checkpoints by when they were saved; of one tick of the clock, by step."""
    try:
        saved = checkpoint.stat().st_mtime
    except FileNotFoundError:  # the run has deleted it since it was listed
        saved = 0.0
    return saved, number_at_end(checkpoint.name) or 0
