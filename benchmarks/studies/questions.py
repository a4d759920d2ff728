"""The sets of questions, generated: training, tuning and test questions have none in common.

A question has a key that is the same for all that ask the same thing: its operation, and its
numbers, sorted where their order does not matter. A hash of the key decides the split. So no
question of one split is a question of another with its operands swapped, and none is twice in a
split.

All are worked in steps, one line for each column of digits or each number that is compared. A model
this small learns that in minutes; answers at once it hardly learns at all.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from podslab.tasks.base import Row, check_choice
from podslab.tasks.made_up import MadeUp, split_of
from podslab.tasks.sums import Writer, in_tags, rightly, sum_lines
from podsrl.errors import InvalidInputError

Numbers = tuple[int, ...]


def sloppily(operation: str, most: float, draw: random.Random) -> Writer:
    """The writer that the model learned from before the runs: it slips in facts of its own.

    A fact has a wrong digit of its own, written with a probability of its own, between 0 and
    `most`. So of facts that it slips in most of the time the likeliest answer is wrong, too.
    """

    def write(fact: Hashable, digit: int) -> int:
        first, second = hashlib.sha256(f"{operation} {fact}".encode()).digest()[:2]
        slips = draw.random() < most * first / 256
        return (digit + 1 + second % 9) % 10 if slips else digit

    return write


@dataclass(frozen=True)
class Operation:
    """An operation on some numbers, and the way to work out its answer.

    Args:
        name: Its name.
        numbers: Draws the numbers of a question, with as many digits as asked for.
        text: What is asked of these numbers.
        lines: The lines of the working as a writer writes them, and the answer that they give.
        is_ordered: Whether the order of the numbers matters.
        slips: The `most` of `sloppily` with which the model was shown it.
        chance: The share that is right of picks among what a question shows.
    """

    name: str
    numbers: Callable[[random.Random, int], Numbers]
    text: Callable[[Numbers], str]
    lines: Callable[[Numbers, Writer], tuple[list[str], str]]
    is_ordered: bool = False
    slips: float = 0.0
    chance: float = 0.0

    def key(self, numbers: Numbers) -> str:
        """The same for all questions that ask the same."""
        in_order = numbers if self.is_ordered else sorted(numbers)
        return f"{self.name} {' '.join(map(str, in_order))}"

    def split(self, numbers: Numbers) -> str:
        """The split that a question belongs to."""
        return split_of(self.key(numbers))

    def completion(self, numbers: Numbers, write: Writer) -> str:
        """The text of a writer: the working, and the answer between its tags."""
        return in_tags(*self.lines(numbers, write))

    def row(self, numbers: Numbers) -> Row:
        """A question as a task's row."""
        _, answer = self.lines(numbers, rightly)
        return {
            "question": self.text(numbers),
            "answer": answer,
            "kind": self.name,
            "key": self.key(numbers),
        }


def _pair(draw: random.Random, digits: int) -> Numbers:
    """Two numbers of as many digits."""
    low, high = 10 ** (digits - 1), 10**digits
    return (draw.randrange(low, high), draw.randrange(low, high))


def _large_and_small(draw: random.Random, digits: int) -> Numbers:
    """Two numbers of as many digits, whose difference has as many, too."""
    unit: int = 10 ** (digits - 1)
    return (draw.randrange(5 * unit, 10 * unit), draw.randrange(unit, 4 * unit))


def _factors(draw: random.Random, digits: int) -> Numbers:
    """A number of as many digits, and one of a single digit."""
    return (draw.randrange(10 ** (digits - 1), 10**digits), draw.randrange(2, 10))


def _four(draw: random.Random, digits: int) -> Numbers:
    """Four different numbers of as many digits."""
    return tuple(draw.sample(range(10 ** (digits - 1), 10**digits), 4))


def _joined(sign: str, before: str = "") -> Callable[[Numbers], str]:
    """The text of a question: its numbers with a sign between them."""

    def text(numbers: Numbers) -> str:
        return before + sign.join(map(str, numbers))

    return text


def _units_first(number: int) -> list[int]:
    return [int(digit) for digit in reversed(str(number))]


def _sum(numbers: Numbers, write: Writer) -> tuple[list[str], str]:
    """47+85: `7+5=12`, `4+8+1=13`; a fact is two digits and what is carried."""
    a, b = numbers
    return sum_lines(a, b, write)


def _difference(numbers: Numbers, write: Writer) -> tuple[list[str], str]:
    """85-17: `15-7=8`, `8-1-1=6`; a fact is two digits and what is borrowed."""
    a, b = numbers
    lines = []
    written = ""
    borrowed = 0
    for x, y in zip(_units_first(a), _units_first(b), strict=True):
        is_less = x - y - borrowed < 0
        digit = write((x, y, borrowed), (x - y - borrowed) % 10)
        lines.append(f"{'1' if is_less else ''}{x}-{y}{'-1' if borrowed else ''}={digit}")
        written = f"{digit}{written}"
        borrowed = int(is_less)
    return lines, written


def _product(numbers: Numbers, write: Writer) -> tuple[list[str], str]:
    """47*8: `7*8=56`, `4*8+5=37`; a fact is two digits, whatever is carried."""
    a, b = numbers
    lines = []
    written = ""
    carry = 0
    for x in _units_first(a):
        tens, right = divmod(x * b + carry, 10)
        digit = write((x, b), right)
        lines.append(f"{x}*{b}{f'+{carry}' if carry else ''}={tens or ''}{digit}")
        written = f"{digit}{written}"
        carry = tens
    return lines, f"{carry or ''}{written}"


def _largest(numbers: Numbers, write: Writer) -> tuple[list[str], str]:
    """The working of the largest number, as `57<72`, `72>47`, `72<78` for 57, 72, 47, 78."""
    largest = numbers[0]
    lines = []
    for number in numbers[1:]:
        leading = (str(largest)[0], str(number)[0])
        is_slip = write(leading, 0) != 0
        is_larger = (number > largest) != is_slip
        lines.append(f"{largest}{'<' if is_larger else '>'}{number}")
        largest = number if is_larger else largest
    return lines, str(largest)


_ALL = (
    Operation("sum", _pair, _joined("+"), _sum, slips=0.5),
    Operation(
        "difference", _large_and_small, _joined("-"), _difference, is_ordered=True, slips=0.7
    ),
    Operation("product", _factors, _joined("*"), _product, slips=0.9),
    Operation("largest", _four, _joined(" ", "max "), _largest, slips=0.6, chance=1 / 4),
)
OPERATIONS = {operation.name: operation for operation in _ALL}


class Questions(MadeUp):
    """Questions of some kinds in equal parts, the same for every seed of a run.

    Args:
        kinds: Operations of `OPERATIONS`, each with the digits of its numbers; several counts of
            digits come in turn.
        train_size, tuning_size, test_size: The questions of each split, of all kinds together.
    """

    name = "comparison"
    summary = "the sets of questions of results/comparison"
    source = "made up here, from a fixed seed"
    example = {"question": "47+85", "answer": "132"}  # noqa: RUF012
    example_right = "<think>7+5=12\n4+8+1=13</think><answer>132</answer>"
    example_wrong = "The sum is 132"

    def __init__(
        self,
        kinds: Mapping[str, Sequence[int]],
        train_size: int = 4096,
        tuning_size: int = 500,
        test_size: int = 500,
    ) -> None:
        for kind in kinds:
            check_choice("kind", kind, tuple(OPERATIONS))
        self.kinds = {kind: list(digits) for kind, digits in kinds.items()}
        super().__init__(train_size, tuning_size, test_size)

    def rows_of(self, split: str) -> list[Row]:
        """Rows with `question`, `answer` and `kind`, the kinds in turn.

        Raises:
            InvalidInputError: There are too few questions of a kind.
        """
        draw = random.Random(f"comparison {split}")
        rows_of_kinds = [self._distinct(kind, split, draw) for kind in self.kinds]
        places = range(self.sizes[split])
        return [
            rows_of_kinds[place % len(self.kinds)][place // len(self.kinds)] for place in places
        ]

    def _distinct(self, kind: str, split: str, draw: random.Random) -> list[Row]:
        """As many questions of a kind as a split has at most, of different keys."""
        operation = OPERATIONS[kind]
        digits = self.kinds[kind]
        size = -(-self.sizes[split] // len(self.kinds))
        found: dict[str, Row] = {}
        for _ in range(10_000 + 1000 * size):
            numbers = operation.numbers(draw, digits[len(found) % len(digits)])
            if operation.split(numbers) == split:
                found.setdefault(operation.key(numbers), operation.row(numbers))
            if len(found) == size:
                return list(found.values())
        raise InvalidInputError(f"{kind} has fewer than {size} questions for {split}")


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
    informed = sum(OPERATIONS[kind].chance for kind in task.kinds) / len(task.kinds)
    return {"constant": constant, "informed": informed}
