"""The four sets of questions, generated: training, tuning and test questions have none in common.

A question has a key that is the same for all that ask the same thing: its kind, and its numbers,
sorted where their order does not matter. A hash of the key decides the split. So no question of one
split is a question of another with its operands swapped, and none is twice in a split.

Answers that are numbers are written units first where no steps are asked for: "47+85" is answered
by "231". A model this small learns that in minutes, and the usual order hardly at all.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podsgrading.extract import answer_tag
from podslab.tasks.arithmetic import worked_sum
from podslab.tasks.base import Grade, Messages, Row, Task, check_choice
from podsrl.errors import InvalidInputError

#: Of sixteen hash values one is for testing and one for tuning.
_PARTS = 16
_SPLIT_OF_PART = {0: "test", 1: "tuning"}

Numbers = tuple[int, ...]
#: Given a fact, such as two digits that are added, and the digit that follows from it: the digit
#: that is written.
Writer = Callable[[Hashable, int], int]


def rightly(fact: Hashable, digit: int) -> int:
    """The writer that makes no slip."""
    return digit


def sloppily(kind: str, most: float, draw: random.Random) -> Writer:
    """The writer that the model learned from before the runs: it slips in facts of its own.

    A fact has a wrong digit of its own, written with a probability of its own, between 0 and
    `most`. So of facts that it slips in most of the time the likeliest answer is wrong, too.
    """

    def write(fact: Hashable, digit: int) -> int:
        first, second = hashlib.sha256(f"{kind} {fact}".encode()).digest()[:2]
        slips = draw.random() < most * first / 256
        return (digit + 1 + second % 9) % 10 if slips else digit

    return write


@dataclass(frozen=True)
class Kind:
    """A kind of questions.

    Args:
        name: Its name.
        numbers: Draws the numbers of a question.
        text: What is asked of these numbers.
        completion: What a writer writes.
        is_ordered: Whether the order of the numbers matters.
        is_worked: Whether steps are asked for, and the answer between tags behind them.
        slips: The `most` of `sloppily` with which the model was shown it.
        chance: The share that is right of picks among what a question shows.
    """

    name: str
    numbers: Callable[[random.Random], Numbers]
    text: Callable[[Numbers], str]
    completion: Callable[[Numbers, Writer], str]
    is_ordered: bool = False
    is_worked: bool = False
    slips: float = 0.0
    chance: float = 0.0

    def key(self, numbers: Numbers) -> str:
        """The same for all questions that ask the same."""
        in_order = numbers if self.is_ordered else sorted(numbers)
        return f"{self.name} {' '.join(map(str, in_order))}"

    def split(self, numbers: Numbers) -> str:
        """The split that a question belongs to."""
        part = hashlib.sha256(self.key(numbers).encode()).digest()[0] % _PARTS
        return _SPLIT_OF_PART.get(part, "train")

    def row(self, numbers: Numbers) -> Row:
        """A question as a task's row."""
        completion = self.completion(numbers, rightly)
        answer = answer_tag(completion) if self.is_worked else completion
        return {
            "question": self.text(numbers),
            "answer": answer,
            "kind": self.name,
            "key": self.key(numbers),
            "is_worked": self.is_worked,
        }


def _of_digits(*digits: int) -> Callable[[random.Random], Numbers]:
    """Draws a number of each of these lengths."""

    def numbers(draw: random.Random) -> Numbers:
        return tuple(draw.randrange(10 ** (count - 1), 10**count) for count in digits)

    return numbers


def _four(draw: random.Random) -> Numbers:
    return tuple(draw.sample(range(100, 1000), 4))


def _large_and_small(draw: random.Random) -> Numbers:
    return tuple(sorted(draw.sample(range(100, 1000), 2), reverse=True))


def _factors(draw: random.Random) -> Numbers:
    return (draw.randrange(100, 1000), draw.randrange(2, 10))


def _long_pair(draw: random.Random) -> Numbers:
    digits = draw.randint(8, 9)
    return _of_digits(digits, digits)(draw)


def _joined(sign: str, before: str = "") -> Callable[[Numbers], str]:
    """The text of a question: its numbers with a sign between them."""

    def text(numbers: Numbers) -> str:
        return before + sign.join(map(str, numbers))

    return text


def _units_first(number: int) -> list[int]:
    return [int(digit) for digit in reversed(str(number))]


def _largest(numbers: Numbers, write: Writer) -> str:
    """The largest; a slip is the second largest, and a fact the last digit of the largest."""
    second, largest = sorted(numbers)[-2:]
    is_right = write(largest % 10, 0) == 0
    return str(largest if is_right else second)


def _sum(numbers: Numbers, write: Writer) -> str:
    """Units first; a fact is two digits and what is carried."""
    a, b = numbers
    written = ""
    carry = 0
    for x, y in zip(_units_first(a), _units_first(b), strict=True):
        tens, digit = divmod(x + y + carry, 10)
        written += str(write((x, y, carry), digit))
        carry = tens
    return f"{written}{carry or ''}"


def _difference(numbers: Numbers, write: Writer) -> str:
    """Units first, with all zeros; a fact is two digits and what is borrowed."""
    a, b = numbers
    written = ""
    borrowed = 0
    for x, y in zip(_units_first(a), _units_first(b), strict=True):
        digit = x - y - borrowed
        written += str(write((x, y, borrowed), digit % 10))
        borrowed = int(digit < 0)
    return written


def _product(numbers: Numbers, write: Writer) -> str:
    """Units first; a fact is two digits, whatever is carried."""
    a, b = numbers
    written = ""
    carry = 0
    for x in _units_first(a):
        tens, digit = divmod(x * b + carry, 10)
        written += str(write((x, b), digit))
        carry = tens
    return f"{written}{carry or ''}"


def _columns(numbers: Numbers, write: Writer) -> str:
    """The sum of two long numbers, worked column by column; facts are as in `_sum`."""
    a, b = numbers
    slips = []
    carry = 0
    for x, y in zip(_units_first(a), _units_first(b), strict=True):
        tens, digit = divmod(x + y + carry, 10)
        slips.append((write((x, y, carry), digit) - digit) % 10)
        carry = tens
    return worked_sum(a, b, slips)


_ALL = (
    Kind("largest", _four, _joined(" ", "max "), _largest, slips=0.9, chance=1 / 4),
    Kind("sum of 3 digits", _of_digits(3, 3), _joined("+"), _sum, slips=0.5),
    Kind("sum of 4 digits", _of_digits(4, 4), _joined("+"), _sum, slips=0.6),
    Kind("sum of 6 digits", _of_digits(6, 6), _joined("+"), _sum, slips=0.7),
    Kind("difference", _large_and_small, _joined("-"), _difference, is_ordered=True, slips=0.8),
    Kind("product", _factors, _joined("*"), _product, slips=0.9),
    Kind("columns", _long_pair, _joined("+", "steps "), _columns, is_worked=True, slips=0.35),
)
KINDS = {kind.name: kind for kind in _ALL}


class Questions(Task):
    """Questions of some kinds in equal parts, the same for every seed of a run.

    Args:
        kinds: Of `KINDS`.
        train_size, tuning_size, test_size: The questions of each split, of all kinds together.
    """

    name = "comparison"
    summary = "the sets of questions of results/comparison"
    source = "made up here, from a fixed seed"
    splits = ("train", "tuning", "test")
    example = {"question": "47+85", "answer": "231", "is_worked": False}  # noqa: RUF012
    example_right = "231"
    example_wrong = "The sum is 132"

    def __init__(
        self,
        kinds: Sequence[str],
        train_size: int = 4096,
        tuning_size: int = 500,
        test_size: int = 500,
    ) -> None:
        self.kinds = [check_choice("kind", kind, tuple(KINDS)) for kind in kinds]
        self.sizes = {"train": train_size, "tuning": tuning_size, "test": test_size}

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows with `question`, `answer`, `kind` and `is_worked`, the kinds in turn.

        Raises:
            InvalidInputError: There is no such split, a path is given, or there are too few
                questions of a kind.
        """
        check_choice("split", split, self.splits)
        if path is not None:
            raise InvalidInputError("the questions are made up: leave data_path out")

        draw = random.Random(f"comparison {split}")
        rows_of_kinds = [self._distinct(KINDS[kind], split, draw) for kind in self.kinds]
        places = range(self.sizes[split])
        return [
            rows_of_kinds[place % len(self.kinds)][place // len(self.kinds)] for place in places
        ]

    def _distinct(self, kind: Kind, split: str, draw: random.Random) -> list[Row]:
        """As many questions of a kind as a split has at most, of different keys."""
        size = -(-self.sizes[split] // len(self.kinds))
        found: dict[str, Row] = {}
        for _ in range(10_000 + 1000 * size):
            numbers = kind.numbers(draw)
            if kind.split(numbers) == split:
                found.setdefault(kind.key(numbers), kind.row(numbers))
            if len(found) == size:
                return list(found.values())
        raise InvalidInputError(f"{kind.name} has fewer than {size} questions for {split}")

    def prompt(self, row: Mapping[str, Any]) -> Messages:
        """The question alone."""
        return [{"role": "user", "content": str(row["question"])}]

    def gold_completion(self, row: Mapping[str, Any]) -> str:
        """The answer, in the form that its kind asks for."""
        return f"<answer>{row['answer']}</answer>" if row["is_worked"] else str(row["answer"])

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Right is the answer alone; of a question in steps, what stands between answer tags."""
        answer = self.answer_of(completion)
        has_tags = answer_tag(completion) is not None
        is_in_form = has_tags == bool(row["is_worked"])
        return Grade(is_in_form and answer == str(row["answer"]), is_in_form)

    def answer_of(self, completion: str) -> str:
        """What a completion answers: between its answer tags, or all of it where it has none."""
        answer = answer_tag(completion)
        return (completion if answer is None else answer).strip()


def guessing(task: Questions, split: str) -> dict[str, float]:
    """The shares of a split's questions that guessing gets right.

    "constant" always gives the most frequent answer to the training questions of the kind;
    "informed" picks at random among what the question shows, such as one of the four numbers of
    which the largest is asked for.
    """
    frequent = {}
    for kind in task.kinds:
        answers = Counter(row["answer"] for row in task.load("train") if row["kind"] == kind)
        frequent[kind] = answers.most_common(1)[0][0]
    rows = task.load(split)
    constant = sum(row["answer"] == frequent[row["kind"]] for row in rows) / len(rows)
    informed = sum(KINDS[kind].chance for kind in task.kinds) / len(task.kinds)
    return {"constant": constant, "informed": informed}
