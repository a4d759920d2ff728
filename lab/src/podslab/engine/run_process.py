"""A run in a process of its own: a crash or a leak hurts no other run."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from podslab.engine.run_end import PARENT_GONE, USER_ERROR
from podsrl.errors import InvalidInputError, PodsError
from podsrl.rollout_log import files

SECONDS_TO_END = 5.0  # that a process is waited for, before a stronger word

#: TRL reports the making of a trainer from a thread. While that looks up an address, the main
#: thread sets variables, and now and then the C library ends the process for it (SIGSEGV in
#: `getenv`). Should a run still crash like this, its log says where.
_ENVIRONMENT = {"HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONFAULTHANDLER": "1"}


@dataclass(frozen=True)
class RunProcess:
    """A process that trains one run.

    Args:
        name: The run, in words.
        process: The process; it ends when its standard input is closed.
        log: The file with all that it prints.
        began: When it was started, on the monotonic clock, in seconds.
        error_file: The file in which it says why it failed (`write_error`). Behind a launcher, such
            as torchrun, its exit status and its last line are the launcher's.
    """

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path
    began: float
    error_file: Path

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        error_file: Path,
    ) -> "RunProcess":
        """Start a command, whose output is added to `log`.

        Raises:
            InvalidInputError: There is no such program.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        error_file.unlink(missing_ok=True)  # of an earlier start

        try:
            with log.open("ab") as output:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**_ENVIRONMENT, **environment},
                )
        except OSError as error:
            raise InvalidInputError(
                f"{name}: {command[0]} can't be started: {error.strerror}"
            ) from error

        return cls(name, process, log, time.monotonic(), error_file)

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def stop(self) -> None:
        """End the process, if it still runs.

        A run of ours notices that its standard input is closed. Another program, such as a launcher
        whose workers have not come up yet, is told by SIGTERM, and at last by SIGKILL.
        """
        if self.process.stdin:
            self.process.stdin.close()
        for end in (self.process.terminate, self.process.kill):
            try:
                self.process.wait(SECONDS_TO_END)
                return
            except subprocess.TimeoutExpired:
                end()
        self.process.wait()

    def problem(self) -> str | None:
        """The reason why a process failed that has ended; None where it did not.

        Raises:
            PodsError: An error of the user's, which other runs would share.
        """
        self.stop()
        status = self.process.returncode
        if status == 0:
            return None

        written = files.read_json(self.error_file)
        if written is not None:
            if written["status"] == USER_ERROR:
                raise PodsError(f"{self.name}: {written['message']}")
            return f"{written['message']} (all that it printed: {self.log})"

        last_line = self._last_line()
        if status == USER_ERROR:
            raise PodsError(f"{self.name}: {last_line}")

        how = f"exit status {status}"
        if status < 0:
            how = f"killed by signal {-status}"
        elif status == PARENT_GONE:
            how = "its standard input was closed"
        return f"{how}; the end of {self.log}: {last_line}"

    def _last_line(self) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return (text.strip().splitlines() or [""])[-1]
