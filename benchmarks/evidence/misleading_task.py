"""Sums with a shaping reward that misleads: wrong answers are paid for being short.

For `pods train --task benchmarks/evidence/misleading_task.py`.
"""

from collections.abc import Sequence
from typing import Any

from podslab.tasks.arithmetic import Arithmetic
from podslab.tasks.base import RewardFunction
from podsrl.rollout_log.turns import text_of

LONGEST = 112  # tokens of the longest completion; one character each, except for the tags


class MisleadingArithmetic(Arithmetic):
    """Correctness, and up to 0.2 to a wrong answer, the more the shorter it is.

    Who leaves out the working gets that reward, and can no longer get the answer right.
    """

    name = "misleading-arithmetic"

    def rewards(self, form: str = "wrong") -> list[RewardFunction]:
        """Correctness as in `Arithmetic`, and the reward for being short."""
        correctness = super().rewards(form)[0]

        def short(completions: Sequence[Any], **columns: Any) -> list[float | None]:
            texts = [text_of(completion) for completion in completions]
            shorter = [max(0.0, 0.2 * (1 - len(text) / LONGEST)) for text in texts]
            right = correctness(completions, **columns)
            return [None if r is None else s * (1 - r) for r, s in zip(right, shorter, strict=True)]

        return [correctness, short]
