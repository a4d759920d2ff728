"""Reading data files in the form their authors publish them, with errors that name the line."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from podsrl.errors import InvalidInputError


class FileRow(dict[str, Any]):
    """A row that knows the line of the file it came from, for messages."""

    def __init__(self, row: dict[str, Any], line: int) -> None:
        super().__init__(row)
        self.line = line


def read_jsonl(path: str | Path, required: Iterable[str] = ()) -> list[FileRow]:
    """Rows of a JSONL file; blank lines are skipped.

    Raises:
        InvalidInputError: no such file, a line that is no JSON object, a row without a required
            field, or no row at all; the message names the file and the line.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise InvalidInputError(f"no file {path}")

    required = tuple(required)
    rows: list[FileRow] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                row = _parsed(line, is_first=number == 1, where=f"{path}, line {number}")
                _check_fields(row, required, where=f"{path}, line {number}")
                rows.append(FileRow(row, number))

    if not rows:
        raise InvalidInputError(f"{path}: the dataset is empty")
    return rows


def _parsed(line: bytes, *, is_first: bool, where: str) -> dict[str, Any]:
    """The object of one line; the first may begin with a byte-order mark."""
    encoding = "utf-8-sig" if is_first else "utf-8"
    try:
        row = json.loads(line.decode(encoding))
    except ValueError as error:  # broken JSON, or bytes that are not UTF-8
        raise InvalidInputError(f"{where}: not JSON ({error})") from error

    if not isinstance(row, dict):
        raise InvalidInputError(f"{where}: not a JSON object")
    return row


def _check_fields(row: dict[str, Any], required: Iterable[str], *, where: str) -> None:
    for field in required:
        if row.get(field) in (None, ""):
            raise InvalidInputError(f"{where}: no field {field!r}")


def find_file(path: str | Path, names: Iterable[str]) -> Path:
    """`path` itself if it is a file, else the first of `names` inside the folder `path`.

    Raises:
        InvalidInputError: there is neither; the message lists what was looked for.
    """
    if not str(path):
        raise InvalidInputError("the path of the data is empty; give a file or a folder")

    path = Path(path).expanduser()
    if path.is_file():
        return path

    names = list(names)
    for name in names:
        if (path / name).is_file():
            return path / name
    raise InvalidInputError(f"{path} is no file, and no folder with {' or '.join(names)}")


def load_from_hub(name: str, split: str, config: str | None = None) -> Iterable[dict[str, Any]]:
    """Rows of a split of a dataset on the Hugging Face hub (or in its cache).

    Raises:
        InvalidInputError: the dataset can't be had; the message says how to use a local copy.
    """
    import datasets  # takes a second

    try:
        rows = datasets.load_dataset(name, config, split=split)
    except (OSError, ValueError, RuntimeError) as error:  # offline, no such dataset, no such split
        reason = (str(error).splitlines() or ["no reason given"])[0]
        raise InvalidInputError(
            f"the dataset {name!r} ({split}) could not be loaded from the hub"
            f" ({type(error).__name__}: {reason})"
            "; give a local copy with --data_path (path= in Python)"
        ) from error

    if len(rows) == 0:
        raise InvalidInputError(f"the dataset {name!r} ({split}) is empty")
    return rows
