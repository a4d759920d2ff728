"""Logs of Inspect (inspect_ai 0.3): `.eval`, a zip with a file for each sample, and `.json`.

A sample has its `input`, `target`, `messages`, `output` and `scores`; the samples of one id in
several epochs are a group. Scores are "C", "P", "I" and "N" for correct, partly correct, incorrect
and no answer, or numbers.
"""

import json
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from podsrl.errors import InvalidInputError
from podsrl.inspector.fields import split_conversation, weighted
from podsrl.inspector.sources.base import KnownFormat, RolloutFile, listed
from podsrl.rewards import as_number, is_number
from podsrl.rollout_log.columns import REWARD_PREFIX

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_ZSTD = 93  # how Inspect compresses since 2026, which Python's zipfile reads from 3.14 on
_LARGEST = 500_000_000  # bytes of a sample, as it says: more is no sample


class InspectLog(KnownFormat):
    """A log of an evaluation."""

    format = "Inspect's log"
    note = "an evaluation: nothing of it was trained on"
    words: ClassVar[Mapping[str, str]] = {
        "prompt": "`input`",
        "completion": "`messages`, from where the model first speaks",
        "reward": "the sum of `scores`: C is 1, P is 1/2, I and N are 0",
        "group": "`id`, over the epochs",
        "step": "none: all 1",
    }

    def files(self) -> list[RolloutFile]:
        """The log."""
        return listed([self.path], in_place=True)

    def rollouts(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """The samples, in the order of their ids and epochs."""
        for sample in _samples(path):
            scores = {name: _score(score) for name, score in (sample.get("scores") or {}).items()}
            prompt, completion = split_conversation(sample.get("messages"))
            output = sample.get("output") or {}
            choices = output.get("choices") or [{}]
            yield self.as_said(
                {**sample, **scores},
                {
                    "group": sample.get("id"),
                    "prompt": prompt or sample.get("input"),
                    "completion": completion or [],
                    "reward": weighted(scores, dict.fromkeys(scores, 1.0)),
                    "answer": sample.get("target"),
                    "tokens": (output.get("usage") or {}).get("output_tokens"),
                    "cut_off": choices[0].get("stop_reason") in ("max_tokens", "model_length"),
                    **{REWARD_PREFIX + name: score for name, score in scores.items()},
                },
            )


def is_inspect(path: Path) -> bool:
    """Whether a file is a log of Inspect's."""
    if path.suffix == ".eval":
        return True
    if path.suffix != ".json":
        return False
    try:
        with path.open("rb") as file:
            start = file.read(4_000)
    except OSError:
        return False
    return re.match(rb'\s*\{\s*"version"\s*:\s*\d', start) is not None and b'"eval"' in start


def _score(score: Mapping[str, Any]) -> float | None:
    """The number of a scorer; of several values in one their mean."""
    value = score.get("value")
    values = value.values() if isinstance(value, Mapping) else [value]
    numbers = [_GRADES.get(one) if isinstance(one, str) else one for one in values]
    there = [as_number(one) for one in numbers if is_number(one)]
    return sum(there) / len(there) if there else None


def _samples(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".json":
        try:
            log = json.loads(path.read_bytes())
        except ValueError as error:
            raise InvalidInputError(f"{path} is damaged: not JSON ({error})") from error
        yield from log.get("samples") or ()
        return

    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.filename.startswith("samples/"):
                    yield json.loads(_read(archive, member, path))
    except (zipfile.BadZipFile, pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInputError(f"{path} is damaged: {error}") from error


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> bytes:
    """The bytes of a file of the archive."""
    if member.file_size > _LARGEST:
        raise InvalidInputError(f"{path}: {member.filename} has {member.file_size:,} bytes")
    if member.compress_type != _ZSTD:
        return archive.read(member)

    # The local header says how long the name is, and what more stands before the data.
    with path.open("rb") as file:
        file.seek(member.header_offset)
        name, more = struct.unpack("<26xHH", file.read(30))
        file.seek(name + more, 1)
        packed = file.read(member.compress_size)
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        return bytes(stream.read(member.file_size))
