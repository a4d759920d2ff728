"""Questions whose answer is one small number: what a small pretrained model learns in minutes."""

import random
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from podslab.tasks.base import Grade, Messages, Row, Task, check_choice
from podsrl.errors import InvalidInputError

_NUMBER = re.compile(r"[-\u2212\u221a]?(?:\d*\.)?\d+[\w%!]*")  # with its sign and unit
_FORM = re.compile(r"\s*\d+\.?\s*")
#: Of questions.
KINDS = ("sum", "product", "larger", "largest")


class Numbers(Task):
    """Sums and products of digits, the larger of two numbers, the largest of four.

    Graded strictly: right is a completion with exactly one number in it, the right one. In the form
    is one that is a number and nothing else.

    Args:
        seed: Of the questions; those of the two splits differ.
        train_size: Questions to train on.
        kind: One of `KINDS`; None: all of them.
    """

    name = "numbers"
    summary = "sums, products and comparisons of small numbers, for a pretrained model on a CPU"
    source = "made up here, from a seed"
    example = {"question": "What is 7 x 8?", "answer": "56"}  # noqa: RUF012
    example_right = "56"
    example_wrong = "7 x 8 is 56"

    def __init__(self, seed: int = 0, train_size: int = 4096, kind: str | None = None) -> None:
        self.seed = seed
        self.kinds = (check_choice("kind", kind, KINDS),) if kind else KINDS
        self.sizes = {"train": train_size, "test": 512}

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows with `question` and `answer`; none of the test asks for numbers of training."""
        check_choice("split", split, self.splits)
        if path is not None:
            raise InvalidInputError("numbers makes its questions up: leave --data_path out")

        rng = random.Random(f"{self.seed} {split}")
        rows: list[Row] = []
        while len(rows) < self.sizes[split]:
            row = question(rng, self.kinds)
            if _is_held_out(row) == (split == "test"):
                rows.append(row)
        return rows

    def prompt(self, row: Mapping[str, Any]) -> Messages:
        """The question; an empty system prompt keeps a model's own long one out."""
        request = f"{row['question']} Answer with the number only."
        return [{"role": "system", "content": ""}, {"role": "user", "content": request}]

    def gold_completion(self, row: Mapping[str, Any]) -> str:
        """The number."""
        return str(row["answer"])

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Right is exactly one number, the right one."""
        numbers = _NUMBER.findall(completion)
        is_right = numbers == [str(row["answer"])]
        is_formed = _FORM.fullmatch(completion) is not None
        return Grade(is_right, is_formed)


def _is_held_out(row: Row) -> bool:
    """One question in four, whatever the seed and the order of its numbers."""
    words = sorted(re.findall(r"\w+", row["question"]))
    return zlib.crc32(" ".join(words).encode()) % 4 == 0


def question(rng: random.Random, kinds: Sequence[str] = KINDS) -> Row:
    """A question of one of these kinds, and its answer."""
    kind = kinds[rng.randrange(len(kinds))]
    a = rng.randint(2, 9)
    b = rng.randint(2, 9)

    if kind == "sum":
        text = f"What is {a} + {b}?"
        answer = a + b
    elif kind == "product":
        text = f"What is {a} x {b}?"
        answer = a * b
    elif kind == "larger":
        a, b = rng.sample(range(10, 100), 2)
        text = f"Which number is larger, {a} or {b}?"
        answer = max(a, b)
    else:
        four = rng.sample(range(10, 100), 4)
        text = f"Which is the largest of these numbers: {', '.join(map(str, four))}?"
        answer = max(four)

    return {"question": text, "answer": str(answer)}
