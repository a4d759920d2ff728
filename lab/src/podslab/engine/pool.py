"""The one place that starts the processes of runs, waits for them, and stops them."""

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from filelock import Timeout

from podslab.engine.ledger import ENDED, FAILED, Ledger
from podslab.engine.run_end import error_file, lock_of
from podslab.engine.run_process import RunProcess
from podsrl.errors import InvalidInputError, PodsError
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl.checkpoint import last_complete

_LOOK_EVERY = 0.3  # seconds between two looks at the runs that are being trained


class Job(Protocol):
    """A run that is to be made."""

    @property
    def name(self) -> str:
        """The run's name, which no other run of the comparison has."""

    @property
    def run(self) -> RunFolder:
        """Where it is recorded."""

    @property
    def clock(self) -> str:
        """The clock of its training time: "wall", or "cpu"."""

    def words(self) -> list[str]:
        """The words of its process after Python's name; writes what the process has to read."""

    def is_finished(self) -> bool:
        """Whether nothing of it is left to do."""


class Watcher:
    """A planner's view of its jobs; the methods of this class do nothing."""

    def starts(self, job: Job, others: int) -> None:
        """A job starts, while so many others are at work or wait."""

    def looks(self, at_work: Sequence[Job]) -> None:
        """A few times per second: the jobs that are at work; none at the end."""

    def ended(self, job: Job, seconds: float, problem: str | None) -> None:
        """A job has ended after so many seconds of wall time, with or without a problem."""


@dataclass(frozen=True)
class _AtWork:
    """A job that is being done."""

    job: Job
    process: RunProcess
    gpu: str | None  # None leaves the choice to the script
    attempt: int


@dataclass
class Pool:
    """Processes side by side, one for each job.

    Args:
        ledger: Where every attempt is written down; None for jobs that are no runs of a comparison.
        launch: The words that start a process, such as accelerate launch; () is Python.
        gpus: One job on each at a time; () leaves the choice to the job.
        at_once: The number of jobs side by side, where no GPUs are given.
        watcher: Hears what happens.
        failed: Why jobs failed, by their names.
    """

    ledger: Ledger | None = None
    launch: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    at_once: int = 1
    watcher: Watcher = field(default_factory=Watcher)
    failed: dict[str, str] = field(default_factory=dict)

    def make(self, jobs: Iterable[Job]) -> None:
        """Do every job that is not finished.

        A run that was killed goes on from its last checkpoint, or starts again if it has none. A
        job that crashes is noted in `failed`, and the others go on.

        Raises:
            PodsError: A process ended with an error of the user's, which the others would share.
            InvalidInputError: Another comparison is at work on one of the runs.
        """
        waiting = deque(job for job in jobs if not job.is_finished())
        free: list[str | None] = [*self.gpus] or [None] * self.at_once
        at_work: list[_AtWork] = []
        try:
            while waiting or at_work:
                while waiting and free:
                    job = waiting.popleft()
                    if _clear(job):
                        self.watcher.starts(job, len(waiting) + len(at_work))
                        at_work.append(self._start(job, free.pop(0)))

                self.watcher.looks([one.job for one in at_work])
                _wait_for_any(at_work)

                for one in [one for one in at_work if not one.process.is_alive]:
                    at_work.remove(one)
                    free.append(one.gpu)
                    self._end(one)
            self.watcher.looks([])
        finally:
            for one in at_work:
                one.process.stop()

    def _start(self, job: Job, gpu: str | None) -> _AtWork:
        attempt = self.ledger.begin(job.name) if self.ledger is not None else 0
        try:
            process = self._process(job, gpu)
        except PodsError as error:
            self._write_end(job, attempt, str(error))
            raise
        return _AtWork(job, process, gpu, attempt)

    def _process(self, job: Job, gpu: str | None) -> RunProcess:
        environment = dict(os.environ)
        if job.clock == "cpu":
            # The clock adds up the seconds of all threads, so that a second one would not count.
            environment["OMP_NUM_THREADS"] = "1"
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpu

        folder = job.run.path
        folder.parent.mkdir(parents=True, exist_ok=True)
        return RunProcess.start(
            name=job.name,
            command=[*(self.launch or [sys.executable]), *job.words()],
            log=folder.with_name(f"{folder.name}.log"),
            environment=environment,
            error_file=error_file(folder),
        )

    def _end(self, one: _AtWork) -> None:
        try:
            problem = one.process.problem()
        except PodsError as error:
            self._write_end(one.job, one.attempt, str(error))
            raise
        self._write_end(one.job, one.attempt, problem)
        if problem is not None:
            self.failed[one.job.name] = problem
        self.watcher.ended(one.job, time.monotonic() - one.process.began, problem)

    def _write_end(self, job: Job, attempt: int, problem: str | None) -> None:
        if self.ledger is not None:
            state = ENDED if problem is None else FAILED
            self.ledger.end(job.name, attempt, state, problem or "")


def run_alone(job: Job, launch: tuple[str, ...] = (), gpu: str | None = None) -> None:
    """Do one job that is no run of a comparison, such as a look at a script.

    Raises:
        PodsError: It failed; the message says why.
    """
    pool = Pool(launch=launch, gpus=() if gpu is None else (gpu,))
    pool.make([job])
    for name, problem in pool.failed.items():
        raise PodsError(f"{name}: {problem}")


def _clear(job: Job) -> bool:
    """Clear away what a killed run left, unless it can go on; False if it is finished by now."""
    folder = Path(job.run.path)
    try:
        with lock_of(job.run):
            if job.is_finished():
                return False
            if folder.exists() and last_complete(folder) is None:
                shutil.rmtree(folder)
            return True
    except Timeout as error:
        raise InvalidInputError(
            f"another `pods compare` is at work on {folder}; wait for it, or give each its own part"
            " with --shard i/k"
        ) from error


def _wait_for_any(at_work: Sequence[_AtWork]) -> None:
    """Wait until a process ends, at most for a moment."""
    until = time.monotonic() + _LOOK_EVERY
    while time.monotonic() < until and all(one.process.is_alive for one in at_work):
        time.sleep(0.02)
