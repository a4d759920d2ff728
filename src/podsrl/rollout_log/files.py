"""Writing that survives being killed, and reading that names what is damaged."""

import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from podsrl.errors import InvalidInputError


class DamagedFileWarning(UserWarning):
    """A file of a run is half-written or can't be read, and was left out; the message names it."""


@contextmanager
def damage_as_notes(notes: list[str]) -> Iterator[None]:
    """Add the messages of `DamagedFileWarning`s to a list instead of warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DamagedFileWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, DamagedFileWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a file beside `path` to write to, which takes its place when it is whole.

    A reader sees the old content or the new, never a part of it. After an error the old one stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part of it."""
    with replacing(path) as part:
        part.write_bytes(data)


def write_json(path: Path, value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write a mapping or a list as an indented JSON file."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    write_whole(path, text.encode() + b"\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """A file with one JSON object; None if there is no such file."""
    return json_object(path.read_bytes(), str(path)) if path.is_file() else None


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Add one JSON object with a "step" as a line, after mending what a kill left of the last."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        ends_whole = file.read() in (b"", b"\n")
    if not ends_whole:
        keep_steps(path, last=math.inf)

    with path.open("ab") as file:
        file.write(_line(value))


def read_lines(path: Path, quiet: bool = False) -> list[dict[str, Any]]:
    """The JSON objects of a JSONL file, each with an integer "step"; [] if there is no file.

    A half-written last line is what a kill leaves behind: it is skipped with a
    `DamagedFileWarning`, or without one if `quiet`. Any other damage is an `InvalidInputError`.
    """
    lines = path.read_bytes().split(b"\n") if path.is_file() else []
    values = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue

        where = f"{path}, line {number}"
        try:
            value = json_object(line, where)
        except InvalidInputError:
            is_last = number == len(lines)
            if not is_last:
                raise
            if not quiet:
                warnings.warn(f"{where} is half-written and was skipped", DamagedFileWarning, 2)
            break

        if not isinstance(value.get("step"), int):
            raise InvalidInputError(f"{where} is damaged: no integer 'step'")
        values.append(value)
    return values


def keep_steps(path: Path, last: float) -> None:
    """Drop the lines of a JSONL file whose "step" is later than `last`, and a half-written one."""
    if path.is_file():
        kept = [row for row in read_lines(path, quiet=True) if row["step"] <= last]
        write_whole(path, b"".join(map(_line, kept)))


def plain(value: Any) -> Any:
    """`value` as plain JSON types: scalars of numpy or torch as numbers, NaN and infinity as None.

    >>> plain({"a": float("nan"), "b": (1, 2.5)})
    {'a': None, 'b': [1, 2.5]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return plain(value.tolist()) if hasattr(value, "tolist") else str(value)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False).encode() + b"\n"


def json_object(data: bytes, where: str) -> dict[str, Any]:
    """The JSON object in these bytes; an `InvalidInputError` names `where` if there is none."""
    try:
        value = json.loads(data)
    except ValueError as error:  # broken JSON, or bytes that are not UTF-8
        raise InvalidInputError(f"{where} is damaged: not JSON ({error})") from error
    except RecursionError as error:
        raise InvalidInputError(f"{where} is nested too deep to be read") from error
    if not isinstance(value, dict):
        raise InvalidInputError(f"{where} is damaged: not a JSON object")
    return value
