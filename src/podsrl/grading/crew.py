"""The processes that work on one batch: who is asked what, who is overdue, who has died."""

import signal
import sys
import time
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

from podsrl.grading.process import GradingProcess, GradingProcessError

_STARTS_ALLOWED = 3
_SECONDS_TO_START = 120.0
_WITH_ITS_PARENT = "with its parent"


class Crew:
    """At most `size` processes, lent by a pool for one batch.

    Args:
        processes: those that run already.
        size: how many there may be.
        start: starts one.
        deadline: seconds for one answer.
    """

    def __init__(
        self,
        processes: list[GradingProcess],
        size: int,
        start: Callable[[], GradingProcess],
        deadline: float,
    ) -> None:
        self.processes = processes
        self.size = size
        self._start = start
        self._deadline = deadline
        self._failed_starts = 0
        self._asked: dict[GradingProcess, bytes] = {}
        self._waiting: list[bytes] = []
        self._lost: set[bytes] = set()  # asked of a process that ended, and asked again

    def answer(self, lines: list[bytes], take: Callable[[bytes, dict[str, Any]], None]) -> None:
        """Ask every line of one process; take(line, message) is called with each answer.

        Raises:
            GradingProcessError: processes can't be started.
        """
        self._waiting = lines[::-1]
        self._listen(take, wait=False)  # to what happened since the last batch
        while self._waiting or self._asked:
            wanted = min(self.size, len(self._waiting) + len(self._asked))
            while len(self.processes) < wanted:
                process = self._start()
                process.due = time.monotonic() + _SECONDS_TO_START
                self.processes.append(process)
            for process in self.processes:
                if self._waiting and process.ready and process not in self._asked:
                    self._asked[process] = self._waiting.pop()
                    process.ask(self._asked[process], self._deadline)
            self._listen(take)

    def end(self) -> None:
        """End every process."""
        for process in self.processes:
            process.close()
        self.processes.clear()

    def _listen(self, take: Callable[[bytes, dict[str, Any]], None], wait: bool = True) -> None:
        for process, message in self._next_messages(wait):
            if "ready" in message:
                process.ready, process.due = True, None
                self._failed_starts = 0
            elif process in self._asked:
                process.due = None
                line = self._asked.pop(process)
                if message.get("died") == _WITH_ITS_PARENT and line not in self._lost:
                    self._lost.add(line)  # killed from outside, perhaps: it is tried once more
                    self._waiting.append(line)
                else:
                    take(line, message)

    def _next_messages(self, wait: bool) -> list[tuple[GradingProcess, dict[str, Any]]]:
        """Wait for what the processes say next; one that has ended or is overdue is replaced."""
        now = time.monotonic()
        dues = [p.due for p in self.processes if p.due is not None]
        seconds = max(0.0, min(dues, default=now + 1.0) - now) if wait else 0.0
        readable = connection.wait([process.fileno() for process in self.processes], seconds)
        now = time.monotonic()
        found: list[tuple[GradingProcess, dict[str, Any]]] = []
        for process in list(self.processes):
            messages = process.messages() if process.fileno() in readable else []
            if messages is None:
                self._bury(process)
                messages = [{"died": _WITH_ITS_PARENT}]
            elif not messages and process.due is not None and process.due <= now:
                self._bury(process)
                messages = [{"died": signal.SIGALRM}]
            found += [(process, message) for message in messages]
        return found

    def _bury(self, process: GradingProcess) -> None:
        self.processes.remove(process)
        reason = process.why_it_ended()
        was_ready = process.ready
        process.close()
        if not was_ready:
            self._failed_starts += 1
            if self._failed_starts >= _STARTS_ALLOWED:
                raise GradingProcessError(
                    f"the grading processes can't be started: {reason}. They run"
                    f" {sys.executable}; do the imports of the grader work there?"
                )
