"""This program's end of one worker process: start it, ask it, kill it, start it again.

One thread at a time owns a worker: it writes a request, reads the answer with a timeout, and kills
the process if none comes. Only `kill` may be called by another thread.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

from podsrl.errors import PodsError

_CODE = "from podslab.grading.workers.serve import main; main()"
#: The longest request in bytes; no answer that a model gives is as long.
MAX_REQUEST = 60_000
#: Beyond the deadline that the process keeps itself, before it is killed.
_GRACE = 2.0
_SECONDS_TO_START = 120.0
_STARTS_ALLOWED = 3
#: The answer of a process that ended as a whole.
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
        if self._process is None:
            self._start()
        self._number += 1
        number = b"%d" % self._number
        reason: str | int = LOST
        try:
            self._socket.settimeout(deadline + _GRACE)
            self._socket.sendall(b"%s %s\n" % (number, line))
            while answer := self._answers.readline():
                found, _, text = answer.partition(b" ")
                if found in (number, b"0"):
                    with contextlib.suppress(ValueError):  # the half line of a killed child
                        message: dict[str, Any] = json.loads(text)
                        return message
        except TimeoutError:
            reason = signal.SIGALRM
        except ConnectionError:
            pass
        self.close()
        return {"died": reason}

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
        """Close our ends without touching the process (in a forked child: it is the parent's)."""
        if process := self._process:
            for end in (self._answers, self._socket, process.stderr):
                end.close()  # type: ignore[union-attr]  # stderr is a pipe
            process.returncode = process.returncode or 0  # no wait for another's child
        self._process = None

    def _start(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(p or os.getcwd() for p in sys.path)
        for _ in range(_STARTS_ALLOWED):
            self._socket, theirs = socket.socketpair()
            self._answers = self._socket.makefile("rb")
            with theirs:
                self._process = process = subprocess.Popen(
                    [sys.executable, "-c", _CODE],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.PIPE,
                    env=environment,
                    start_new_session=True,
                )
            self._socket.settimeout(_SECONDS_TO_START)
            with contextlib.suppress(TimeoutError, ConnectionError):
                self._socket.sendall(self._settings + b"\n")
                if self._answers.readline():
                    return
            self.kill()
            errors = process.stderr.read().decode(errors="replace").split("\n")  # type: ignore[union-attr]
            reason = next(filter(None, reversed(errors)), f"exit status {process.returncode}")
            self.close()
        raise GradingProcessError(
            f"the grading processes can't be started: {reason}. They run {sys.executable};"
            " do the imports of the grader work there?"
        )


def encode(function: str, arguments: tuple[Any, ...], deadline: float) -> bytes | None:
    """What asks for function(*arguments); None if it is longer than `MAX_REQUEST`."""
    request = {"function": function, "arguments": arguments, "deadline": deadline}
    line = json.dumps(request, ensure_ascii=False).encode(errors="surrogatepass")
    return line if len(line) <= MAX_REQUEST else None


def usable_cores() -> int:
    """How many cores are this process's: of its job's share, as torchrun's ranks divide it."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (there or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
