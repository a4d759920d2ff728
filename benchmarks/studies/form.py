"""Sums whose answer counts whether or not it has the form that is asked for.

`4723+3859` has the answer 8582. A completion is right if the last integer in it is this one, or,
where it has answer tags, what stands between them. It is in the form if it has all four tags. So
the two are learned, and measured, apart.
"""

import random
from collections.abc import Mapping
from typing import Any

from podslab.tasks.arithmetic import Arithmetic
from podslab.tasks.base import Grade, Row
from podslab.tasks.made_up import MadeUp, draw_pair
from podslab.tasks.sums import worked_sum

_LOWEST, _HIGHEST = 1000, 9999


class Form(MadeUp):
    """Sums of two numbers of four digits, right in any form.

    Args:
        train_size, tuning_size, test_size: The questions of each split.
    """

    name = "form"
    summary = "the questions of results/form"
    source = "made up here, from a fixed seed"
    example = {"question": "4723+3859", "answer": "8582"}  # noqa: RUF012
    example_right = worked_sum(4723, 3859)
    example_wrong = worked_sum(4723, 3859, slips=[1, 0, 0, 0])

    def __init__(
        self, train_size: int = 4096, tuning_size: int = 200, test_size: int = 200
    ) -> None:
        super().__init__(train_size, tuning_size, test_size)
        self._sums = Arithmetic(mode="lenient")

    def rows_of(self, split: str) -> list[Row]:
        """Rows with `question` and `answer`."""
        draw = random.Random(f"form {split}")
        rows: list[Row] = []
        for _ in range(self.sizes[split]):
            a, b = draw_pair(draw, _LOWEST, _HIGHEST, split)
            rows.append({"question": f"{a}+{b}", "answer": str(a + b)})
        return rows

    def gold_completion(self, row: Mapping[str, Any]) -> str:
        """The sum worked column by column."""
        return self._sums.gold_completion(row)

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Right by the answer, whatever the form; in the form by the four tags."""
        return self._sums.grade(completion, row)
