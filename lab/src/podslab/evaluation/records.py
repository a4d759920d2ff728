"""The evaluations of a run: the one writer and the one reader of its evaluations.jsonl."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, TypeGuard

from podsrl.errors import InvalidInputError
from podsrl.rollout_log import files
from podsrl.rollout_log.run_folder import RunFolder

#: The measures of an `Evaluation` that are shares of problems.
ACCURACIES = ("answer_accuracy", "format_accuracy", "both_accuracy")
#: The measure of rewards that are more than right or wrong.
MEAN_REWARD = "mean_reward"
_FILE = "evaluations.jsonl"


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of a model: k repeats over the same held-out problems.

    Args:
        step: The number of optimiser steps done.
        training_seconds: The training time so far, in seconds; evaluation is left out.
        rollouts_generated, rollouts_trained: The numbers of rollouts so far.
        task: The name of the task.
        split: The split that the problems are of.
        problems: The number of problems.
        repeats: The completions of each problem.
        answer_accuracy, format_accuracy, both_accuracy: The shares of problems, one per repeat.
        mean_length: The mean completion length in tokens, one per repeat.
        tokens_generated: The tokens of all rollouts and their prompts so far; 0 where it is not
            known.
        rewards: The reward of every answer, one row per problem; () where a task graded it. NaN,
            in the file null, is an answer that could not be scored.
        greedy_rewards: The reward of the likeliest answer to each problem; () where it was not
            measured.
        rows_passed: The number of rows that had a forward and a backward pass so far, counted in
            every pass; 0 where it is not known.
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
    rewards: Sequence[Sequence[float | None]] = ()
    greedy_rewards: Sequence[float | None] = ()
    rows_passed: int = 0

    @property
    def is_right_or_wrong(self) -> bool:
        """Whether every answer that could be scored is right or wrong, with a reward of 1 or 0."""
        return are_right_or_wrong(reward for of_problem in self.rewards for reward in of_problem)

    def mean(self, measure: str) -> float:
        """The mean over repeats of one of the measures, or over all answers of their rewards.

        Answers that could not be scored are left out; NaN where there is no other.

        Args:
            measure: One of `ACCURACIES`, "mean_length", or `MEAN_REWARD`.
        """
        if measure == MEAN_REWARD:
            values = [reward for of_problem in self.rewards for reward in of_problem]
        else:
            values = [*getattr(self, measure)]
        scored = [value for value in values if _is_scored(value)]
        return fmean(scored) if scored else math.nan


def are_right_or_wrong(rewards: Iterable[float | None]) -> bool:
    """Whether every reward is 1 or 0, as that of a right or a wrong answer.

    Those of answers that could not be scored, NaN or None, say nothing.

    >>> are_right_or_wrong([1.0, 0.0, None]), are_right_or_wrong([1.0, 0.5])
    (True, False)
    """
    return all(reward in (0.0, 1.0) for reward in rewards if _is_scored(reward))


def _is_scored(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def append_evaluation(run: RunFolder, evaluation: Evaluation) -> None:
    """Add one evaluation to a run's evaluations.jsonl."""
    files.append_line(run.path / _FILE, asdict(evaluation))


def evaluations(run: RunFolder) -> list[Evaluation]:
    """The evaluations of a run, in the order they were made.

    Raises:
        InvalidInputError: A line is damaged, or its fields are not those of an evaluation (a
            half-written last one is skipped with a warning).
    """
    path = run.path / _FILE
    read = []
    for row in files.read_lines(path):
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
        }
        try:
            read.append(Evaluation(**values))
        except TypeError as error:  # a field is missing, or there is another one
            raise InvalidInputError(f"{path}: a line is damaged: {error}") from error
    return read
