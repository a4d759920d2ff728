"""Grading in processes that can be killed, each answer with its deadline."""

import atexit
import contextlib
import functools
import hashlib
import os
import queue
import signal
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from podsrl.errors import InvalidInputError
from podslab.grading.unscorable import COUNTS
from podslab.grading.workers.process import Worker, encode, usable_cores

_CACHED = 20_000


class GradingPool:
    """Runs a grading function on many answers, in a few processes.

    A grading that takes too long, or whose process dies twice, is killed, is counted in
    `podslab.grading.unscorable.COUNTS`, and gives None; the others are not touched. Nothing is
    started before the first `run`. `run` may be called from any thread and inside a running event
    loop (it blocks it: `await asyncio.to_thread(pool.run, ...)` does not). No thread is left
    between two runs, so that this process may fork.

    Args:
        workers: processes; None means one per core, at most 8.
        deadline: seconds for one answer.
        memory: bytes of memory that grading one answer may take.
        preload: modules whose import takes long.
    """

    def __init__(
        self,
        workers: int | None = None,
        deadline: float = 5.0,
        memory: int = 2 << 30,
        preload: Sequence[str] = (),
    ) -> None:
        if workers is not None and workers < 1:
            raise InvalidInputError(f"workers must be at least 1; got {workers}")
        if not deadline > 0:
            raise InvalidInputError(f"the deadline must be positive seconds; got {deadline}")
        self.deadline = deadline
        count = workers or min(8, usable_cores())
        self._workers = [Worker(tuple(preload), memory) for _ in range(count)]
        self._cache: dict[bytes, Any] = {}
        self._all_are_idle()
        _POOLS.add(self)

    def run(self, function: str, items: Sequence[tuple[Any, ...]]) -> list[Any]:
        """function(*item) for every item, in order; None where that could not be done.

        Args:
            function: "module:function" or "path/to/file.py:function"; takes and returns what JSON
                can hold, and depends on nothing but its arguments.
            items: the arguments of each call.

        Raises:
            GradingProcessError: the processes can't be started.
        """
        lines = [encode(function, item, self.deadline) for item in items]
        answers: dict[bytes | None, Any] = {None: None}
        wanted = []
        with self._lock:
            COUNTS["errors"] += lines.count(None)  # too long to be sent
            for line in dict.fromkeys(filter(None, lines)):
                if (key := _key(line)) in self._cache:
                    answers[line] = self._cache[key]
                else:
                    wanted.append(line)
        if wanted:
            self._ask(wanted, answers)
        return [answers[line] for line in lines]

    def close(self) -> None:
        """End the processes that no other thread uses; a later `run` starts new ones."""
        idle = []
        with contextlib.suppress(queue.Empty):
            while True:
                idle.append(self._idle.get_nowait())
        for worker in idle:
            worker.close()
            self._idle.put(worker)

    def pids(self) -> list[int]:
        """The process ids of the workers that are running."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    def _ask(self, lines: list[bytes], answers: dict[bytes | None, Any]) -> None:
        """Ask all lines; a thread owns a worker while it asks. Other runs may use the others."""
        busy, stopped = list[Worker](), threading.Event()

        def ask(line: bytes) -> dict[str, Any]:
            worker = self._idle.get()
            busy.append(worker)
            try:
                message = worker.ask(line, self.deadline)
                if message.get("died", signal.SIGALRM) == signal.SIGALRM or stopped.is_set():
                    return message
                return worker.ask(line, self.deadline)  # killed from outside, perhaps
            finally:
                busy.remove(worker)
                self._idle.put(worker)

        with ThreadPoolExecutor(min(len(self._workers), len(lines))) as threads:
            try:
                for line, message in zip(lines, threads.map(ask, lines), strict=True):
                    with self._lock:
                        answers[line] = self._outcome(message, line)
            except BaseException:  # Ctrl-C, too: what is asked now is not waited for
                stopped.set()
                threads.shutdown(wait=False, cancel_futures=True)
                for worker in list(busy):
                    worker.kill()
                raise

    def _outcome(self, message: dict[str, Any], line: bytes) -> Any:
        COUNTS["graded"] += 1
        if "value" in message:
            self._cache[_key(line)] = message["value"]
            while len(self._cache) > _CACHED:
                del self._cache[next(iter(self._cache))]
            return message["value"]
        died = "timeouts" if message.get("died") == signal.SIGALRM else "crashes"
        COUNTS["errors" if "error" in message else died] += 1
        return None

    def _all_are_idle(self) -> None:
        self._lock = threading.Lock()
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()  # running ones come first
        for worker in self._workers:
            self._idle.put(worker)


def _key(line: bytes) -> bytes:
    """What the cache remembers a request by: programs and completions are long."""
    return hashlib.blake2b(line, digest_size=16).digest()


@functools.cache
def shared_pool(deadline: float, preload: str) -> GradingPool:
    """The pool of every task with this deadline whose grader takes long to import `preload`."""
    return GradingPool(deadline=deadline, preload=(preload,))


_POOLS: weakref.WeakSet[GradingPool] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for worker in (worker for pool in _POOLS for worker in pool._workers):
        worker.close()


def _forget_all() -> None:
    """In a forked child: the processes are the parent's, and its locks may be held for ever."""
    for pool in _POOLS:
        for worker in pool._workers:
            worker.forget()
        pool._all_are_idle()


os.register_at_fork(after_in_child=_forget_all)
