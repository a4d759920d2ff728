"""Reading data files in the form their authors publish them, with errors that name the line."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from podsrl.errors import InvalidInputError


def read_jsonl(path: str | Path, required: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Rows of a JSONL file; blank lines are skipped.

    Raises:
        InvalidInputError: no such file, a line that is no JSON object, a row without a required
            field, or no row at all; the message names the file and the line.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise InvalidInputError(f"no file {path}")
    rows = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise InvalidInputError(f"{path}, line {number}: not JSON ({error})") from error
            if not isinstance(row, dict):
                raise InvalidInputError(f"{path}, line {number}: not a JSON object")
            for field in required:
                if row.get(field) in (None, ""):
                    raise InvalidInputError(f"{path}, line {number}: no field {field!r}")
            rows.append(row)
    if not rows:
        raise InvalidInputError(f"{path}: the dataset is empty")
    return rows


def find_file(path: str | Path, names: Iterable[str]) -> Path:
    """`path` itself if it is a file, else the first of `names` inside the folder `path`.

    Raises:
        InvalidInputError: there is neither; the message lists what was looked for.
    """
    path = Path(path).expanduser()
    if path.is_file():
        return path
    names = list(names)
    for name in names:
        if (path / name).is_file():
            return path / name
    raise InvalidInputError(f"{path} is no file, and no folder with {' or '.join(names)}")
