"""Learning curves of one arm over seeds, and the what-if clock that replays them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from podslab.evaluation.records import MEAN_REWARD, Evaluation
from podsrl.errors import InvalidInputError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Clock:
    """Modelled seconds per rollout, in place of the measured ones.

    Args:
        generate, score: For every rollout generated.
        update: For every rollout trained and each pass over it: where num_iterations is 2, twice.
    """

    generate: float = 0.0
    score: float = 0.0
    update: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Clock":
        """Read "generate=0.05,update=0.42"; a phase that isn't named costs nothing.

        Raises:
            InvalidInputError: Another phase, no number >= 0, or all phases free.

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

    Args:
        arm: The arm's name.
        seeds: The seeds of its runs.
        steps: The optimiser steps until the evaluation.
        seconds: The training time until then.
        generated, trained: The numbers of rollouts until then.
        accuracy: In 0..1, a mean over repeats; or a mean reward, which may be any number.
        length: In tokens, a mean over repeats.
        answers: How many were graded for each accuracy (problems x repeats); NaN for a reward.
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

        def table(value_of: Callable[[Evaluation], float]) -> Floats:
            return _table((runs[seed] for seed in seeds), value_of)

        return cls(
            arm=arm,
            seeds=seeds,
            steps=table(lambda evaluation: evaluation.step),
            seconds=table(lambda evaluation: evaluation.training_seconds),
            generated=table(lambda evaluation: evaluation.rollouts_generated),
            trained=table(lambda evaluation: evaluation.rollouts_trained),
            accuracy=table(lambda evaluation: evaluation.mean(measure)),
            length=table(lambda evaluation: evaluation.mean("mean_length")),
            # Only of rights and wrongs it is known how far chance moves their share.
            answers=table(
                lambda evaluation: (
                    np.nan if measure == MEAN_REWARD else evaluation.problems * evaluation.repeats
                )
            ),
        )

    def replay(self, clock: Clock, passed_S_T: npt.ArrayLike = 1.0) -> "ArmCurves":
        """The same learning curves in modelled time; that share of the trained had a pass."""
        had_pass_S_T = np.asarray(passed_S_T) * self.trained
        return replace(self, seconds=clock.seconds(self.generated, had_pass_S_T))


def _table(runs: Iterable[Sequence[Evaluation]], value_of: Callable[[Evaluation], float]) -> Floats:
    """A value of every evaluation, a row for each run; NaN for None."""
    return np.array([list(map(value_of, points)) for points in runs], dtype=float)


def share_passed(config: Mapping[str, Any], metrics: Sequence[Any], before: Any = None) -> float:
    """The share of a run's kept rows that had a pass: `skip_zero_advantage` spares some.

    Args:
        config: The run's settings.
        metrics: Its logged steps.
        before: The metrics of the last step before these; None where these begin the run.
    """
    for row in reversed(metrics):
        if "pods/rows_passed" in row:
            return _share_of_totals(config, row, before or {})
    if config.get("skip_zero_advantage"):
        return _share_of_shortened_batches(config, metrics)
    return 1.0


def _share_of_totals(
    config: Mapping[str, Any], last: Mapping[str, Any], before: Mapping[str, Any]
) -> float:
    """From totals, which the trainer counts; a row counts once for each pass of num_iterations."""
    passed = last["pods/rows_passed"] - before.get("pods/rows_passed", 0)
    trained = last["pods/rollouts_trained"] - before.get("pods/rollouts_trained", 0)
    return passed / trained / (config.get("num_iterations") or 1)


def _share_of_shortened_batches(config: Mapping[str, Any], metrics: Sequence[Any]) -> float:
    """For runs of earlier versions, which did not count passes.

    They shortened all micro-batches of a generation to the same number of rows, at least one, so
    that those with a gradient had a place.
    """
    batch_size = config.get("per_device_train_batch_size") or 1
    total_kept = 0.0
    total_passed = 0.0
    for row in metrics:
        kept = row.get("pods/kept_rollouts")
        if not kept:
            continue
        with_gradient = kept - (row.get("pods/zero_advantage_rows") or 0.0)
        rows_per_batch = max(1.0, -(-batch_size * with_gradient // kept))  # rounded up
        total_kept += kept
        total_passed += kept * rows_per_batch / batch_size
    return total_passed / total_kept if total_kept else 1.0


def check_points(runs: Mapping[str, Sequence[Evaluation]]) -> None:
    """Refuse runs that weren't evaluated at the same points.

    The i-th points of all runs are the same if they agree in the step, or in training time. That
    they can't exactly, as an evaluation waits for its step to end: they agree when no run is off by
    more than half the usual way from one point to the next, or the longest of its own steps.

    Args:
        runs: The evaluations of each run, in order, by a name to call the run.

    Raises:
        InvalidInputError: The points differ, or a run has none; the message says what to do.
    """
    _check_numbers_of_points(runs)
    if all(points[-1].training_seconds == 0 for points in runs.values()):
        raise InvalidInputError(
            "there is only the evaluation of the untrained model so far; let the runs go on, and"
            " report them then"
        )

    steps_R_T = _table(runs.values(), lambda evaluation: evaluation.step)
    if (steps_R_T == steps_R_T[0]).all():
        return

    seconds_R_T = _table(runs.values(), lambda evaluation: evaluation.training_seconds)
    middle_T = np.median(seconds_R_T, axis=0)
    usual_way = np.median(np.diff(middle_T))
    steps_between = np.maximum(1, np.diff(steps_R_T))
    longest_step_R = (np.diff(seconds_R_T) / steps_between).max(axis=1, initial=0.0)

    off_R_T = np.abs(seconds_R_T - middle_T)
    allowed_R = np.maximum(0.5 * usual_way, longest_step_R)
    if not (off_R_T <= allowed_R[:, None]).all():  # NaN is not at most anything
        _refuse_farthest(list(runs), seconds_R_T, middle_T)


def _check_numbers_of_points(runs: Mapping[str, Sequence[Evaluation]]) -> None:
    longest = max(runs, key=lambda name: len(runs[name]))
    for name, points in runs.items():
        if len(points) != len(runs[longest]) or not points:
            last = f", the last at step {points[-1].step}" if points else ""
            raise InvalidInputError(
                f"unequal evaluation points: {name} has {len(points)}{last}; {longest} has"
                f" {len(runs[longest])}. Let the run finish (`pods compare` continues where it was"
                " stopped), or leave unfinished runs out with --partial"
            )


def _refuse_farthest(names: Sequence[str], seconds_R_T: Floats, middle_T: Floats) -> NoReturn:
    off_R_T = np.abs(seconds_R_T - middle_T)
    run, point = divmod(int(np.argmax(off_R_T)), len(middle_T))
    raise InvalidInputError(
        f"unequal evaluation points: {names[run]} made evaluation {point + 1} after"
        f" {seconds_R_T[run, point]:.4g} s of training, most runs after {middle_T[point]:.4g} s;"
        " evaluate all arms and seeds at the same steps or times, or report them apart"
    )
