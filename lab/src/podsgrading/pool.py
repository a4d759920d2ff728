"""Grading in processes that can be killed: what hangs, crashes or fills memory harms nothing else.

A helper process, started on first use, imports the graders once and forks the workers of a
`pebble.ProcessPool`. The deadline of an answer is of processor time, after which the kernel ends
its worker: a busy machine makes no answer unscorable. One that waits for something is ended by
pebble, `_LONGEST` times as late by the clock.

The helper is no child of multiprocessing: such children run the user's main script again, daemonic
processes may not have them, and a fork of a process with torch and CUDA in it may hang.
"""

import atexit
import concurrent.futures
import contextlib
import functools
import gc
import math
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from pebble import ProcessExpired, ProcessFuture, ProcessPool

from podsgrading.unscorable import COUNTS
from podsrl.errors import InvalidInputError, PodsError
from podsrl.plugins import import_module_or_file

_HELPER = "import sys; from podsgrading.pool import serve; serve(int(sys.argv[1]))"
#: A busy machine may take long to import sympy and to fill the parser's tables.
_SECONDS_TO_START = 120.0
#: Bytes that grading one answer may take.
_MEMORY = 2 << 30
#: A pool takes no more processes than this, however many cores there are.
_MAX_WORKERS = 8
#: Seconds between two looks of the helper whether the process that asks is still there.
_LOOK_EVERY = 1.0
#: An answer may take so many times its deadline by the clock.
_LONGEST = 6.0
#: Seconds beyond that in which pebble must have ended a worker, before all are killed.
GRACE = 30.0


_Arguments = tuple[Any, ...]


class GradingProcessError(PodsError, RuntimeError):
    """The grading processes can't be started."""


class Outcome(NamedTuple):
    """The outcome of one call.

    result: what the function returned; None where it returned nothing.
    failure: a key of `podsgrading.unscorable.COUNTS` that says why not, or "".
    """

    result: Any
    failure: str


class GradingPool:
    """Runs a grading function on many answers, in a few processes.

    A grading that takes too long, crashes or raises is counted in
    `podsgrading.unscorable.COUNTS` and gives None; the others are not touched. `run` may be
    called from any thread, inside a running event loop (which it blocks) and after a fork.

    Args:
        deadline: seconds of processor time for one answer.
        preload: modules or files whose import takes long.
        workers: processes; None means one per core, at most 8.
    """

    def __init__(
        self, deadline: float = 5.0, preload: Sequence[str] = (), workers: int | None = None
    ) -> None:
        if workers is not None and workers < 1:
            raise InvalidInputError(f"workers must be at least 1; got {workers}")
        if not deadline > 0:
            raise InvalidInputError(f"the deadline must be positive seconds; got {deadline}")

        self._deadline = deadline
        self._preload = tuple(preload)
        self._workers = workers or min(_MAX_WORKERS, usable_cores())
        self._process: subprocess.Popen[bytes] | None = None
        self.forget()
        _POOLS.add(self)

    def run(self, function: str, items: Sequence[_Arguments]) -> list[Any]:
        """The result of function(*item) for every item, in order; None where there is none.

        Args:
            function: "module:function" or "path/to/file.py:function".
            items: the arguments of each call, hashable; equal ones are called once.

        Raises:
            GradingProcessError: the processes can't be started.
        """
        calls = list(dict.fromkeys(items))
        if not calls:
            return []

        with self._lock:
            outcomes = self._ask(function, calls)
            COUNTS["graded"] += len(calls)
            COUNTS.update(outcome.failure for outcome in outcomes if outcome.failure)

        outcome_of_call = dict(zip(calls, outcomes, strict=True))
        return [outcome_of_call[item].result for item in items]

    @property
    def pid(self) -> int | None:
        """The process id and process group of the helper; None if it is not running."""
        return self._process.pid if self._process else None

    def close(self) -> None:
        """End the processes; a later `run` starts new ones."""
        if self._process is None:
            return

        with contextlib.suppress(ProcessLookupError):  # it has ended already
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()
        self._process = None

    def forget(self) -> None:
        """Begin anew without touching the processes: in a forked child they are the parent's."""
        # The lock may have been held by a thread that the child does not have.
        self._lock = threading.Lock()
        if self._process is None:
            return

        self._connection.close()
        self._process.returncode = 0  # so that Popen does not wait for another's child
        self._process = None

    def _ask(self, function: str, calls: Sequence[_Arguments]) -> list[Outcome]:
        """The outcome of each call."""
        rounds = math.ceil(len(calls) / self._workers)
        patience = rounds * (_LONGEST * self._deadline + GRACE)

        for _ in range(2):  # a helper that was killed from outside is replaced once
            try:
                if self._process is None:
                    self._start()
                self._connection.send((function, calls, self._deadline))
                if self._connection.poll(patience):
                    outcomes: list[Outcome] = self._connection.recv()
                    return outcomes
            except (EOFError, ConnectionError):
                pass
            except BaseException:  # after Ctrl-C no late answer may be taken for another
                self.close()
                raise
            self.close()

        return [Outcome(None, "crashes")] * len(calls)

    def _start(self) -> None:
        """Start the helper, and wait until it has imported the graders."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        # What this process can import, the helper can, too; "" is the folder one is in.
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)

        self._connection, helper_end = multiprocessing.Pipe()
        with helper_end:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _HELPER, str(helper_end.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                pass_fds=(helper_end.fileno(),),
                start_new_session=True,  # so that `close` ends its workers with it
            )

        problem = f"no answer after {_SECONDS_TO_START:.0f} s"
        try:
            self._connection.send((self._workers, self._preload))
            if self._connection.poll(_SECONDS_TO_START):
                problem = self._connection.recv()  # "" if there is none
        except (EOFError, ConnectionError):
            problem = f"exit status {self._process.wait()}"

        if problem:
            raise GradingProcessError(
                f"the grading processes can't be started: {problem}. They run {sys.executable};"
                " do the imports of the grader work there?"
            )


def serve(descriptor: int) -> None:
    """Answer requests until the connection is closed: the main function of the helper process."""
    connection = Connection(descriptor)
    workers, preload = connection.recv()

    try:
        for module in preload:
            import_module_or_file(module)
    except Exception as error:  # noqa: BLE001 (an import may raise anything; the pool reports it)
        connection.send(f"{type(error).__name__}: {error}")
        return

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # what graders print
    gc.freeze()  # a collection in a worker would copy all of the memory that it shares
    helper = _Helper(connection, workers)
    connection.send("")  # no problem

    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            function, calls, deadline = connection.recv()
            connection.send(helper.outcomes(function, calls, deadline))

    os.killpg(0, signal.SIGKILL)  # this process and its workers


class _Helper:
    """In the helper process: the workers, and what comes of the calls that they are given."""

    def __init__(self, connection: Connection, workers: int) -> None:
        self._connection = connection
        self._workers = workers
        self._pool = self._new_pool()

    def outcomes(
        self, function: str, calls: Sequence[_Arguments], deadline: float
    ) -> list[Outcome]:
        """The outcome of each call.

        Raises:
            EOFError: The connection was closed in the meantime.
        """
        futures = self._ended(function, calls, deadline)

        # Pebble gives up all calls if it sees the end of a worker before it has read which call
        # that worker had. Each of them is made again by itself, so that none pays for another.
        for place, call in enumerate(calls):
            if _is_given_up(futures[place]):
                (futures[place],) = self._ended(function, [call], deadline)
        return [_outcome(future) for future in futures]

    def _ended(
        self, function: str, calls: Sequence[_Arguments], deadline: float
    ) -> list[ProcessFuture[Any]]:
        """Make these calls and wait for them: a future of each, which has ended."""
        if not self._pool.active:  # it has given up
            self._pool.stop()
            self._pool.join()
            self._pool = self._new_pool()

        futures = [
            self._pool.schedule(_call, args=(function, call, deadline), timeout=_LONGEST * deadline)
            for call in calls
        ]
        while concurrent.futures.wait(futures, timeout=_LOOK_EVERY).not_done:
            if self._connection.poll():  # nobody asks while an answer is due: it is closed
                raise EOFError
        return futures

    def _new_pool(self) -> ProcessPool:
        return ProcessPool(
            max_workers=self._workers,
            initializer=_begin_worker,
            initargs=(self._connection.fileno(),),
            context=multiprocessing.get_context("fork"),
        )


def _begin_worker(descriptor: int) -> None:
    """Begin a worker: let go of the connection, and set the worker's limits."""
    os.close(descriptor)  # so that the end of the helper closes the connection
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # pebble's handler waits for Python's turn
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, see `_call`

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # macOS refuses to limit memory
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        memory = _MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _call(function: str, arguments: _Arguments, deadline: float) -> Any:
    """In a worker: the function of that name, called for so many seconds of processor time."""
    where, _, name = function.rpartition(":")
    module = import_module_or_file(where)

    signal.setitimer(signal.ITIMER_PROF, deadline)
    try:
        return getattr(module, name)(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def _is_given_up(future: ProcessFuture[Any]) -> bool:
    return isinstance(future.exception(), BrokenProcessPool)


def _outcome(future: ProcessFuture[Any]) -> Outcome:
    error = future.exception()
    if error is None:
        return Outcome(future.result(), "")
    if _is_given_up(future):  # though it was made by itself
        return Outcome(None, "crashes")
    if isinstance(error, ProcessExpired):
        is_late = error.exitcode == -signal.SIGPROF
        return Outcome(None, "timeouts" if is_late else "crashes")
    if isinstance(error, TimeoutError):
        return Outcome(None, "timeouts")
    return Outcome(None, "errors")


def usable_cores() -> int:
    """The number of this process's cores: its part of the job's, divided by torchrun's ranks."""
    # A container may have fewer cores than the machine; macOS has no way to ask.
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1

    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    return max(1, cores // ranks)


@functools.cache
def shared_pool(deadline: float, preload: str) -> GradingPool:
    """The pool of every task with this deadline whose grader takes long to import `preload`."""
    return GradingPool(deadline, (preload,))


#: The pools of this process, to be closed at its end and forgotten by its children.
_POOLS: weakref.WeakSet[GradingPool] = weakref.WeakSet()


def _all_pools(method: Callable[[GradingPool], None]) -> None:
    for pool in _POOLS:
        method(pool)


atexit.register(_all_pools, GradingPool.close)
os.register_at_fork(after_in_child=lambda: _all_pools(GradingPool.forget))
