"""Making what is missing: a process for each run, several side by side, resumable at any point."""

import multiprocessing
import multiprocessing.connection
import os
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from benchmarks.comparison import one_run
from benchmarks.comparison.model import FOLDER as MODEL
from benchmarks.comparison.model import at_start
from benchmarks.comparison.outcomes import mean_over_run
from benchmarks.comparison.protocol import ON_GPU, PlannedRun, Protocol
from benchmarks.comparison.records import MOST_FAILURES, Records, Reported
from benchmarks.folders import ROOT
from benchmarks.own_process import import_once
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.environment import describe_environment

RUNS = ROOT / "runs" / "comparison"
#: What decides the outcome of a run and must be in the repository before it begins.
_SOURCES = ("benchmarks/comparison", "results/comparison/protocol.md", "lab/src", "src")


def run(
    records: Records,
    stages: Sequence[str],
    sets: Sequence[str],
    jobs: int,
    minutes: float | None,
    work: Path = RUNS,
    commit: str = "",
) -> int:
    """Make the runs that are missing on this machine.

    A run whose process does not end as it should is begun once more, and then left to a later call.

    Args:
        records: Where they are recorded.
        stages, sets: Those that are wanted.
        jobs: The processes side by side, each of one thread.
        minutes: After these no other run is begun, and those at work come to their end.
        work: Where the runs' own files are while they are at work, and their logs.
        commit: Of the code, where this is a copy without its history. Whoever made the copy has
            looked that nothing in it was changed; else it is looked up here.

    Returns:
        How many attempts ended as they should.

    Raises:
        InvalidInputError: The code is not committed as it is, the model was not measured, the stage
            needs a GPU and there is none, or another process is at work.
    """
    if not commit:
        refuse_uncommitted()
        commit = head()
    machine = _gpu() if ON_GPU in stages else str(describe_environment()["cpu"])
    unknown = [name for name in sets if name not in at_start()]
    if unknown:
        raise InvalidInputError(
            f"the model has not been measured on {', '.join(unknown)} yet:"
            " `python -m benchmarks.comparison.model` does it, and the protocol is committed then"
        )
    torch.set_num_threads(1)
    work.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(work / "lock", timeout=0):
            making = _Making(
                records=records,
                stages=stages,
                sets=sets,
                machine=machine,
                commit=commit,
                work=work,
            )
            return making.make(jobs, minutes)
    except Timeout as error:
        raise InvalidInputError("another process makes the runs: end it first") from error


class _Making:
    """The processes at work, and what is still to be begun."""

    def __init__(
        self,
        records: Records,
        stages: Sequence[str],
        sets: Sequence[str],
        machine: str,
        commit: str,
        work: Path,
    ) -> None:
        self.records = records
        self.stages = stages
        self.sets = sets
        self.machine = machine
        self.commit = commit
        self.work = work
        # A fork has imported everything, which costs a good part of a run. CUDA can't be forked, so
        # what is forked for a GPU is a server that never touches it.
        on_gpu = ON_GPU in stages
        if on_gpu:
            import_once([__name__])
        context: Any = multiprocessing.get_context("forkserver" if on_gpu else "fork")
        self.new_process = context.Process
        self.at_work: dict[PlannedRun, BaseProcess] = {}
        self.ended = 0
        # Counted here and not read from the records: a process that dies leaves nothing there.
        self.not_ended: Counter[PlannedRun] = Counter()

    def make(self, jobs: int, minutes: float | None) -> int:
        """Begin runs as processes become free; see `run`."""
        last_start = float("inf") if minutes is None else time.monotonic() + 60 * minutes
        while True:
            self._collect()
            todo = self._next() if time.monotonic() < last_start else None
            if todo is None and not self.at_work:
                return self.ended
            if todo is None or len(self.at_work) >= jobs:
                multiprocessing.connection.wait(
                    [process.sentinel for process in self.at_work.values()], timeout=60
                )
                continue
            self._begin(*todo)

    def _next(self) -> tuple[PlannedRun, float] | None:
        """The next run that is missing, with its rate; None where none can be begun now."""
        reported = Reported(self.records.protocol, self.records.attempts())
        for missing in reported.missing(self.machine, self.stages):
            if missing.set not in self.sets or missing in self.at_work:
                continue
            if self.not_ended[missing] >= MOST_FAILURES:
                continue  # a later call tries it again, unless it failed with an error of its own
            rate = reported.rate_of(missing)
            if rate is not None:  # else its tuning is not complete yet
                return missing, rate
        return None

    def _begin(self, planned: PlannedRun, rate: float) -> None:
        print(f"{_now()} {planned.name}, rate {rate:.0e}", flush=True)
        process: BaseProcess = self.new_process(
            target=_attempt,
            args=(self.records, planned, rate, self.machine, self.commit, self.work),
            daemon=True,
        )
        process.start()
        self.at_work[planned] = process

    def _collect(self) -> None:
        for planned, process in list(self.at_work.items()):
            if process.is_alive():
                continue
            del self.at_work[planned]
            if process.exitcode == 0:
                self.ended += 1
            else:
                self.not_ended[planned] += 1
                print(f"{planned.name} did not end: {_log_of(planned, self.work)}", file=sys.stderr)


def _attempt(
    records: Records, planned: PlannedRun, rate: float, machine: str, commit: str, work: Path
) -> None:
    """An attempt at a run, in a process of its own, whose output goes into a file."""
    log = _log_of(planned, work)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        os.dup2(output.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())

    number = records.begin(planned, started=_now(), machine=machine, commit=commit)
    try:
        result = make(records.protocol, planned, rate, work=work)
        records.end(planned, number, result)
    except Exception as error:
        # Whatever it was: it is recorded, and the other runs go on.
        traceback.print_exc()
        records.end(planned, number, {"run": planned.name, "state": "failed", "error": str(error)})
        raise


def make(
    protocol: Protocol,
    planned: PlannedRun,
    rate: float,
    seconds: float | None = None,
    work: Path = RUNS,
) -> dict[str, Any]:
    """Make a run, and give back what its file holds.

    Args:
        protocol: It says how.
        planned: The run.
        rate: Its learning rate.
        seconds: Its training time, for a trial; that of its stage unless given.
        work: As in `run`.
    """
    settings = protocol.settings_of(planned, rate)
    schedule = protocol.schedule_of(planned.stage, planned.set, planned.arm)
    trained = {**settings, "model_name_or_path": str(MODEL)}
    if seconds is not None:
        trained["max_training_seconds"] = seconds

    probe = one_run.probe_seconds()
    began_wall = time.monotonic()
    began_cpu = time.process_time()
    measured = one_run.train(trained, schedule, work / f"{planned.name}-{os.getpid()}")
    environment = describe_environment()
    result = {
        "run": planned.name,
        "state": "ended",
        "seconds": trained["max_training_seconds"],
        "rate": rate,
        "settings": settings,
        "schedule": schedule,
        "machine": {"cpu": environment["cpu"], "cores": environment["cores"]},
        "probe_seconds": round(probe, 4),
        "versions": environment["versions"],
        "wall_seconds": round(time.monotonic() - began_wall, 1),
        "cpu_seconds": round(time.process_time() - began_cpu, 1),
        **measured,
    }
    result["mean_over_run"] = round(mean_over_run(result, trained["max_training_seconds"]), 5)
    return result


def _gpu() -> str:
    """The name of the GPU, without a context of CUDA in this process.

    Raises:
        InvalidInputError: There is none.
    """
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InvalidInputError(
            "there is no NVIDIA GPU here (nvidia-smi names none): the stage gpu needs one"
        ) from error
    return done.stdout.splitlines()[0]


def refuse_uncommitted() -> None:
    """Refuse to begin a run that the history can't say the code and the protocol of.

    Raises:
        InvalidInputError: A file that decides the outcome differs from the last commit, or there is
            no history here.
    """
    changed = _git("status", "--porcelain", "--", *_SOURCES)
    if changed:
        raise InvalidInputError(
            "commit first: a reported run is made by code and a protocol that are in the history."
            f" Changed: {', '.join(line[3:] for line in changed.splitlines())}"
        )


def head() -> str:
    """The commit of the code."""
    return _git("rev-parse", "HEAD")


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InvalidInputError(
            f"git can't say which commit {ROOT} is at: in a copy without its history, give it by"
            " --commit, after a look at git status where the copy was made"
        ) from error
    return done.stdout.rstrip()


def _log_of(planned: PlannedRun, work: Path) -> Path:
    return work / "logs" / f"{planned.name}.log"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
