"""Comparing methods on a training script of the user's own.

from podslab.own_script import compare

print(compare("train.py", hours=2))
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podslab.own_script.answer import Answer

__all__ = ["compare"]


def compare(
    script: str, arguments: Sequence[str] = (), folder: str = "pods-compare", **options: Any
) -> "Answer":
    """Compare methods on a script, as `pods compare` does; a second call goes on.

    Args:
        script: A file that trains with TRL's `GRPOTrainer` or `PODSTrainer`.
        arguments: Its own.
        folder: Where all is recorded.
        options: `hours`, `methods`, `questions`, `answers`, `gpus` and `launch` of
            `podslab.own_script.run_plan.CompareOptions`.

    Returns:
        The answer; printed it is a table with sentences, and `answer.draw(path)` draws the curves.

    Raises:
        InvalidInputError: The script can't be compared, or the hours are too few.
        PodsError: The script fails.
    """
    from podslab.own_script.run_plan import CompareOptions, RunningComparison, make_plan

    asked = CompareOptions(script, tuple(arguments), Path(folder), **options)
    plan, _, costs = make_plan(asked, print)
    return RunningComparison(plan, costs, asked.folder, asked.gpus, print).run()
