"""Labels and notes that people give to rollouts, in a file beside the run.

The file has one JSON object per line: step, group, rollout, label, note and the time. The last line
of a rollout counts; one with neither label nor note takes them away. Lines are only ever added, so
that several people can write at the same time.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from podsrl.errors import InvalidInputError

_LONGEST_LABEL = 60
_LONGEST_NOTE = 4_000

Place = tuple[int, int, int]  # step, group, rollout


@dataclass(frozen=True)
class Mark:
    """Somebody's label and note of a rollout."""

    label: str = ""
    note: str = ""


def read_notes(path: Path) -> dict[Place, Mark]:
    """The marks of a file; a line that can't be read is left out, as it may be half-written."""
    marks: dict[Place, Mark] = {}
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return marks
    for line in lines:
        try:
            value = json.loads(line)
            place = (int(value["step"]), int(value["group"]), int(value["rollout"]))
        except (ValueError, KeyError, TypeError):
            continue
        mark = Mark(str(value.get("label") or ""), str(value.get("note") or ""))
        if mark == Mark():
            marks.pop(place, None)
        else:
            marks[place] = mark
    return marks


def add_note(path: Path, place: Place, mark: Mark) -> None:
    """Write a mark.

    Raises:
        InvalidInputError: It is too long, or the file can't be written.
    """
    if len(mark.label) > _LONGEST_LABEL or len(mark.note) > _LONGEST_NOTE:
        raise InvalidInputError(
            f"a label has at most {_LONGEST_LABEL} characters, and a note {_LONGEST_NOTE:,}"
        )
    step, group, rollout = place
    value: Mapping[str, Any] = {
        "step": step,
        "group": group,
        "rollout": rollout,
        "label": mark.label,
        "note": mark.note,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    line = json.dumps(value, ensure_ascii=False).encode(errors="replace") + b"\n"
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            if not _ends_a_line(file):
                line = b"\n" + line
            written = os.write(file, line)  # at once, so that lines of several writers do not mix
        finally:
            os.close(file)
    except OSError as error:
        raise InvalidInputError(f"the note can't be written to {path}: {error.strerror}") from error
    if written < len(line):  # as on a disk that is full
        raise InvalidInputError(f"the note can't be written to {path}: there is no room for it")


def _ends_a_line(file: int) -> bool:
    """Whether an open file is empty, or ends with a whole line; a full disk may have cut one."""
    size = os.fstat(file).st_size
    return size == 0 or os.pread(file, 1, size - 1) == b"\n"
