"""Any task as the reward function of verl or slime. (For TRL there is `Task.rewards`.)"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from podslab.tasks.base import Row
from podslab.tasks.by_name import get_task


def verl_compute_score(task: str, **options: Any) -> Callable[..., dict[str, float]]:
    """verl's `compute_score(data_source, solution_str, ground_truth, extra_info)` for a task.

    It returns {"score", "acc", "format", "unscorable"}. verl has no reward for "could not be
    graded": the score is then 0 with "unscorable" 1, which shows in verl's metrics and lets a
    filter drop the row. `ground_truth` is the gold answer, or the whole row (a mapping, or its
    JSON) for a task that needs more; `extra_info` is merged into the row.

    >>> verl_compute_score("gsm8k")("openai/gsm8k", "<answer>72</answer>", "72", None)["score"]
    1.0
    """
    grader = get_task(task, **options)

    def compute_score(
        data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, **_: Any
    ) -> dict[str, float]:
        grade = grader.grade(solution_str, _row(ground_truth, extra_info))
        right = float(grade.answer is True)
        return {
            "score": right,
            "acc": right,
            "format": float(grade.format),
            "unscorable": float(grade.answer is None),
        }

    return compute_score


def slime_reward(task: str, **options: Any) -> Callable[..., Any]:
    """slime's `--custom-rm-path` function: async, over one sample or a list of them.

    The sample's `label` is the gold answer (or the row), its `metadata` is merged into the row. An
    unscorable sample gets 0.0 and metadata["unscorable"] = True.
    """
    grader = get_task(task, **options)

    async def reward(args: Any, sample: Any, **_: Any) -> Any:
        batch = sample if isinstance(sample, list) else [sample]
        texts = [member.response for member in batch]
        rows = [_row(member.label, member.metadata) for member in batch]
        # In a thread: slime's event loop generates meanwhile.
        grades = await asyncio.to_thread(grader.grade_batch, texts, rows)

        for member, grade in zip(batch, grades, strict=True):
            if grade.answer is None and isinstance(member.metadata, dict):
                member.metadata["unscorable"] = True

        rewards = [float(grade.answer is True) for grade in grades]
        return rewards if isinstance(sample, list) else rewards[0]

    return reward


def _row(gold: Any, extra: Any) -> Row:
    """A row of the extra columns and of the gold answer, or of the row that stands in its place."""
    row = dict(extra) if isinstance(extra, Mapping) else {}
    if isinstance(gold, str) and gold.startswith("{") and gold != "{}":
        with contextlib.suppress(ValueError):  # a gold answer may begin with a brace: a set
            gold = json.loads(gold)
    if isinstance(gold, Mapping):
        return {**row, **gold}
    return {**row, "answer": gold}
