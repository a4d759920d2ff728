"""ms-swift's `completions.jsonl`: each line has the rollouts of a generation, a list per column.

The columns are step, prompt, completion, one for each reward function, advantages, and then what
else was logged, such as solution and entropy (ms-swift 3 and 4). Steps are texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from podsrl.errors import InvalidInputError
from podsrl.inspector.fields import weighted
from podsrl.inspector.reading import rows_of_file
from podsrl.inspector.sources.base import KnownFile, first_line
from podsrl.rewards import is_number
from podsrl.rollout_log.columns import REWARD_PREFIX

_FILE = "completions.jsonl"
_BEFORE = ("step", "gen_step", "prompt", "completion")


class SwiftCompletions(KnownFile):
    """The file, or the output folder that has it."""

    format = "ms-swift's completions.jsonl"
    file_name = _FILE
    words: ClassVar[Mapping[str, str]] = {
        "prompt": "`prompt`",
        "completion": "`completion`",
        "reward": "the sum of the columns between `completion` and `advantages`, each with weight"
        " 1",
        "group": "rollouts of one prompt text and step",
        "step": "`step`",
    }

    def rollouts(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """The rollouts of all lines."""
        for number, line in enumerate(rows_of_file(path), start=1):
            columns = {name: values for name, values in line.items() if isinstance(values, list)}
            functions = _functions(columns)
            size = len(columns.get("prompt", ()))
            if any(len(columns.get(name, ())) != size for name in ("completion", *functions)):
                raise InvalidInputError(f"{path}, line {number}: its columns differ in length")

            for place in range(size):
                row = {
                    name: values[place] for name, values in columns.items() if place < len(values)
                }
                answer = row.get("solution")
                yield self.as_said(
                    row,
                    {
                        "step": row.get("gen_step", row.get("step")),
                        "prompt": row.get("prompt"),
                        "completion": row.get("completion"),
                        "reward": weighted(row, dict.fromkeys(functions, 1.0)),
                        "advantage": row.get("advantages"),
                        "answer": answer,
                        **{REWARD_PREFIX + name: row.get(name) for name in functions},
                    },
                )


def is_swift(path: Path) -> bool:
    """Whether a file has columns in its lines, or a folder has such a file."""
    row = first_line(path, _FILE)
    return row is not None and all(
        isinstance(row.get(name), list) and not _are_messages(row[name])
        for name in ("prompt", "completion")
    )


def _are_messages(values: Sequence[Any]) -> bool:
    """Whether a list is one conversation, and not a column."""
    return bool(values) and all(isinstance(value, Mapping) and "role" in value for value in values)


def _functions(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """The columns of numbers before the advantages; all, where there are no advantages."""
    functions = []
    for name, values in columns.items():
        if name in ("advantages", "advantage"):
            break
        there = [value for value in values if value is not None]
        if name not in _BEFORE and there and all(is_number(value) for value in there):
            functions.append(name)
    return functions
