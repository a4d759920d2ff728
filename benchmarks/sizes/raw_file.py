"""The raw file: a line of JSON for each case, which a killed command leaves readable."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def read_raw(raw: Path) -> list[Line]:
    """The lines of the raw file; one whose writing was cut off is none."""
    if not raw.exists():
        return []
    return [json.loads(line) for line in _whole_lines(raw.read_bytes()).splitlines()]


def append(raw: Path, line: Mapping[str, Any]) -> None:
    """Put a line at the end, on disk before this returns, in place of one that was cut off."""
    with raw.open("ab") as file:
        file.truncate(len(_whole_lines(raw.read_bytes())))
        file.write(json.dumps(line).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _whole_lines(content: bytes) -> bytes:
    """Without what stands after the last end of a line."""
    return content[: content.rfind(b"\n") + 1]
