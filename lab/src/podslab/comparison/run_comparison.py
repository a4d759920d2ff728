"""Running a comparison: one process per run, killed and continued at will."""

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from filelock import Timeout

from podslab.comparison.comparison import ComparisonSpec, RunOf, Shard, lock_of
from podslab.comparison.run_process import RunProcess
from podslab.durations import duration
from podslab.evaluation.records import evaluations
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import checkpoint

_LOOK_EVERY = 0.3  # seconds between two looks at the runs that are being trained


@dataclass
class Outcome:
    """How many runs are done, and why others failed."""

    done: int = 0
    failed: dict[RunOf, str] = field(default_factory=dict)


def compare(
    spec: ComparisonSpec,
    shard: Shard,
    say: Callable[[str], None] = lambda line: None,
    at_once: int = 1,
    watch: Callable[[Sequence[RunOf]], None] = lambda running: None,
) -> Outcome:
    """Train every run of our shard that is not finished; finished ones are not touched.

    A run that was killed goes on from its last checkpoint, or starts again if it has none. A run
    that crashes is left out, and the others go on.

    Args:
        spec: from `open_comparison`.
        shard: which runs are ours.
        say: called with one line when a run starts: which, how many are done, the time left.
        at_once: how many runs are trained side by side, each in a process of its own.
        watch: called with the runs that are being trained, a few times per second.

    Raises:
        PodsError: a run ended with a user's error, which the others would share.
    """
    runs = shard.of(spec)
    waiting = deque(run for run in runs if spec.run_folder(run).finished() is None)
    problems = dict[RunOf, str | None]()
    took = list[float]()
    training = list[_Training]()
    outcome = Outcome()
    try:
        while waiting or training:
            while waiting and len(training) < at_once:
                run = waiting.popleft()
                if not _prepare(spec.run_folder(run)):  # another process finished it
                    continue

                failed = sum(problem is not None for problem in problems.values())
                done = len(runs) - len(waiting) - len(training) - failed - 1
                left = fmean(took) * (len(waiting) + 1) / at_once if took else 0.0
                left_in_words = f"  about {duration(left)} left" if left else ""
                say(f"[{done}/{len(runs)}]  {run.arm} seed {run.seed}{left_in_words}")

                training.append(_Training.start(spec, run))

            watch([running.run for running in training])
            _wait_for_any(training)

            for ended in [running for running in training if not running.process.is_alive]:
                training.remove(ended)
                problem = ended.process.problem()
                problems[ended.run] = problem
                if problem is None:
                    took.append(time.monotonic() - ended.process.began)

        watch([])
    finally:
        for running in training:
            running.process.stop()

    for run in runs:
        if problem := problems.get(run) or _points_problem(spec, run):
            outcome.failed[run] = problem
        else:
            outcome.done += 1
    return outcome


@dataclass(frozen=True)
class _Training:
    """A run that is being trained."""

    run: RunOf
    process: RunProcess

    @classmethod
    def start(cls, spec: ComparisonSpec, run: RunOf) -> "_Training":
        folder = spec.run_folder(run).path
        python = list(spec.launch) or [sys.executable]
        module = ["-m", "podslab.comparison.comparison_process"]

        environment = dict(os.environ)
        if spec.arms[run.arm].get("training_clock") == "cpu":
            # the clock adds up the seconds of all threads, so that a second one would not count
            environment.setdefault("OMP_NUM_THREADS", "1")

        process = RunProcess.start(
            name=f"{run.arm} seed {run.seed}",
            command=[*python, *module, str(spec.folder), run.arm, str(run.seed)],
            log=folder.with_name(f"{folder.name}.log"),
            environment=environment,
        )
        return cls(run, process)


def _wait_for_any(training: Sequence[_Training]) -> None:
    """Wait until a process ends, at most for a moment."""
    until = time.monotonic() + _LOOK_EVERY
    while time.monotonic() < until and all(running.process.is_alive for running in training):
        time.sleep(0.02)


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
    made = len(evaluations(folder))
    wanted = spec.evaluations + 1  # one before training
    if made == wanted:
        return None
    return (
        f"evaluated {made} times instead of {wanted}: a step took longer than"
        f" {spec.amount / spec.evaluations:g} {spec.unit}, the way between two evaluations. Delete"
        f" {folder.path} to run it again; if most steps are that long, ask for fewer evaluations"
        " or a larger budget, in a new output_dir"
    )
