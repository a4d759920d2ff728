"""The questions that arms are measured on, which none of them trains on."""

from dataclasses import dataclass
from typing import Any

from datasets import Dataset, IterableDataset, IterableDatasetDict

from podslab.engine.folder import TUNING
from podslab.own_script.job import REPORTED, ScriptJob
from podslab.tasks.base import spread
from podsrl.errors import InvalidInputError

#: Fewer questions than this can't tell any two methods apart.
LEAST_QUESTIONS = 8
#: At most this share of the training prompts is held out.
_MOST_HELD_OUT = 0.25


@dataclass(frozen=True)
class Questions:
    """The data of a script, divided.

    Args:
        train: What arms train on.
        tuning: The questions that learning rates are chosen by.
        reported: The questions that the answer tells of; none of them is among `tuning`.
        is_held_out: Whether they were taken from the training data.
    """

    train: Any
    tuning: Dataset
    reported: Dataset
    is_held_out: bool

    @classmethod
    def of(cls, train: Any, evaluation: Any, held_out: int) -> "Questions":
        """Divide the script's `eval_dataset`, or, where there is none, hold some prompts out.

        Every second question is for tuning.

        Args:
            train: The script's training data.
            evaluation: Its `eval_dataset`; of several the first; None where it has none.
            held_out: How many training prompts to hold out, at most a quarter.

        Raises:
            InvalidInputError: There are too few questions.
        """
        if isinstance(evaluation, (dict, IterableDatasetDict)):
            evaluation = next(iter(evaluation.values()), None)
        if isinstance(evaluation, IterableDataset):
            evaluation = Dataset.from_list(list(evaluation.take(2 * held_out)))

        is_held_out = evaluation is None
        if is_held_out:
            train, evaluation = _hold_out(train, held_out)
        if len(evaluation) < 2 * LEAST_QUESTIONS:
            raise InvalidInputError(
                f"{len(evaluation)} questions to measure on are too few to tell methods apart: give"
                f" the trainer an eval_dataset of at least {2 * LEAST_QUESTIONS} rows, better 200"
            )

        places = range(len(evaluation))
        return cls(
            train=_without_end(train) if isinstance(train, IterableDataset) else train,
            tuning=evaluation.select(places[::2]),
            reported=evaluation.select(places[1::2]),
            is_held_out=is_held_out,
        )

    @property
    def numbers(self) -> dict[str, int]:
        """The number of questions of each kind."""
        return {TUNING: len(self.tuning), REPORTED: len(self.reported)}

    @property
    def train_prompts(self) -> int:
        """The number of prompts to train on; 0 where the data doesn't say."""
        return 0 if isinstance(self.train, IterableDataset) else len(self.train)

    def number(self, job: ScriptJob) -> int:
        """The number of questions that a job asks."""
        return min(self.numbers[job.questions], job.most_questions)

    def of_job(self, job: ScriptJob) -> Dataset:
        """The questions of a job, spread evenly over those that there are."""
        questions = self.tuning if job.questions == TUNING else self.reported
        return questions.select(spread(range(len(questions)), self.number(job)))


def _without_end(train: IterableDataset) -> IterableDataset:
    """The rows over and over, as time and not their number ends a run."""
    if not list(train.take(1)):
        raise InvalidInputError(
            "no row of the train_dataset is left to train on, as it has so few that all are held"
            " out: give the trainer an eval_dataset, or fewer --questions"
        )
    return train.repeat(None)


def _hold_out(train: Any, number: int) -> tuple[Any, Dataset]:
    """Training data without some of its prompts, and those; the same in every run."""
    if isinstance(train, IterableDataset):
        return train.skip(number), Dataset.from_list(list(train.take(number)))
    if train is None:
        raise InvalidInputError("the script's trainer has no train_dataset")

    number = min(number, int(len(train) * _MOST_HELD_OUT))
    taken = spread(range(len(train)), number)
    # A prompt that is in the data twice must not be trained on after all.
    asked = {str(train[place]["prompt"]) for place in taken}
    others = [place for place, prompt in enumerate(train["prompt"]) if str(prompt) not in asked]
    return train.select(others), train.select(taken)
