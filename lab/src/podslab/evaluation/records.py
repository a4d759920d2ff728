"""The evaluations of a run: the one writer and the one reader of its evaluations.jsonl."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.rollout_log import files
from podsrl.rollout_log.run_folder import RunFolder

#: The measures of an `Evaluation` that are shares of problems.
ACCURACIES = ("answer_accuracy", "format_accuracy", "both_accuracy")
_LISTS = (*ACCURACIES, "mean_length")
_FILE = "evaluations.jsonl"


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of a model: k repeats over the same held-out problems.

    step: The number of optimiser steps done.
    training_seconds: The training time so far, in seconds; evaluation is left out.
    rollouts_generated, rollouts_trained: The numbers of rollouts so far.
    tokens_generated: The tokens of all rollouts and their prompts so far; 0 where it is not known.
    answer_accuracy, format_accuracy, both_accuracy: The shares of problems, one per repeat.
    mean_length: The mean completion length in tokens, one per repeat.
    """

    step: int
    training_seconds: float
    rollouts_generated: int
    rollouts_trained: int
    task: str
    split: str
    problems: int
    repeats: int
    answer_accuracy: Sequence[float]
    format_accuracy: Sequence[float]
    both_accuracy: Sequence[float]
    mean_length: Sequence[float]
    tokens_generated: int = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in ("task", "split"):
                continue
            values, count = (value, self.repeats) if name in _LISTS else ([value], 1)
            if not isinstance(values, (list, tuple)) or len(values) != count or not count:
                raise InvalidInputError(
                    f"{name} must hold one number per repeat ({count}); got {value!r}"
                )
            top = 1.0 if name in ACCURACIES else math.inf
            if not all(isinstance(number, Real) and 0 <= float(number) <= top for number in values):
                raise InvalidInputError(f"{name} must be in 0..{top:g}; got {value!r}")

    def mean(self, measure: str) -> float:
        """The mean over repeats of one of the measures.

        Raises:
            InvalidInputError: There is no such measure.
        """
        if measure not in _LISTS:
            raise InvalidInputError(f"unknown measure {measure!r}; allowed: {', '.join(_LISTS)}")
        values = getattr(self, measure)
        return float(sum(values)) / len(values)

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any]) -> "Evaluation":
        """Read what `asdict` wrote.

        Raises:
            InvalidInputError: A field is missing, unknown, or not of its kind.
        """
        plain: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in value.items()
        }
        try:
            return cls(**plain)
        except TypeError as error:  # a field is missing, or there is another one
            raise InvalidInputError(f"not the fields of an evaluation: {error}") from error


def append_evaluation(run: RunFolder, evaluation: Evaluation) -> None:
    """Add one evaluation to a run's evaluations.jsonl."""
    files.append_line(run.path / _FILE, asdict(evaluation))


def evaluations(run: RunFolder) -> list[Evaluation]:
    """The evaluations of a run, in the order they were made.

    Raises:
        InvalidInputError: A line is damaged (a half-written last one is skipped with a warning), or
            a step was evaluated twice on the same problems.
    """
    path = run.path / _FILE
    found = []
    seen = set()
    for number, row in enumerate(files.read_lines(path), start=1):
        try:
            evaluation = Evaluation.from_mapping(row)
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}, evaluation {number} is damaged: {error}") from error
        key = (evaluation.task, evaluation.split, evaluation.step)
        if key in seen:
            raise InvalidInputError(
                f"{path} evaluates {key[0]} {key[1]} twice at step {key[2]}: two runs wrote"
                " into one folder, or one resumed without truncate_after; remove one of them"
            )
        seen.add(key)
        found.append(evaluation)
    return found
