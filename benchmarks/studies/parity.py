"""Questions whose answer can be right although the working is wrong: how many digits are odd?

`472+385` asks for the number of odd digits among the last three of the sum: is it even (`e`) or odd
(`o`)? The working adds column by column, and says behind each digit what the count is so far:

    <think>2+5=7o
    7+8=15e
    4+3+1=8e</think><answer>e</answer>

Of answers at random a half is right. So a sum with wrong digits leads to the right answer about
every second time, and a reward for the answer alone pays for it.
"""

import random
from collections.abc import Mapping
from typing import Any

from podslab.tasks.base import Grade, Row, check_choice
from podslab.tasks.made_up import MadeUp, draw_pair
from podslab.tasks.sums import Writer, in_tags, rightly, sum_lines

LOWEST, HIGHEST = 100, 999
#: Two numbers that are added.
Pair = tuple[int, int]


def completion(pair: Pair, write: Writer = rightly) -> tuple[str, str]:
    """The completion of a writer, and the answer that it gives."""
    sums, _ = sum_lines(*pair, write)
    lines = []
    count = 0
    for line in sums:
        count += int(line[-1]) % 2
        lines.append(line + _parity(count))
    return in_tags(lines, _parity(count)), _parity(count)


def _parity(count: int) -> str:
    return "eo"[count % 2]


class Parity(MadeUp):
    """Questions of whether a sum has an even or an odd number of odd digits.

    Args:
        train_size, tuning_size, test_size: The questions of each split.
        pays: "answer": the right answer is right, whatever the working. "working": a right answer
            is right only with the right working.
    """

    name = "parity"
    summary = "the questions of results/wrong-working"
    source = "made up here, from a fixed seed"
    example_right = "<think>2+5=7o\n7+8=15e\n4+3+1=8e</think><answer>e</answer>"
    example_wrong = "<think>2+5=7o\n7+8=15e\n4+3+1=8e</think><answer>o</answer>"
    example = {"question": "472+385", "answer": "e", "working": example_right}  # noqa: RUF012

    def __init__(
        self,
        train_size: int = 4096,
        tuning_size: int = 200,
        test_size: int = 200,
        pays: str = "answer",
    ) -> None:
        self.pays = check_choice("pays", pays, ("answer", "working"))
        super().__init__(train_size, tuning_size, test_size)

    def rows_of(self, split: str) -> list[Row]:
        """Rows with `question`, `answer`, and `working`, the right completion."""
        draw = random.Random(f"parity {split}")
        rows: list[Row] = []
        for _ in range(self.sizes[split]):
            a, b = draw_pair(draw, LOWEST, HIGHEST, split)
            right, answer = completion((a, b))
            rows.append({"question": f"{a}+{b}", "answer": answer, "working": right})
        return rows

    def gold_completion(self, row: Mapping[str, Any]) -> str:
        """The right working and answer."""
        return str(row["working"])

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """What is in the form has the right working.

        So of a run's measurements `answer_accuracy` has the right answers, and `both_accuracy`
        those which have the right working, too.
        """
        is_worked = completion.strip() == row["working"]
        is_right = super().grade(completion, row).answer
        if self.pays == "working":
            is_right = is_right and is_worked
        return Grade(is_right, is_worked)
