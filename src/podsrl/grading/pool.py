"""Grading in processes that can be killed, each answer with its deadline."""

import atexit
import contextlib
import functools
import hashlib
import os
import signal
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.grading.crew import Crew
from podsrl.grading.process import GradingProcess, encode, usable_cores
from podsrl.grading.unscorable import COUNTS, UnscorableWatch

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
        self.workers = workers or min(8, usable_cores())
        self.deadline = deadline
        self._memory = memory
        self._preload = tuple(preload)
        self._idle: list[GradingProcess] = []
        self._crews: list[Crew] = []
        self._free = self.workers
        self._changed = threading.Condition()
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
        with self._changed:
            if None in lines:
                self._unscorable("errors", "an answer is too long to be sent", lines.count(None))
            known = {line: _key(line) for line in lines if line is not None}
            answers = {x: self._cache[key] for x, key in known.items() if key in self._cache}

        def take(line: bytes, message: dict[str, Any]) -> None:
            with self._changed:
                answers[line] = self._outcome(message, line)

        wanted = [x for x in dict.fromkeys(lines) if x is not None and x not in answers]
        if wanted:
            with self._crew(len(wanted)) as crew:
                crew.answer(wanted, take)
        return [None if line is None else answers[line] for line in lines]

    def close(self) -> None:
        """End the processes; a later `run` starts new ones."""
        with self._changed:
            for process in self._idle:
                process.close()
            self._idle.clear()

    def pids(self) -> list[int]:
        """The process ids of the workers that are running."""
        lent = [process for crew in self._crews for process in crew.processes]
        return [process.pid for process in self._idle + lent]

    @contextlib.contextmanager
    def _crew(self, wanted: int) -> Iterator[Crew]:
        """Borrow processes, at least one: other threads may hold the others."""
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0)
            size = min(self._free, wanted)
            self._free -= size
            running = [self._idle.pop() for _ in range(min(size, len(self._idle)))]
            crew = Crew(running, size, self._start, self.deadline)
            self._crews.append(crew)
        try:
            yield crew
        except BaseException:
            crew.end()  # no late answer may be taken for another's
            raise
        finally:
            with self._changed:
                self._crews.remove(crew)
                self._idle += crew.processes
                self._free += size
                self._changed.notify_all()

    def _start(self) -> GradingProcess:
        return GradingProcess(self._preload, self._memory)

    def _forget(self) -> None:
        """In a forked child: the processes are the parent's, and its lock may be held for ever."""
        for process in self._idle + [process for crew in self._crews for process in crew.processes]:
            process.forget()
        self._idle, self._crews, self._free = [], [], self.workers
        self._changed = threading.Condition()

    def _end_all(self) -> None:
        for process in self._idle + [process for crew in self._crews for process in crew.processes]:
            process.close()

    def _outcome(self, message: dict[str, Any], line: bytes) -> Any:
        COUNTS["graded"] += 1
        if "value" in message:
            self._watch.record([False])
            self._cache[_key(line)] = message["value"]
            while len(self._cache) > _CACHED:
                del self._cache[next(iter(self._cache))]
            return message["value"]
        if "error" in message:
            kind, reason = "errors", str(message["error"])
        elif message["died"] == signal.SIGALRM:
            kind, reason = "timeouts", f"no result after {self.deadline:g} s"
        else:
            kind, reason = "crashes", f"the grading process died (signal {message['died']})"
        self._unscorable(kind, reason)
        return None

    def _unscorable(self, kind: str, reason: str, count: int = 1) -> None:
        COUNTS[kind] += count
        self._watch.record([True] * count, reason)


def _key(line: bytes) -> bytes:
    """What the cache remembers a request by: programs and completions are long."""
    return hashlib.blake2b(line, digest_size=16).digest()


@functools.cache
def shared_pool(deadline: float, preload: str) -> GradingPool:
    """The pool of every task with this deadline whose grader takes long to import `preload`.

    It stops for no share of failures: those who reward with a task watch over all its completions.
    """
    return GradingPool(deadline=deadline, preload=(preload,), max_unscorable=1.0)


def _close_at_exit_and_forget_after_fork(pool: GradingPool) -> None:
    reference = weakref.ref(pool)

    def close() -> None:
        if (pool := reference()) is not None:
            pool._end_all()

    def forget() -> None:
        if (pool := reference()) is not None:
            pool._forget()

    atexit.register(close)
    os.register_at_fork(after_in_child=forget)
