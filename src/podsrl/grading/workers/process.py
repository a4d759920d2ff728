"""This program's end of one worker process: start it, ask it, end it for certain, start it again.

One thread at a time uses a worker. It writes a request, reads the answer with a timeout, and kills
the process if none comes. Only `kill` may be called by another thread.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

from podsrl.errors import PodsError

_CODE = "from podsrl.grading.workers.serve import main; main()"
#: Requests up to this size never block: they fit into the pipe.
MAX_REQUEST = 60_000
#: Beyond the deadline that the process keeps itself, before it is killed.
_GRACE = 2.0
_SECONDS_TO_START = 120.0
_STARTS_ALLOWED = 3
#: The answer of a process that ended as a whole: perhaps it was killed from outside.
LOST = "the process ended"


class GradingProcessError(PodsError, RuntimeError):
    """The grading processes can't be started."""


class Worker:
    """One grading process, started when it is first asked, and again when it has ended.

    Args:
        preload: modules (or files) to import before the first fork.
        memory: bytes of address space that a grading may use.
    """

    def __init__(self, preload: tuple[str, ...], memory: int) -> None:
        self._settings = json.dumps({"preload": list(preload), "memory": memory}).encode()
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._number = 0

    @property
    def pid(self) -> int | None:
        """Of the process that forks the children, also their process group; None: not running."""
        return self._process.pid if self._process else None

    def ask(self, line: bytes, deadline: float) -> dict[str, Any]:
        """The answer to a request that `encode` made: {"value"}, {"error"} or {"died"}.

        "died" is the signal that ended the grading (SIGALRM: its time was over), or `LOST`.

        Raises:
            GradingProcessError: the process can't be started.
        """
        while self._process and (stale := self._read_line(0.0)) is not None:
            if not stale:
                self.close()
        if self._process is None:
            self._start()
        self._number += 1
        number = b"%d" % self._number
        self._write(number + b" " + line)
        while answer := self._read_line(deadline + _GRACE):
            found, _, text = answer.partition(b" ")
            if found in (number, b"0"):  # others belong to requests that were given up
                with contextlib.suppress(ValueError):  # the half line of a killed child
                    message: dict[str, Any] = json.loads(text)
                    return message
        self.close()
        return {"died": signal.SIGALRM if answer is None else LOST}

    def kill(self) -> None:
        """End the process and its child, at once."""
        if (process := self._process) and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def close(self) -> None:
        """End it and close its pipes."""
        self.kill()
        self.forget()

    def forget(self) -> None:
        """Close our ends of the pipes without touching the process (in a forked child)."""
        if process := self._process:
            for pipe in (process.stdin, process.stdout, process.stderr):
                with contextlib.suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]  # all three are pipes
            process.returncode = process.returncode or 0  # no wait for another's child
        self._process, self._buffer = None, b""

    def _start(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(p or os.getcwd() for p in sys.path)
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        reason = ""
        for _ in range(_STARTS_ALLOWED):
            self._process = process = subprocess.Popen(
                [sys.executable, "-c", _CODE],
                bufsize=0,
                env=environment,
                start_new_session=True,
                **pipes,  # type: ignore[call-overload]
            )
            self._write(self._settings)
            if self._read_line(_SECONDS_TO_START):
                return
            self.kill()
            errors = process.stderr.read().decode(errors="replace").strip().splitlines()
            reason = errors[-1] if errors else f"exit status {process.returncode}"
            self.close()
        raise GradingProcessError(
            f"the grading processes can't be started: {reason}. They run {sys.executable};"
            " do the imports of the grader work there?"
        )

    def _read_line(self, seconds: float) -> bytes | None:
        """The next line; b"" if the process has ended; None if none comes within `seconds`."""
        reading = self._process.stdout.fileno()  # type: ignore[union-attr]
        end = time.monotonic() + seconds
        poll = select.poll()
        poll.register(reading, select.POLLIN)
        while b"\n" not in self._buffer:
            if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                return None
            chunk = os.read(reading, 1 << 16)
            if not chunk:
                return b""
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line + b"\n"

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # its end is noticed by reading
            self._process.stdin.write(line + b"\n")  # type: ignore[union-attr]


def encode(function: str, arguments: tuple[Any, ...], deadline: float) -> bytes | None:
    """What asks for function(*arguments); None if it is longer than `MAX_REQUEST`."""
    request = {"function": function, "arguments": arguments, "deadline": deadline}
    line = json.dumps(request).encode()
    return line if len(line) <= MAX_REQUEST else None


def usable_cores() -> int:
    """How many cores this process may run on (a job's share of a machine may be less than all)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
