"""Running a comparison: one process per run, one run at a time, killed and continued at will."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from filelock import Timeout

from podslab.comparison.comparison import UNITS, ComparisonSpec, RunOf, Shard, lock_of
from podslab.comparison.comparison_process import PARENT_GONE, USER_ERROR
from podslab.evaluation.records import evaluations
from podsrl.errors import InvalidInputError, PodsError
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import checkpoint

_POLL = 0.5  # seconds


@dataclass
class Status:
    """Where a comparison stands, for its live line.

    share: of the current run's budget, 0..1. seconds_left: of all runs; None: not yet known.
    """

    total: int
    done: int = 0
    failed: dict[RunOf, str] = field(default_factory=dict)
    current: RunOf | None = None
    share: float = 0.0
    seconds_left: float | None = None

    def ended(self, run: RunOf, problem: str | None) -> None:
        """Count a run as done, or as failed for this reason."""
        if problem:
            self.failed[run] = problem
        else:
            self.done += 1


def compare(
    spec: ComparisonSpec, shard: Shard, watch: Callable[[Status], None] = lambda status: None
) -> Status:
    """Train every run of our shard that is not finished; finished ones are not touched.

    A run that was killed goes on from its last checkpoint, or starts again if it has none. A run
    that crashes is left out, and the others go on.

    Args:
        spec: from `open_comparison`.
        shard: which runs are ours.
        watch: called about twice per second, and whenever a run starts or ends.

    Raises:
        PodsError: a run ended with a user's error, which the others would share.
    """
    runs = shard.of(spec)
    left = [run for run in runs if spec.run_folder(run).finished() is None]
    status = Status(total=len(runs))
    for run in runs:
        if run not in left:
            status.ended(run, _points_problem(spec, run))
    took: list[float] = []
    while left:
        run, began = left.pop(0), time.monotonic()
        status.current = run
        trained = _prepare(spec.run_folder(run))  # unless another process has finished it since
        problem = _run(spec, run, status, len(left), took, watch) if trained else None
        status.ended(run, problem or _points_problem(spec, run))
        if trained and not problem:
            took.append(time.monotonic() - began)
        status.current, status.share = None, 0.0
        status.seconds_left = fmean(took) * len(left) if took else None
        watch(status)
    return status


def _run(
    spec: ComparisonSpec,
    run: RunOf,
    status: Status,
    waiting: int,
    took: Sequence[float],
    watch: Callable[[Status], None],
) -> str | None:
    """Run the current run in a process; returns what went wrong, if anything did."""
    folder = spec.run_folder(run)
    log = folder.path.with_name(f"{folder.path.name}.log")
    began = time.monotonic()
    start = _share(spec, folder)  # more than 0 for a run that is resumed
    with log.open("ab") as output:
        process = subprocess.Popen(
            _command(spec, run), stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        while process.poll() is None:
            status.share = _share(spec, folder)
            elapsed, gained = time.monotonic() - began, status.share - start
            guess = fmean(took) if took else elapsed / gained if gained > 0 else None
            if guess is not None:
                status.seconds_left = guess * (waiting + 1 - status.share)
            watch(status)
            time.sleep(_POLL)
    finally:
        if process.stdin:
            process.stdin.close()  # ends the process, if it still runs
        process.wait()
    if process.returncode == 0:
        return None
    said = _last_line(log)
    if process.returncode == USER_ERROR:
        raise PodsError(f"{run.arm} seed {run.seed}: {said}")
    how = f"exit status {process.returncode}"
    if process.returncode < 0:
        how = f"killed by signal {-process.returncode}"
    elif process.returncode == PARENT_GONE:
        how = "its standard input was closed"
    return f"{how}; the end of {log}: {said}"


def _command(spec: ComparisonSpec, run: RunOf) -> list[str]:
    python = list(spec.launch) or [sys.executable]
    module = ["-m", "podslab.comparison.comparison_process"]
    return [*python, *module, str(spec.folder), run.arm, str(run.seed)]


def _prepare(folder: RunFolder) -> bool:
    """Clear away what a killed run left, unless it can be resumed; False if it is finished."""
    try:
        with lock_of(folder):
            if folder.finished() is not None:
                return False
            if checkpoint.last_complete(folder.path) is None and folder.path.exists():
                shutil.rmtree(folder.path)
            return True
    except Timeout as error:
        raise InvalidInputError(
            f"another `pods compare` is at work on {folder.path}; wait for it, or give each its"
            " own part with --shard i/k"
        ) from error


def _share(spec: ComparisonSpec, folder: RunFolder) -> float:
    """How much of its budget a run has spent, by the last whole line of its metrics."""
    path = folder.path / "metrics.jsonl"
    if not path.is_file():
        return 0.0
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
        lines = file.read().split(b"\n")[:-1]
    try:
        last = json.loads(lines[-1]) if lines else {}
    except json.JSONDecodeError:  # a line longer than what was read
        return 0.0
    return min(1.0, float(last.get(UNITS[spec.unit][1]) or 0.0) / spec.amount)


def _points_problem(spec: ComparisonSpec, run: RunOf) -> str | None:
    """A step that is longer than the way between two evaluations makes one of the two."""
    folder = spec.run_folder(run)
    made, wanted = len(evaluations(folder)), spec.evaluations + 1
    if made == wanted:
        return None
    return (
        f"evaluated {made} times instead of {wanted}: a step took longer than"
        f" {spec.amount / spec.evaluations:g} {spec.unit}, the way between two evaluations. Delete"
        f" {folder.path} to run it again; if most steps are that long, ask for fewer evaluations"
        " or a larger budget, in a new output_dir"
    )


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "(nothing was printed)"
