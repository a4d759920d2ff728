"""Any task as the reward of another host: TRL, verl, slime; and a host's reward as a task's."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from podsrl.errors import InvalidInputError
from podslab.tasks.base import Grade, Row, Task, check_choice, in_format
from podslab.tasks.by_name import get_task


def trl_reward(task: str | Task, **options: Any) -> Callable[..., list[float | None]]:
    """A TRL reward function: 1 for a right answer, 0 for a wrong one, None for an unscorable one.

    The dataset needs the task's columns (at least `answer`); `Task.rewards` has the paper's three
    functions.

    >>> reward = trl_reward("gsm8k")
    >>> reward(completions=["<answer>72</answer>", "<answer>71</answer>"], answer=["72", "72"])
    [1.0, 0.0]
    """
    found = _task(task, options)
    correctness = found.rewards()[0]
    correctness.__name__ = f"{found.name}_correctness"
    return correctness


def verl_compute_score(task: str | Task, **options: Any) -> Callable[..., dict[str, float]]:
    """verl's `compute_score(data_source, solution_str, ground_truth, extra_info)` for a task.

    It returns {"score", "acc", "format", "unscorable"}. verl has no reward for "could not be
    graded": the score is then 0 with "unscorable" 1, which shows in verl's metrics and lets a
    filter drop the row. `ground_truth` is the gold answer, or the whole row (a mapping, or its
    JSON) for a task that needs more; `extra_info` is merged into the row.

    >>> verl_compute_score("gsm8k")("openai/gsm8k", "<answer>72</answer>", "72", None)["score"]
    1.0
    """
    found = _task(task, options)

    def compute_score(
        data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, **_: Any
    ) -> dict[str, float]:
        grade = found.grade(solution_str, _row(ground_truth, extra_info))
        return {
            "score": float(bool(grade.answer)),
            "acc": float(bool(grade.answer)),
            "format": float(grade.format),
            "unscorable": float(grade.answer is None),
        }

    return compute_score


def slime_reward(task: str | Task, **options: Any) -> Callable[..., Any]:
    """slime's `--custom-rm-path` function: async, over one sample or a list of them.

    The sample's `label` is the gold answer (or the row), its `metadata` is merged into the row. An
    unscorable sample gets 0.0 and metadata["unscorable"] = True.
    """
    found = _task(task, options)

    def grade(samples: Sequence[Any]) -> list[float]:
        rows = [_row(sample.label, getattr(sample, "metadata", None)) for sample in samples]
        grades = found.grade_batch([sample.response for sample in samples], rows)
        for sample, one in zip(samples, grades, strict=True):
            if one.answer is None and isinstance(getattr(sample, "metadata", None), dict):
                sample.metadata["unscorable"] = True
        return [float(bool(one.answer)) for one in grades]

    async def reward(args: Any, sample: Any, **kwargs: Any) -> Any:
        if isinstance(sample, list):
            return await asyncio.to_thread(grade, sample)
        return (await asyncio.to_thread(grade, [sample]))[0]

    return reward


class RewardTask(Task):
    """A task graded by a reward function that was written for TRL or verl.

    Args:
        reward: called as TRL does, reward(completions=[...], **columns), or as verl does,
            reward(data_source, solution_str, ground_truth, extra_info); see `style`.
        load: called as load(split, path); its rows have `question` and `answer`.
        style: "trl" or "verl".
        threshold: rewards from here on are right answers.
    """

    name = "reward"
    summary = "graded by a reward function of yours"
    source = ""

    def __init__(
        self,
        reward: Callable[..., Any],
        load: Callable[[str, str | None], list[Row]],
        style: str = "trl",
        threshold: float = 0.5,
    ) -> None:
        self._style = check_choice("style", style, ("trl", "verl"))
        self._reward, self._load, self._threshold = reward, load, threshold

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """The rows that your `load` gives."""
        return self._load(split, path)

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Right if the reward is at least the threshold; None stays None."""
        return self.grade_batch([completion], [row])[0]

    def grade_batch(
        self, completions: Sequence[str], rows: Sequence[Mapping[str, Any]]
    ) -> list[Grade]:
        """One call of a TRL reward for all; one call of a verl reward for each."""
        if self._style == "trl":
            columns = {key: [row[key] for row in rows] for key in rows[0]} if rows else {}
            columns.setdefault("prompts", [self.prompt(row) for row in rows])
            rewards = self._reward(completions=list(completions), **columns)
        else:
            rewards = [
                self._reward(row.get("data_source", self.name), text, row["answer"], dict(row))
                for text, row in zip(completions, rows, strict=True)
            ]
        scores = [r.get("score") if isinstance(r, Mapping) else r for r in rewards]
        if len(scores) != len(completions):
            raise InvalidInputError(
                f"the reward function returned {len(scores)} values for {len(completions)} texts"
            )
        return [
            Grade(None if score is None or score != score else score >= self._threshold, form)
            for score, form in zip(scores, map(in_format, completions), strict=True)
        ]


def _task(task: str | Task, options: Mapping[str, Any]) -> Task:
    return get_task(task, **options) if isinstance(task, str) else task


def _row(gold: Any, extra: Any) -> Row:
    row = dict(extra) if isinstance(extra, Mapping) else {}
    if isinstance(gold, str) and gold.startswith("{") and gold != "{}":
        with contextlib.suppress(ValueError):  # a gold answer may begin with a brace: a set
            gold = json.loads(gold)
    return row | (dict(gold) if isinstance(gold, Mapping) else {"answer": gold})
