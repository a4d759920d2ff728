"""Running a comparison: one process per run, one run at a time, killed and continued at will."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean

from filelock import Timeout

from podslab.comparison.comparison import ComparisonSpec, RunOf, Shard, lock_of
from podslab.comparison.comparison_process import PARENT_GONE, USER_ERROR
from podslab.durations import duration
from podslab.evaluation.records import evaluations
from podsrl.errors import InvalidInputError, PodsError
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import checkpoint


@dataclass
class Outcome:
    """How many runs are done, and why others failed."""

    done: int = 0
    failed: dict[RunOf, str] = field(default_factory=dict)


def compare(
    spec: ComparisonSpec, shard: Shard, say: Callable[[str], None] = lambda line: None
) -> Outcome:
    """Train every run of our shard that is not finished; finished ones are not touched.

    A run that was killed goes on from its last checkpoint, or starts again if it has none. A run
    that crashes is left out, and the others go on.

    Args:
        spec: from `open_comparison`.
        shard: which runs are ours.
        say: called with one line when a run starts: which, how many are done, the time left.

    Raises:
        PodsError: a run ended with a user's error, which the others would share.
    """
    runs = shard.of(spec)
    waiting = [run for run in runs if spec.run_folder(run).finished() is None]
    outcome, took = Outcome(), list[float]()
    for run in runs:
        problem = None
        if run in waiting and _prepare(spec.run_folder(run)):  # unless another one finished it
            left = f"  about {duration(fmean(took) * len(waiting))} left" if took else ""
            say(f"[{outcome.done}/{len(runs)}]  {run.arm} seed {run.seed}{left}")
            began = time.monotonic()
            problem = _run(spec, run)
            took += [] if problem else [time.monotonic() - began]
            waiting.remove(run)
        if problem := problem or _points_problem(spec, run):
            outcome.failed[run] = problem
        else:
            outcome.done += 1
    return outcome


def _run(spec: ComparisonSpec, run: RunOf) -> str | None:
    """Train a run in a process of its own; returns what went wrong, if anything did."""
    folder = spec.run_folder(run).path
    log = folder.with_name(f"{folder.name}.log")
    python = list(spec.launch) or [sys.executable]
    module = ["-m", "podslab.comparison.comparison_process"]
    command = [*python, *module, str(spec.folder), run.arm, str(run.seed)]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        process.wait()
    finally:
        if process.stdin:
            process.stdin.close()  # ends the process, if it still runs
        process.wait()
    if process.returncode == 0:
        return None
    said = (log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or [""])[-1]
    if process.returncode == USER_ERROR:
        raise PodsError(f"{run.arm} seed {run.seed}: {said}")
    how = f"exit status {process.returncode}"
    if process.returncode < 0:
        how = f"killed by signal {-process.returncode}"
    elif process.returncode == PARENT_GONE:
        how = "its standard input was closed"
    return f"{how}; the end of {log}: {said}"


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
