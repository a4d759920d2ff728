"""Sums of two numbers, worked column by column: what the embedded model learns before a run.

The model's name is made of this file among others, so a change here makes another model.
"""

import hashlib
import random
from collections.abc import Callable, Hashable, Sequence

#: Given a fact, such as two digits that are added, and the digit that follows from it: the digit
#: that is written.
Writer = Callable[[Hashable, int], int]


def split_of(a: int, b: int) -> str:
    """The split that a problem belongs to: one in eight is for testing."""
    first_byte = hashlib.sha256(f"{a}+{b}".encode()).digest()[0]
    return "test" if first_byte % 8 == 0 else "train"


def draw_problem(draw: random.Random, columns: int, split: str) -> tuple[int, int]:
    """Two numbers of `columns` digits each, uniform over the problems of the split."""
    low = 10 ** (columns - 1)
    high = 10**columns
    while True:
        a = draw.randrange(low, high)
        b = draw.randrange(low, high)
        if split_of(a, b) == split:
            return a, b


def worked_sum(a: int, b: int, slips: Sequence[int] = ()) -> str:
    """The working of a + b, one line for each column from the units up, and the answer it gives.

    Args:
        slips: added, modulo 10, to the last digit of each column's result; the answer follows from
            the slipped digits. With any slip in 1..9 the answer is wrong.

    >>> worked_sum(47, 85)
    '<think>7+5=12\\n4+8+1=13</think><answer>132</answer>'
    >>> worked_sum(47, 85, slips=[9])
    '<think>7+5=11\\n4+8+1=13</think><answer>131</answer>'
    """
    slip_of_column = iter(slips)

    def write(fact: Hashable, digit: int) -> int:
        return (digit + next(slip_of_column, 0)) % 10

    return in_tags(*sum_lines(a, b, write))


def rightly(fact: Hashable, digit: int) -> int:
    """The writer that makes no slip."""
    return digit


def sum_lines(a: int, b: int, write: Writer) -> tuple[list[str], str]:
    """The lines of the working of a + b from the units up, and the answer that they give.

    Args:
        write: The writer; a fact is a column's two digits and what is carried.

    >>> sum_lines(47, 85, lambda fact, digit: digit)
    (['7+5=12', '4+8+1=13'], '132')
    """
    width = len(str(max(a, b)))
    lines: list[str] = []
    digits = ""
    carry = 0
    for x, y in zip(reversed(f"{a:0{width}}"), reversed(f"{b:0{width}}"), strict=True):
        tens, right = divmod(int(x) + int(y) + carry, 10)
        digit = write((int(x), int(y), carry), right)
        lines.append(f"{x}+{y}{'+1' if carry else ''}={tens or ''}{digit}")
        digits = f"{digit}{digits}"
        carry = tens
    return lines, f"{carry or ''}{digits}"


def in_tags(lines: Sequence[str], answer: str) -> str:
    """A working and its answer, each between its tags."""
    working = "\n".join(lines)
    return f"<think>{working}</think><answer>{answer}</answer>"
