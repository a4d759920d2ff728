"""Questions of many kinds, each to be answered with the answer and nothing else."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from podslab.tasks.base import Grade, Messages, Row, Task, check_choice
from podslab.tasks.numbers import KINDS, Numbers
from podslab.tasks.reasoning_gym import ReasoningGym


class Answers(Task):
    """Questions of reasoning-gym's datasets and of the task `numbers`, in equal parts.

    Right is a completion that is the answer and nothing else; white space around it and a full stop
    behind it may be there. So a text that holds many guesses is wrong, and where a question has
    several right answers only the one that its generator gives counts.

    Args:
        kinds: Datasets of reasoning-gym, and kinds of `podslab.tasks.numbers`.
        seed: Of the questions.
        train_size: Questions to train on, of all kinds together.
        test_size: Questions to test on, of all kinds together.
    """

    name = "answers"
    summary = "several of reasoning-gym's datasets, answered with the answer and nothing else"
    source = "github.com/open-thought/reasoning-gym, and the task numbers"
    example = {"question": "What is 7 x 8?", "answer": "56"}  # noqa: RUF012
    example_right = "56"
    example_wrong = "7 x 8 is 56"

    def __init__(
        self,
        kinds: Sequence[str] = KINDS,
        seed: int = 0,
        train_size: int = 2048,
        test_size: int = 128,
    ) -> None:
        self._seed = seed
        self._sizes = {"train": train_size // len(kinds), "test": test_size // len(kinds)}

        size = max(self._sizes["train"], 5 * self._sizes["test"])  # reasoning-gym tests on a fifth
        self._tasks: dict[str, Task] = {}
        for kind in kinds:
            if kind in KINDS:
                self._tasks[kind] = Numbers(seed=seed, train_size=size, kind=kind)
            else:
                self._tasks[kind] = ReasoningGym(dataset=kind, size=size, seed=seed)

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows with `question`, `answer` and the `kind` of question, the kinds mixed."""
        size = self._sizes[check_choice("split", split, self.splits)]

        rows: list[Row] = []
        for kind, task in self._tasks.items():
            for row in task.load(split, path)[:size]:
                rows.append({"question": row["question"], "answer": row["answer"], "kind": kind})

        random.Random(f"{self._seed} {split}").shuffle(rows)
        return rows

    def prompt(self, row: Mapping[str, Any]) -> Messages:
        """The question; an empty system prompt keeps a model's own long one out."""
        request = f"{row['question']}\nGive the answer only."
        return [{"role": "system", "content": ""}, {"role": "user", "content": request}]

    def gold_completion(self, row: Mapping[str, Any]) -> str:
        """The answer."""
        return str(row["answer"])

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Right is the answer alone; in the form is a single line."""
        text = completion.strip()
        gold = str(row["answer"]).strip()
        is_right = bool(gold) and gold in (text, text.removesuffix("."))
        is_one_line = bool(text) and "\n" not in text
        return Grade(is_right, is_one_line)
