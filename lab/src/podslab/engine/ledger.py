"""The ledger of a comparison: every attempt at a run that began, and how it ended."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from filelock import FileLock

from podsrl.errors import InvalidInputError
from podsrl.rollout_log.environment import describe_environment
from podsrl.rollout_log.files import write_whole

#: How an attempt ended. One that was killed with its comparison has no end: it was stopped.
ENDED, FAILED, STOPPED = "ended", "failed", "stopped"
#: What the code of a comparison is made of.
_PACKAGES = ("podsrl", "podslab", "podsgrading")


@dataclass(frozen=True)
class Attempt:
    """An attempt at a run.

    Args:
        run: The name of the run.
        number: 1 for the first attempt at it in its part of the comparison, and so on.
        began: When it began, in UTC, as ISO 8601.
        machine: The processor that it ran on; the run's environment.json names the GPUs.
        plan: The digest of the plan when it began.
        code: The digest of the code.
        state: `ENDED`, `FAILED`, or `STOPPED`, which it also has while it is at work.
        why: Why it failed.
    """

    run: str
    number: int
    began: str
    machine: str
    plan: str
    code: str
    state: str
    why: str = ""


class Ledger:
    """The file ledger.jsonl of a comparison, or one for each part of it.

    Parts may be made on several machines, whose folders are copied together later: no part's file
    takes the place of another one's.

    Args:
        folder: The comparison's folder.
        plan: The digest of what is run, as `digest_of` gives it.
        part: The part whose attempts are written, such as "2-of-4"; "" is all of the comparison.
    """

    def __init__(self, folder: Path, plan: str, part: str = "") -> None:
        self.folder = folder
        self.file = folder / (f"ledger-{part}.jsonl" if part else "ledger.jsonl")
        self.plan = plan

    def begin(self, run: str) -> int:
        """Write that an attempt begins, before anything of it is done; returns its number."""
        with self._lock():
            lines = _lines(self.file)
            number = 1 + sum(line["run"] == run and line["event"] == "began" for line in lines)
            line = {
                "run": run,
                "attempt": number,
                "event": "began",
                "at": _now(),
                "machine": _machine(),
                "plan": self.plan,
                "code": code_digest(),
            }
            self._write([*lines, line])
        return number

    def end(self, run: str, number: int, state: str, why: str = "") -> None:
        """Write how an attempt ended: `ENDED` or `FAILED`, and why."""
        with self._lock():
            line = {"run": run, "attempt": number, "event": state, "at": _now(), "why": why}
            self._write([*_lines(self.file), line])

    def attempts(self) -> list[Attempt]:
        """All attempts of all parts, in the order in which they began."""
        files = sorted(self.folder.glob("ledger*.jsonl"))
        found = [attempt for file in files for attempt in _attempts(file)]
        return sorted(found, key=lambda attempt: attempt.began)

    def _lock(self) -> FileLock:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(self.file.with_name(".ledger.lock"))

    def _write(self, lines: Iterable[dict[str, Any]]) -> None:
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        write_whole(self.file, text.encode())


def _attempts(file: Path) -> list[Attempt]:
    """The attempts in one file, in the order in which they began."""
    lines = _lines(file)
    ends = {(line["run"], line["attempt"]): line for line in lines if line["event"] != "began"}
    found = []
    for line in lines:
        if line["event"] != "began":
            continue
        end = ends.get((line["run"], line["attempt"]), {"event": STOPPED, "why": ""})
        found.append(
            Attempt(
                run=line["run"],
                number=line["attempt"],
                began=line["at"],
                machine=line["machine"],
                plan=line["plan"],
                code=line["code"],
                state=end["event"],
                why=end["why"],
            )
        )
    return found


def _lines(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    try:
        return [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"{file} is damaged: {error}") from error


def digest_of(values: Any) -> str:
    """The SHA-256 of a plan's or a row's values, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


@cache
def code_digest() -> str:
    """The SHA-256 of the sources of the library and the laboratory."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            continue
        folder = Path(spec.origin).parent
        for file in sorted(folder.rglob("*.py")):
            digest.update(f"{package}/{file.relative_to(folder).as_posix()}\n".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def _machine() -> str:
    return str(describe_environment()["cpu"])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
