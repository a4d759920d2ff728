"""The raw file: a line of JSON for each case, which a killed command leaves readable."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podsrl.rollout_log.files import write_whole

Line = dict[str, Any]


def read_raw(raw: Path) -> list[Line]:
    """The lines of the raw file, without one whose writing was cut off."""
    if not raw.exists():
        return []
    return [json.loads(line) for line in _whole_lines(raw.read_bytes()).splitlines()]


def vllm_file(raw: Path) -> Path:
    """The file with the seconds of vLLM, which stands beside the raw file of the steps."""
    return raw.with_name(f"{raw.stem}-vllm{raw.suffix}")


def append(raw: Path, *lines: Mapping[str, Any]) -> None:
    """Put lines at the end, in place of one that was cut off.

    All of them or none: they are on disk together, before this returns.
    """
    before = _whole_lines(raw.read_bytes()) if raw.exists() else b""
    added = "".join(json.dumps(line) + "\n" for line in lines)
    write_whole(raw, before + added.encode())


def _whole_lines(content: bytes) -> bytes:
    """The content up to the last end of a line."""
    return content[: content.rfind(b"\n") + 1]
