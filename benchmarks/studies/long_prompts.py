"""Questions with long prompts and short answers: worked examples, and a question of their kind.

A prompt shows worked examples, a line each, and ends with a question: `472&316=`. The sign asks for
the last digit of each column's sum, `788`. The answer has six tokens, so generating is cheap where
the prompt is read once for all its rollouts; an update passes over the prompt in each row.
"""

import hashlib
import random
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from podsgrading.extract import answer_tag
from podslab.tasks.base import Grade, Messages, Row, Task, check_choice
from podsrl.errors import InvalidInputError

_DIGITS = 3
#: Of sixteen hash values one is for testing and one for tuning.
_PARTS = 16
_SPLIT_OF_PART = {0: "test", 1: "tuning"}

#: Two numbers, as texts of equally many digits.
Pair = tuple[str, str]
#: Given a fact, here two digits, and the digit that follows from it: the digit that is written.
Writer = Callable[[Hashable, int], int]


def _rightly(fact: Hashable, digit: int) -> int:
    """The writer that makes no slip."""
    return digit


def answer_to(pair: Pair, write: Writer = _rightly) -> str:
    """The last digits of the columns' sums, as a writer writes them; a fact is two digits."""
    columns = zip(*pair, strict=True)
    return "".join(str(write((x, y), (int(x) + int(y)) % 10)) for x, y in columns)


def _text(pair: Pair) -> str:
    return f"{pair[0]}&{pair[1]}="


def _split(pair: Pair) -> str:
    """The split that a question belongs to, whatever the order of its numbers."""
    key = " ".join(sorted(pair))
    part = hashlib.sha256(key.encode()).digest()[0] % _PARTS
    return _SPLIT_OF_PART.get(part, "train")


def draw_pair(draw: random.Random, split: str) -> Pair:
    """Two numbers of a split's questions."""
    while True:
        first, second = (f"{draw.randrange(10**_DIGITS):0{_DIGITS}}" for _ in range(2))
        if _split((first, second)) == split:
            return first, second


def draw_prompt(pair: Pair, examples: int, draw: random.Random) -> str:
    """Worked examples of the training split, and the question."""
    shown = [draw_pair(draw, "train") for _ in range(examples)]
    lines = [_text(other) + answer_to(other) for other in shown]
    return "\n".join([*lines, _text(pair)])


class LongPrompts(Task):
    """Questions behind worked examples, the same for every seed of a run.

    Args:
        examples: The worked examples of a prompt; each has twelve tokens.
        train_size, tuning_size, test_size: The questions of each split.
    """

    name = "long-prompts"
    summary = "the questions of results/long-prompts"
    source = "made up here, from a fixed seed"
    splits = ("train", "tuning", "test")
    example = {"question": "123&111=234\n472&316=", "answer": "788"}  # noqa: RUF012
    example_right = "<answer>788</answer>"
    example_wrong = "788"

    def __init__(
        self,
        examples: int = 16,
        train_size: int = 4096,
        tuning_size: int = 200,
        test_size: int = 200,
    ) -> None:
        self.shown = examples
        self.sizes = {"train": train_size, "tuning": tuning_size, "test": test_size}

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows with `question` and `answer`.

        Raises:
            InvalidInputError: There is no such split, or a path is given.
        """
        check_choice("split", split, self.splits)
        if path is not None:
            raise InvalidInputError("the questions are made up: leave data_path out")

        draw = random.Random(f"long prompts {split}")
        pairs = [draw_pair(draw, split) for _ in range(self.sizes[split])]
        return [
            {"question": draw_prompt(pair, self.shown, draw), "answer": answer_to(pair)}
            for pair in pairs
        ]

    def prompt(self, row: Mapping[str, Any]) -> Messages:
        """The examples and the question alone."""
        return [{"role": "user", "content": str(row["question"])}]

    def gold_completion(self, row: Mapping[str, Any]) -> str:
        """The answer between the tags."""
        return f"<answer>{row['answer']}</answer>"

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Right is what stands between answer tags, if it is the answer and nothing else."""
        answer = answer_tag(completion)
        is_right = answer is not None and answer.strip() == str(row["answer"])
        return Grade(is_right, answer is not None)
