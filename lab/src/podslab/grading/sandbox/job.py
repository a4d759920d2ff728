"""One run of a model's code: what it may use, how it ended, and what the sandbox is told."""

import sysconfig
from dataclasses import dataclass
from pathlib import Path

#: The program that runs in the sandbox.
PROGRAM = (Path(__file__).parent / "inside.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Limits:
    """What the code of one answer may use.

    seconds: wall-clock time, generous for a busy machine. cpu: seconds on a processor, which end an
    endless loop. memory: bytes of address space. disk: bytes of its scratch folder, which lies in
    memory, too. output: bytes it may print. A new process is always refused.
    """

    seconds: float = 10.0
    cpu: int = 5
    memory: int = 1 << 30
    disk: int = 64 << 20
    output: int = 1 << 16


@dataclass(frozen=True)
class Result:
    """How a run ended.

    status: "passed"; "failed": an assertion or an exception, an early exit, a limit passed;
        "timeout": its time was over; "broken": the sandbox itself failed, nothing is known.
    output: the end of what was printed, both streams.
    """

    status: str
    output: str


def standard_input(code: str, tests: str, limits: Limits, token: str) -> str:
    """What `PROGRAM` reads from its standard input."""
    job = ascii(
        {
            "code": code,
            "tests": tests,
            "path": packages(),
            "limits": {
                "RLIMIT_AS": limits.memory,
                "RLIMIT_FSIZE": limits.disk,
                "RLIMIT_CPU": limits.cpu,
                "RLIMIT_NOFILE": 64,
                "RLIMIT_NPROC": 64,
                "RLIMIT_CORE": 0,
            },
        }
    )
    return f"{len(job):010d}{job}{token}"  # as many bytes as characters


def packages() -> list[str]:
    """The folders of this interpreter's packages, which the code may import."""
    paths = sysconfig.get_paths()
    return list(dict.fromkeys((paths["purelib"], paths["platlib"])))
