"""The parent's end of one grading process: start it, ask it, and end it for certain."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from podsrl.errors import PodsError

_CODE = "from podsrl.grading.worker import main; main()"
#: Requests up to this size never block: they fit into the pipe.
MAX_REQUEST = 60_000
#: Beyond the deadline that the child keeps itself, before the whole process is killed.
GRACE = 2.0


class GradingProcess:
    """One grading process; busy with at most one request at a time.

    Args:
        preload: modules (or files) to import before the first fork.
        memory: bytes of address space that a grading may use.
    """

    def __init__(self, preload: tuple[str, ...], memory: int) -> None:
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(p or os.getcwd() for p in sys.path)
        environment["OMP_NUM_THREADS"] = "1"
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            start_new_session=True,
        )
        self._buffer = bytearray()
        self._number = 0
        self.ready = False
        self.due: float | None = None
        self._write(json.dumps({"preload": list(preload), "memory": memory}).encode() + b"\n")

    def fileno(self) -> int:
        """Of the pipe that the answers come through, for `select`."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def pid(self) -> int:
        """Of the process that forks the children; also their process group."""
        return self._process.pid

    def ask(self, line: bytes, deadline: float) -> None:
        """Send one request, made by `encode`; its answer is due after `deadline` seconds."""
        self._number += 1
        self._write(b"%d %b\n" % (self._number, line))
        self.due = time.monotonic() + deadline + GRACE

    def messages(self) -> list[dict[str, Any]] | None:
        """What has come since the last call; None when the process has ended. Blocks if nothing.

        An answer to an earlier request than the last one, which was given up, is left out.
        """
        chunk = os.read(self.fileno(), 1 << 16)
        if not chunk:
            return None
        self._buffer += chunk
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer[:] = rest
        found = []
        for line in lines:
            number, _, text = line.partition(b" ")
            if number in (b"0", b"%d" % self._number):
                with contextlib.suppress(ValueError):  # the half line of a killed child
                    found.append(json.loads(text))
        return found

    def why_it_ended(self) -> str:
        """The last line of what it wrote to standard error, or its exit status."""
        assert self._process.stderr is not None
        self.kill()
        lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self._process.returncode}"

    def kill(self) -> None:
        """End the process and its child, at once."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.due = None

    def close(self) -> None:
        """End it and close its pipes."""
        self.kill()
        self.forget()

    def forget(self) -> None:
        """Close our ends of the pipes without touching the process (in a forked child)."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.returncode = self._process.returncode or 0  # no wait for another's child

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        # That the process has ended is noticed by reading, where the reason is found, too.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line)


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


class GradingProcessError(PodsError, RuntimeError):
    """The grading processes can't be started."""
