"""Sums of two numbers, generated: a task with known answers and a dial for its difficulty."""

import random
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from podsgrading.extract import MAX_TAIL, answer_tag
from podslab.tasks.base import Grade, Row, Task, check_choice, in_format
from podslab.tasks.sums import draw_problem, worked_sum
from podsrl.errors import InvalidInputError

# Possessive (++), so that a text of many digits or zeros takes linear time.
_NUMBERS = re.compile(r"[+-]?[0-9]++")
#: The sign, and the digits without leading zeros.
_INTEGER = re.compile(r"([+-]?)(?=[0-9])0*+([0-9]*+)")


class Arithmetic(Task):
    """`47+85`, with as many columns of digits as asked for.

    A hash of the problem decides its split, so that train and test share none, whatever the seed
    and the sizes.

    Args:
        min_columns, max_columns: digits of both numbers; rows go through all of them in turn.
        train_size, test_size: rows of each split.
        seed: of the draw; the same seed gives the same rows.
        mode: "strict": the answer stands between <answer> tags. "lenient": without them the last
            integer of the completion counts.
    """

    name = "arithmetic"
    summary = "sums of two numbers, generated; harder with every column of digits"
    source = "generated here; graded by exact comparison of integers"
    example: ClassVar[Row] = {"question": "47+85", "answer": "132", "columns": 2}
    example_right = "<think>\n7+5=12\n4+8+1=13\n</think>\n<answer>\n132\n</answer>"
    example_wrong = "<think>\n7+5=13\n4+8+1=13\n</think>\n<answer>\n133\n</answer>"

    def __init__(
        self,
        min_columns: int = 4,
        max_columns: int = 4,
        train_size: int = 4096,
        test_size: int = 256,
        seed: int = 0,
        mode: str = "strict",
    ) -> None:
        self.mode = check_choice("mode", mode, ("strict", "lenient"))

        if not 1 <= min_columns <= max_columns:
            raise InvalidInputError(
                f"min_columns = {min_columns}, max_columns = {max_columns}; allowed is"
                " 1 <= min_columns <= max_columns"
            )
        sizes = {"train": train_size, "test": test_size}
        if min(sizes.values()) < 1:
            raise InvalidInputError(
                f"train_size = {train_size}, test_size = {test_size}; both must be at least 1"
            )

        self.columns = range(min_columns, max_columns + 1)
        self.sizes = sizes
        self.seed = seed

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows of a split: `question`, `answer`, and `columns` for a look at each difficulty.

        Raises:
            InvalidInputError: an unknown split, a path, or more rows than there are problems.
        """
        check_choice("split", split, self.splits)
        if path is not None:
            raise InvalidInputError(f"arithmetic is generated and reads no data; got path {path!r}")

        draw = random.Random(f"{self.seed}/{split}")
        size = self.sizes[split]
        problems: dict[tuple[int, int], int] = {}  # each with its columns, in the order drawn
        # Drawn twice, a problem counts once; after so many draws there are no others.
        for _ in range(10_000 + 100 * size):
            if len(problems) == size:
                break
            columns = self.columns[len(problems) % len(self.columns)]
            problems.setdefault(draw_problem(draw, columns, split), columns)
        else:
            raise InvalidInputError(
                f"{size} rows are more {split} problems than {columns} columns have; ask for fewer"
                f" ({split}_size) or for more columns"
            )

        return [
            {"question": f"{a}+{b}", "answer": str(a + b), "columns": columns}
            for (a, b), columns in problems.items()
        ]

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Right if the answer that is given is the integer `row["answer"]`, and nothing else."""
        answer = answer_tag(completion)
        if answer is None and self.mode == "lenient":
            numbers = _NUMBERS.findall(completion[-MAX_TAIL:])
            answer = numbers[-1] if numbers else None

        is_right = answer is not None and _canonical(answer) == _canonical(str(row["answer"]))
        return Grade(is_right, in_format(completion))

    def gold_completion(self, row: Mapping[str, Any]) -> str:
        """The sum worked column by column, from the units up."""
        a, b = str(row["question"]).split("+")
        return worked_sum(int(a), int(b))


def _canonical(text: str) -> tuple[bool, str] | None:
    """Whether an integer is negative, and its digits without leading zeros; None for no integer.

    It stays a text, as Python refuses to read integers of more than 4300 digits.
    """
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    sign, digits = match.groups()
    is_negative = sign == "-" and digits != ""  # -0 is 0
    return is_negative, digits
