"""Learning curves of one arm over seeds, and the what-if clock that replays them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from podslab.evaluation.records import Evaluation
from podsrl.errors import InvalidInputError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Clock:
    """Modelled seconds per rollout, in place of the measured ones.

    generate and score count for every rollout generated, update for every rollout trained and each
    pass over it: where num_iterations is 2, twice.
    """

    generate: float = 0.0
    score: float = 0.0
    update: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Clock":
        """Read "generate=0.05,update=0.42"; a phase that isn't named costs nothing.

        Raises:
            InvalidInputError: another phase, no number >= 0, or all phases free.

        >>> Clock.parse("generate=0.05,update=0.42")
        Clock(generate=0.05, score=0.0, update=0.42)
        """
        costs: dict[str, float] = {}
        for part in text.split(","):
            phase, _, number = part.strip().partition("=")
            try:
                cost = float(number)
            except ValueError:
                cost = -1.0
            if phase not in ("generate", "score", "update") or phase in costs or not cost >= 0:
                raise InvalidInputError(
                    f"clock {text!r}: {part.strip()!r} is not understood; give seconds per rollout:"
                    " generate=0.05,update=0.42 (and score=..., if scoring takes time)"
                )
            costs[phase] = cost
        if not any(costs.values()) or not np.isfinite(sum(costs.values())):
            raise InvalidInputError(f"clock {text!r}: at least one phase must take time")
        return cls(**costs)

    def seconds(self, generated: Any, trained: Any) -> Any:
        """Modelled seconds for these numbers of rollouts."""
        return (self.generate + self.score) * generated + self.update * trained

    def __str__(self) -> str:
        return ", ".join(f"{phase} {cost:g} s" for phase, cost in vars(self).items() if cost)


@dataclass(frozen=True)
class ArmCurves:
    """The evaluations of one arm: S seeds, ascending, by T evaluation points.

    All arrays have shape (S, T); NaN is a point that a run doesn't have or a count not known.
    seconds is training time. accuracy is in 0..1, length in tokens, both means over repeats.
    answers: how many were graded for each accuracy (problems x repeats).
    """

    arm: str
    seeds: tuple[int, ...]
    steps: Floats
    seconds: Floats
    generated: Floats
    trained: Floats
    accuracy: Floats
    length: Floats
    answers: Floats

    @classmethod
    def stack(cls, arm: str, runs: Mapping[int, Sequence[Evaluation]], measure: str) -> "ArmCurves":
        """The curves of runs by seed, which must have been checked by `check_points`."""
        seeds = tuple(sorted(runs))

        def values(field: str) -> Floats:
            return np.array([[getattr(e, field) for e in runs[seed]] for seed in seeds], float)

        def means(name: str) -> Floats:
            return np.array([[e.mean(name) for e in runs[seed]] for seed in seeds], float)

        return cls(
            arm=arm,
            seeds=seeds,
            steps=values("step"),
            seconds=values("training_seconds"),
            generated=values("rollouts_generated"),
            trained=values("rollouts_trained"),
            accuracy=means(measure),
            length=means("mean_length"),
            answers=values("problems") * values("repeats"),
        )

    def replay(self, clock: Clock, passed_S_T: npt.ArrayLike = 1.0) -> "ArmCurves":
        """The same learning curves in modelled time; that share of the trained had a pass."""
        trained = np.asarray(passed_S_T) * self.trained
        return replace(self, seconds=clock.seconds(self.generated, trained))


def share_passed(config: Mapping[str, Any], metrics: Sequence[Any], before: Any = None) -> float:
    """Of the rows that a run kept, the share that had a pass: `skip_zero_advantage` spares some.

    before: the metrics before these. Earlier versions did not count passes: they shortened
    micro-batches to equally many rows.
    """
    last = next((row for row in reversed(metrics) if "pods/rows_passed" in row), None)
    if last is not None:
        names = ("pods/rows_passed", "pods/rollouts_trained")
        passed, trained = (last[name] - (before or {}).get(name, 0) for name in names)
        return passed / trained / (config.get("num_iterations") or 1)
    at_once = config.get("per_device_train_batch_size") or 1
    kept = [(of, row) for row in metrics if (of := row.get("pods/kept_rollouts"))]
    taught = [(of, of - (row.get("pods/zero_advantage_rows") or 0.0)) for of, row in kept]
    passed = sum(of * max(1.0, -(-at_once * few // of)) / at_once for of, few in taught)
    return passed / sum(of for of, _ in kept) if kept and config.get("skip_zero_advantage") else 1.0


def check_points(runs: Mapping[str, Sequence[Evaluation]]) -> None:
    """Refuse runs that weren't evaluated at the same points.

    The i-th points of all runs are the same if they agree in the step, or in training time. That
    they can't exactly, as an evaluation waits for its step to end: they agree when no run is off by
    more than half the usual way from one point to the next, or the longest of its own steps.

    Args:
        runs: the evaluations of each run, in order, by a name to call the run.

    Raises:
        InvalidInputError: the points differ, or a run has none; the message says what to do.
    """
    most = max(runs, key=lambda name: len(runs[name]))
    for name, points in runs.items():
        if len(points) != len(runs[most]) or not points:
            last = f", the last at step {points[-1].step}" if points else ""
            raise InvalidInputError(
                f"unequal evaluation points: {name} has {len(points)}{last}; {most} has"
                f" {len(runs[most])}. Let the run finish (`pods compare` continues where it was"
                " stopped), or leave unfinished runs out with --partial"
            )
    if all(points[-1].training_seconds == 0 for points in runs.values()):
        raise InvalidInputError(
            "there is only the evaluation of the untrained model so far; let the runs go on, and"
            " report them then"
        )
    steps, seconds = (
        np.array([[getattr(e, field) for e in points] for points in runs.values()], float)
        for field in ("step", "training_seconds")
    )
    if (steps == steps[0]).all():
        return
    middle = np.median(seconds, axis=0)
    off = np.abs(seconds - middle)
    own_step = (np.diff(seconds) / np.maximum(1, np.diff(steps))).max(axis=1, initial=0.0)
    allowed = np.maximum(0.5 * np.median(np.diff(middle)), own_step)
    if (off <= allowed[:, None]).all():
        return
    row, column = np.unravel_index(np.argmax(off), off.shape)
    raise InvalidInputError(
        f"unequal evaluation points: {list(runs)[row]} made evaluation {column + 1} after"
        f" {seconds[row, column]:.4g} s of training, most runs after {middle[column]:.4g} s;"
        " evaluate all arms and seeds at the same steps or times, or report them apart"
    )
