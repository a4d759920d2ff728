"""Questions that are made up from a fixed seed, with splits that share none of them."""

import hashlib
import random
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from podsgrading.extract import answer_tag
from podslab.tasks.base import Grade, Messages, Row, Task, check_choice
from podsrl.errors import InvalidInputError

#: Of sixteen hash values one is for testing and one for tuning.
_PARTS = 16
_SPLIT_OF_PART = {0: "test", 1: "tuning"}


def split_of(key: str) -> str:
    """The split of all questions with this key: "train", "tuning" or "test"."""
    part = hashlib.sha256(key.encode()).digest()[0] % _PARTS
    return _SPLIT_OF_PART.get(part, "train")


def draw_pair(draw: random.Random, lowest: int, highest: int, split: str) -> tuple[int, int]:
    """Two numbers of a split's question; swapped they are of the same split."""
    while True:
        a, b = (draw.randint(lowest, highest) for _ in range(2))
        if split_of(f"{min(a, b)} {max(a, b)}") == split:
            return a, b


class MadeUp(Task):
    """Questions of three splits, asked alone and answered between answer tags.

    Args:
        train_size, tuning_size, test_size: The questions of each split.
    """

    splits = ("train", "tuning", "test")

    def __init__(self, train_size: int, tuning_size: int, test_size: int) -> None:
        self.sizes = {"train": train_size, "tuning": tuning_size, "test": test_size}

    @abstractmethod
    def rows_of(self, split: str) -> list[Row]:
        """The rows of a split, as many as `sizes` says."""

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows with at least `question` and `answer`.

        Raises:
            InvalidInputError: There is no such split, a path is given, or there are too few
                questions.
        """
        check_choice("split", split, self.splits)
        if path is not None:
            raise InvalidInputError("the questions are made up: leave data_path out")
        return self.rows_of(split)

    def prompt(self, row: Mapping[str, Any]) -> Messages:
        """The question alone."""
        return [{"role": "user", "content": str(row["question"])}]

    def gold_completion(self, row: Mapping[str, Any]) -> str:
        """The answer without its working, between the tags."""
        return f"<answer>{row['answer']}</answer>"

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Right is what stands between answer tags, if it is the answer and nothing else."""
        answer = answer_tag(completion)
        is_right = answer is not None and answer.strip() == str(row["answer"])
        return Grade(is_right, answer is not None)
