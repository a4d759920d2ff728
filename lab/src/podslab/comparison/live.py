"""The display of a comparison that runs: a line that changes, and one for each ended run."""

import shutil
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from podslab.comparison.comparison import ComparisonSpec, RunKey
from podslab.durations import duration
from podslab.engine.pool import Job, Watcher
from podslab.evaluation.records import Evaluation, evaluations
from podsrl.rollout_log.files import DamagedFileWarning
from podsrl.rollout_log.run_folder import RunFolder

_WAIT_SHARE = 0.05  # of the work must be done before it is said how long the rest takes


@dataclass(frozen=True)
class State:
    """The progress of a run: its seconds of training time, and its evaluations so far."""

    seconds: float
    points: Sequence[Evaluation]

    @classmethod
    def of(cls, folder: RunFolder) -> "State":
        """Read a run that may be writing its files at this moment."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamagedFileWarning)  # a line that is half written
            steps = folder.metrics()
            points = evaluations(folder)
        seconds = max((row.get("pods/training_seconds", 0.0) for row in steps), default=0.0)
        return cls(seconds, points)


class Live(Watcher):
    """Prints the runs that are being trained.

    A terminal gets one line that changes. Anything else, such as a file, gets the lines of runs
    that have ended only.

    Args:
        spec: the comparison, whose budget is one of training time.
        labels: what to call each arm.
        out: where to print; by default standard error.
    """

    def __init__(
        self, spec: ComparisonSpec, labels: Mapping[str, str], out: TextIO | None = None
    ) -> None:
        self.spec = spec
        self.labels = labels
        self.out = out or sys.stderr
        self._began = time.monotonic()
        self._at_first = self._work_done()

    def ended(self, job: Job, seconds: float, problem: str | None) -> None:
        """A line for a run that has ended as it should."""
        run = self._key_of(job)
        if problem is None and run is not None:
            self._clear()
            print(self._ended(run), file=self.out, flush=True)

    def looks(self, at_work: Sequence[Job]) -> None:
        """Show the progress of the runs that are being trained."""
        runs = [run for job in at_work if (run := self._key_of(job)) is not None]
        if runs and self.out.isatty():
            parts = [self._doing(run) for run in runs]
            self._clear()
            print(
                "   ".join([*parts, self._left()])[: _columns()], end="", file=self.out, flush=True
            )

    def _key_of(self, job: Job) -> RunKey | None:
        return next((run for run in self.spec.runs() if run.name == job.name), None)

    def _doing(self, run: RunKey) -> str:
        state = State.of(self.spec.run_folder(run))
        name = self._name(run)
        if not state.points:
            return f"{name}: loading"
        right = f"{_percent(state.points[-1])} right"
        return f"{name}: {state.seconds:.0f} of {self.spec.amount:g} s, {right}"

    def _ended(self, run: RunKey) -> str:
        points = State.of(self.spec.run_folder(run)).points
        curve = " → ".join(f"{100 * point.mean('answer_accuracy'):.0f}" for point in points)
        return f"  {self._name(run):<{self._width()}}  {curve} % right"

    def _left(self) -> str:
        done = self._work_done()
        elapsed = time.monotonic() - self._began
        since = (done - self._at_first) / max(1e-9, 1.0 - self._at_first)
        if since < _WAIT_SHARE:
            return ""
        return f"about {duration(round(elapsed * (1.0 - since) / since))} left"

    def _work_done(self) -> float:
        """The share of all training time that is behind us."""
        runs = self.spec.runs()
        spent = [State.of(self.spec.run_folder(run)).seconds for run in runs]
        return sum(min(seconds / self.spec.amount, 1.0) for seconds in spent) / len(runs)

    def _name(self, run: RunKey) -> str:
        seed = f" seed {run.seed}" if len(self.spec.seeds) > 1 else ""
        return f"{self.labels.get(run.arm, run.arm)}{seed}"

    def _width(self) -> int:
        return max(len(self._name(run)) for run in self.spec.runs())

    def _clear(self) -> None:
        if self.out.isatty():
            print(f"\r{' ' * _columns()}\r", end="", file=self.out)


def _columns() -> int:
    return shutil.get_terminal_size().columns - 1


def _percent(point: Evaluation) -> str:
    return f"{100 * point.mean('answer_accuracy'):.0f} %"
