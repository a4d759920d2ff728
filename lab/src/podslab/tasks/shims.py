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
    found = get_task(task, **options)

    def compute_score(
        data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, **_: Any
    ) -> dict[str, float]:
        grade = found.grade(solution_str, _row(ground_truth, extra_info))
        right, unscorable = float(bool(grade.answer)), float(grade.answer is None)
        form = float(grade.format)
        return {"score": right, "acc": right, "format": form, "unscorable": unscorable}

    return compute_score


def slime_reward(task: str, **options: Any) -> Callable[..., Any]:
    """slime's `--custom-rm-path` function: async, over one sample or a list of them.

    The sample's `label` is the gold answer (or the row), its `metadata` is merged into the row. An
    unscorable sample gets 0.0 and metadata["unscorable"] = True.
    """
    found = get_task(task, **options)

    async def reward(args: Any, sample: Any, **_: Any) -> Any:
        samples = sample if isinstance(sample, list) else [sample]
        rows = [_row(one.label, one.metadata) for one in samples]
        texts = [one.response for one in samples]
        grades = await asyncio.to_thread(found.grade_batch, texts, rows)
        for one, grade in zip(samples, grades, strict=True):
            if grade.answer is None and isinstance(one.metadata, dict):
                one.metadata["unscorable"] = True
        rewards = [float(bool(grade.answer)) for grade in grades]
        return rewards if isinstance(sample, list) else rewards[0]

    return reward


def _row(gold: Any, extra: Any) -> Row:
    row = dict(extra) if isinstance(extra, Mapping) else {}
    if isinstance(gold, str) and gold.startswith("{") and gold != "{}":
        with contextlib.suppress(ValueError):  # a gold answer may begin with a brace: a set
            gold = json.loads(gold)
    return row | (dict(gold) if isinstance(gold, Mapping) else {"answer": gold})
