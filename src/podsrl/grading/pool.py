"""Grading in processes that can be killed, each answer with its deadline."""

import atexit
import functools
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from multiprocessing import connection
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.grading.process import GradingProcess, GradingProcessError, encode
from podsrl.grading.unscorable import COUNTS, UnscorableWatch

_STARTS_ALLOWED = 3
_SECONDS_TO_START = 120.0
_CACHED = 20_000
_ADVICE = (
    "Look at those completions; a longer deadline for each answer may help, and max_unscorable"
    " sets the share that is tolerated."
)


class GradingPool:
    """Runs a grading function on many answers, in a few processes.

    A grading that takes too long, or whose process dies, is killed, is counted in
    `podsrl.grading.unscorable.COUNTS`, and gives None; the others are not touched. Nothing is
    started before the first `run`. `run` may be called from any thread and inside a running event
    loop (it blocks it: `await asyncio.to_thread(pool.run, ...)` does not).

    Args:
        workers: processes; None means one per core, at most 8.
        deadline: seconds for one answer.
        memory: bytes of memory that grading one answer may take.
        max_unscorable: the share of recent gradings that may fail before `run` raises.
        preload: modules whose import takes long.
    """

    def __init__(
        self,
        workers: int | None = None,
        deadline: float = 5.0,
        memory: int = 2 << 30,
        max_unscorable: float = 0.5,
        preload: Sequence[str] = (),
    ) -> None:
        if workers is not None and workers < 1:
            raise InvalidInputError(f"workers must be at least 1; got {workers}")
        if not deadline > 0:
            raise InvalidInputError(f"the deadline must be positive seconds; got {deadline}")
        self.workers = workers or min(8, os.cpu_count() or 1)
        self.deadline = deadline
        self._memory = memory
        self._preload = tuple(preload)
        self._processes: list[GradingProcess] = []
        self._failed_starts = 0
        self._lock = threading.Lock()
        self._cache: dict[bytes, Any] = {}
        self._watch = UnscorableWatch(max_unscorable, window=256, advice=_ADVICE)
        _close_at_exit_and_forget_after_fork(self)

    def run(self, function: str, items: Sequence[tuple[Any, ...]]) -> list[Any]:
        """function(*item) for every item, in order; None where that could not be done.

        Args:
            function: "module:function" or "path/to/file.py:function"; takes and returns what JSON
                can hold, and depends on nothing but its arguments.
            items: the arguments of each call.

        Raises:
            UnscorableError: more than `max_unscorable` of the recent gradings failed.
            GradingProcessError: the processes can't be started.
        """
        lines = [encode(function, item, self.deadline) for item in items]
        if None in lines:
            too_long = lines.count(None)
            COUNTS["errors"] += too_long
            self._watch.record([True] * too_long, "an answer is too long to be sent")
        with self._lock:
            answers = {line: self._cache[line] for line in lines if line in self._cache}
            wanted = [x for x in dict.fromkeys(lines) if x is not None and x not in answers]
            try:
                self._answer(wanted, answers)
            except BaseException:
                self._end_processes()  # no late answer may be taken for another's
                raise
            return [None if line is None else answers[line] for line in lines]

    def close(self) -> None:
        """End the processes; a later `run` starts new ones."""
        with self._lock:
            self._end_processes()

    def pids(self) -> list[int]:
        """The process ids of the workers that are running."""
        return [process.pid for process in self._processes]

    def _forget(self) -> None:
        """In a forked child: the processes are the parent's, and its lock may be held for ever."""
        for process in self._processes:
            process.forget()
        self._processes = []
        self._lock = threading.Lock()

    def _end_processes(self) -> None:
        for process in self._processes:
            process.close()
        self._processes.clear()

    def _answer(self, lines: list[bytes], answers: dict[bytes, Any]) -> None:
        """Fill `answers` for every line."""
        waiting = lines[::-1]
        asked: dict[GradingProcess, bytes] = {}
        self._listen(asked, answers, wait=False)  # to what happened since the last run
        while waiting or asked:
            while len(self._processes) < min(self.workers, len(waiting) + len(asked)):
                self._processes.append(self._start())
            for process in self._processes:
                if waiting and process.ready and process not in asked:
                    asked[process] = waiting.pop()
                    process.ask(asked[process], self.deadline)
            self._listen(asked, answers)

    def _listen(
        self, asked: dict[GradingProcess, bytes], answers: dict[bytes, Any], wait: bool = True
    ) -> None:
        for process, message in self._next_messages(wait):
            if "ready" in message:
                process.ready, process.due = True, None
                self._failed_starts = 0
            elif process in asked:
                line = asked.pop(process)
                process.due = None
                answers[line] = self._outcome(message, line)

    def _next_messages(self, wait: bool) -> list[tuple[GradingProcess, dict[str, Any]]]:
        """Wait for what the processes say next; one that has ended or is overdue is replaced."""
        now = time.monotonic()
        dues = [p.due for p in self._processes if p.due is not None]
        seconds = max(0.0, min(dues, default=now + 1.0) - now) if wait else 0.0
        readable = connection.wait([process.fileno() for process in self._processes], seconds)
        now = time.monotonic()
        found: list[tuple[GradingProcess, dict[str, Any]]] = []
        for process in list(self._processes):
            messages = process.messages() if process.fileno() in readable else []
            if messages is None:
                self._bury(process)
                messages = [{"died": "with its parent"}]
            elif not messages and process.due is not None and process.due <= now:
                self._bury(process)
                messages = [{"died": signal.SIGALRM}]
            found += [(process, message) for message in messages]
        return found

    def _start(self) -> GradingProcess:
        process = GradingProcess(self._preload, self._memory)
        process.due = time.monotonic() + _SECONDS_TO_START
        return process

    def _bury(self, process: GradingProcess) -> None:
        self._processes.remove(process)
        reason = process.why_it_ended()
        was_ready = process.ready
        process.close()
        if not was_ready:
            self._failed_starts += 1
            if self._failed_starts >= _STARTS_ALLOWED:
                self._failed_starts = 0
                raise GradingProcessError(
                    f"the grading processes can't be started: {reason}. They run"
                    f" {sys.executable}; do the imports of the grader work there?"
                )

    def _outcome(self, message: dict[str, Any], line: bytes) -> Any:
        COUNTS["graded"] += 1
        if "value" in message:
            self._watch.record([False])
            self._cache[line] = message["value"]
            while len(self._cache) > _CACHED:
                del self._cache[next(iter(self._cache))]
            return message["value"]
        if "error" in message:
            kind, reason = "errors", str(message["error"])
        elif message["died"] == signal.SIGALRM:
            kind, reason = "timeouts", f"no result after {self.deadline:g} s"
        else:
            kind, reason = "crashes", f"the grading process died (signal {message['died']})"
        COUNTS[kind] += 1
        self._watch.record([True], reason)
        return None


@functools.cache
def shared_pool(deadline: float = 5.0, workers: int | None = None) -> GradingPool:
    """The pool that every task with these settings uses."""
    return GradingPool(workers, deadline, preload=("podsrl.grading.relations",))


def _close_at_exit_and_forget_after_fork(pool: GradingPool) -> None:
    reference = weakref.ref(pool)

    def close() -> None:
        if (pool := reference()) is not None:
            pool._end_processes()

    def forget() -> None:
        if (pool := reference()) is not None:
            pool._forget()

    atexit.register(close)
    os.register_at_fork(after_in_child=forget)
