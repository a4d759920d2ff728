"""The questions that arms are measured on, which none of them trains on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from datasets import Dataset, IterableDataset, IterableDatasetDict

from podslab.engine.folder import TUNING
from podslab.engine.ledger import digest_of
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
        repeated_rows: The training rows that are equal to a question. Where questions are held out,
            these are left out of `train`, too; else they are trained on.
    """

    train: Any
    tuning: Dataset
    reported: Dataset
    is_held_out: bool
    repeated_rows: int

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
            train, evaluation, repeated_rows = _hold_out(train, held_out)
        else:
            repeated_rows = len(_places_of(evaluation, train))
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
            repeated_rows=repeated_rows,
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


def _hold_out(train: Any, number: int) -> tuple[Any, Dataset, int]:
    """Training data without some of its rows, and those; the same in every run.

    A row that is in the data twice must not be trained on after all.

    Returns:
        The rows to train on, those that are held out, and how many more rows equal one of them.
    """
    if isinstance(train, IterableDataset):
        return train.skip(number), Dataset.from_list(list(train.take(number))), 0
    if train is None:
        raise InvalidInputError("the script's trainer has no train_dataset")

    number = min(number, int(len(train) * _MOST_HELD_OUT))
    held_out = train.select(spread(range(len(train)), number))
    alike = set(_places_of(held_out, train))
    others = [place for place in range(len(train)) if place not in alike]
    return train.select(others), held_out, len(alike) - number


def _places_of(questions: Dataset, train: Any) -> Sequence[int]:
    """The places of the training rows that are equal to a question in all columns of both.

    A prompt alone says too little: rows that share one may differ in their image or their answer.
    Of data that are no table, such as those without an end, nothing is known.
    """
    if not isinstance(train, Dataset):
        return ()
    columns = sorted(set(questions.column_names) & set(train.column_names))

    # Prompts first, as images are slow to read.
    places: Sequence[int] = range(len(train))
    for compared in (["prompt"], columns) if "prompt" in columns else (columns,):
        asked = set(_digests(questions, compared))
        digests = _digests(train.select(places), compared)
        places = [place for place, digest in zip(places, digests, strict=True) if digest in asked]
    return places


def _digests(data: Dataset, columns: list[str]) -> Iterator[str]:
    """A digest of each row as it is stored: before a transform, and with images not decoded."""
    for table in data.select_columns(columns).with_format("arrow").iter(batch_size=1000):
        for row in table.to_pylist():
            yield digest_of(row)
