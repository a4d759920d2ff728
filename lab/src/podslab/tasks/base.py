"""The interface of a task: rows with an answer, their prompts, and grades of completions."""

import math
import random
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from podsgrading.extract import answer_tag
from podsgrading.unscorable import COUNTS, UnscorableWatch
from podsrl.errors import InvalidInputError
from podsrl.rewards import is_number
from podsrl.rollout_log.turns import text_of

Item = TypeVar("Item")
Row = dict[str, Any]
Messages = list[dict[str, str]]
RewardFunction = Callable[..., list[float | None]]

SYSTEM_PROMPT = """Think step by step first, then give the final answer. Write exactly:
<think>
your reasoning
</think>
<answer>
your final answer, nothing else
</answer>"""

TAGS = ("<think>", "</think>", "<answer>", "</answer>")
#: Who gets the rewards for the form: wrong answers only, or every rollout.
FORMS = ("wrong", "every")
#: White space, visible or not, and the signs of boxes, mathematics, bold type and code.
_AROUND_NOTHING = re.compile(
    r"[\s\u200b\u2060\ufeff$*`{}]|\\f?box(?:ed)?(?![a-z])|\\[()\[\]]|\\text(?![a-z])"
)
#: The columns of a dataset that TRL gives no reward function.
_KEPT_FROM_REWARDS = ("prompt", "completion", "completion_ids")
_MIDDLE = re.compile(r"</think>[ \n]?<answer>")


class _Grade(NamedTuple):
    answer: bool | None
    format: bool


class Grade(_Grade):
    """A grader's verdict on one completion.

    answer: is the answer right? None means that it could not be graded (never count it as wrong).
    format: is the completion in the form that the prompt asks for?

    Raises:
        TypeError: the answer is anything else, such as a share of the points.

    >>> Grade(True, format=False)
    Grade(answer=True, format=False)
    >>> Grade(0.5, True)
    Traceback (most recent call last):
    TypeError: the answer of a Grade is True, False, or None for one that could not be graded; got
    0.5. Override the task's `rewards` to give a part of the points
    """

    __slots__ = ()

    def __new__(cls, answer: bool | None, format: bool) -> "Grade":
        if answer is None:
            return super().__new__(cls, None, format)
        # 0 and 1 may be what a verifier gives; a share would count as right, as it is not 0.
        if not is_number(answer) or answer not in (0, 1):
            raise TypeError(
                "the answer of a Grade is True, False, or None for one that could not be graded;"
                f" got {answer!r}. Override the task's `rewards` to give a part of the points"
            )
        return super().__new__(cls, bool(answer), format)


class Task(ABC):
    """A dataset with its prompt and its graders.

    A subclass gives the class attributes, `load` and `grade`; `prompt` and `rewards` have defaults.
    Options of a task are keyword arguments of its constructor.
    """

    name: ClassVar[str]
    #: One line for `pods tasks`.
    summary: ClassVar[str]
    #: Where the data comes from, and a link to the official grader.
    source: ClassVar[str]
    #: A row with a right and a wrong completion; `pods tasks check` grades both.
    example: ClassVar[Row]
    example_right: ClassVar[str]
    example_wrong: ClassVar[str]
    splits: ClassVar[tuple[str, ...]] = ("train", "test")
    #: The rewards raise when more than this share of the last 1,024 completions is unscorable.
    max_unscorable: float = 0.25

    @abstractmethod
    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows of a split, each with at least `question` and `answer`.

        Args:
            split: one of `splits`.
            path: a local file or folder in the dataset's original form; None loads from the hub.
        """

    @abstractmethod
    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Grade one completion against one row. Must not raise for any completion."""

    def grade_batch(
        self, completions: Sequence[str], rows: Sequence[Mapping[str, Any]]
    ) -> list[Grade]:
        """Grade many completions, each against its own row."""
        return [
            self.grade(completion, row) for completion, row in zip(completions, rows, strict=True)
        ]

    def prompt(self, row: Mapping[str, Any]) -> Messages:
        """The conversation that asks for `row`'s answer in the <think>/<answer> form."""
        return [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": str(row["question"])},
        ]

    def gold_completion(self, row: Mapping[str, Any]) -> str:
        """A completion that must be graded right: the gold answer in the asked form."""
        return f"<think>\nas given\n</think>\n<answer>\n{row['answer']}\n</answer>"

    def examples(self) -> tuple[Row, str, str]:
        """A row with a right and a wrong completion, which `pods tasks check` grades."""
        return self.example, self.example_right, self.example_wrong

    def rewards(self, form: str = "wrong") -> list[RewardFunction]:
        """Reward functions for TRL: correctness, form and tags, as in the authors' code.

        Correctness is 1 for a right answer, else 0. The form gives up to 0.1 (0.001 less for each
        character outside it), each of the four tags that occurs exactly once 0.025. Scale them with
        `reward_weights`; each completion that can't be graded gets None from all three. One whose
        <answer> is empty gets 0 from all three, where the authors' code pays for its form.

        Args:
            form: who gets the rewards for form and tags. "wrong": wrong answers only, as in the
                first release of the authors' code (github.com/YixuanEvenXu/pods, commit 3fc107e,
                utils/data.py). "every": every rollout, as later (commit 0c453d2, there at a tenth
                of the size: reward_weights 1, 0.1, 0.1).

        Raises:
            InvalidInputError: another `form`.
        """
        return paper_rewards(self, form)


def format_span(completion: str) -> tuple[int, int] | None:
    """Where the completion's <think>...</think><answer>...</answer> starts and ends, if anywhere.

    The longest such stretch, which `<think>.*</think>[ \\n]?<answer>.*</answer>` would find too,
    but in linear time: on a text of many tags that regular expression takes hours.
    """
    start = completion.find("<think>")
    end = completion.rfind("</answer>")
    if start < 0 or _MIDDLE.search(completion, start + len("<think>"), max(end, 0)) is None:
        return None
    return start, end + len("</answer>")


def in_format(completion: str, mode: str = "strict") -> bool:
    """Is the completion <think>...</think><answer>...</answer>, with each tag once?

    A space or a line break is allowed between the two parts, before and after them. In "lenient"
    mode a tag may stand there more than once, as in the authors' `format_correct`
    (github.com/YixuanEvenXu/pods, utils/data.py). In both, a form without an answer in it is none:
    theirs takes it.

    >>> in_format("<think>1 + 1</think>\\n<answer>2</answer>"), in_format("<answer>2</answer>")
    (True, False)
    >>> in_format("<think></think><answer></answer>")
    False
    """
    span = format_span(completion)
    if span is None or has_empty_answer(completion):
        return False
    if mode != "lenient" and any(completion.count(tag) != 1 for tag in TAGS):
        return False

    start, end = span
    before = completion[:start]
    after = completion[end:]
    return before in ("", " ", "\n") and after in ("", " ", "\n")


def has_empty_answer(completion: str) -> bool:
    r"""Does the answer's tag hold nothing, or only signs around nothing?

    Such a completion says nothing, so it earns nothing, not even for its form: else a model that
    gets no answer right learns to write the four tags and to stop.

    >>> has_empty_answer(r"<answer> $\boxed{}$ </answer>"), has_empty_answer("<answer>0</answer>")
    (True, False)
    """
    answer = answer_tag(completion)
    return answer is not None and not _AROUND_NOTHING.sub("", answer)


def check_choice(what: str, given: str, allowed: Sequence[str]) -> str:
    """`given`, if it is one of `allowed`; else an `InvalidInputError` that lists them."""
    if given not in allowed:
        raise InvalidInputError(f"{what} {given!r} is unknown; allowed are {', '.join(allowed)}")
    return given


def check_deadline(seconds: float) -> float:
    """`seconds`, if it is a time that grading may take; else an `InvalidInputError`."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds < math.inf:
        raise InvalidInputError(f"deadline must be a number of seconds above 0; got {seconds!r}")
    return seconds


def rows_of(columns: Mapping[str, Any], count: int) -> list[Row]:
    """TRL hands the dataset's columns to a reward function as lists; this makes rows of them."""
    lists = {
        name: column
        for name, column in columns.items()
        if isinstance(column, list) and len(column) == count
    }
    if not lists:
        return [{} for _ in range(count)]
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def as_rewards_get(row: Mapping[str, Any]) -> Row:
    """A row of a task as its grader gets it in training: TRL keeps some columns from rewards."""
    return {name: value for name, value in row.items() if name not in _KEPT_FROM_REWARDS}


def spread(rows: Sequence[Item], most: int | None) -> list[Item]:
    """At most so many rows, in their order: one of each of as many equal parts, the same each time.

    So of a sorted file every kind has its share. It has so, too, where kinds take turns, since the
    place within a part is drawn: of every second row all may be of one kind.
    """
    number = min(len(rows), len(rows) if most is None else most)
    draw = random.Random(0)
    ends = [part * len(rows) // number for part in range(1, number + 1)]
    return [rows[draw.randrange(start, end)] for start, end in zip([0, *ends], ends, strict=False)]


class _BatchGrader:
    """Grades each batch once, for all reward functions that ask for it."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._watch = UnscorableWatch(task.max_unscorable)
        self._one_at_a_time = threading.Lock()  # TRL's asynchronous worker calls all three at once
        self._last_batch: tuple[list[str], list[Row]] | None = None
        self._last_grades: list[Grade] = []

    def grade(
        self, completions: Sequence[Any], columns: Mapping[str, Any]
    ) -> list[tuple[str, Grade]]:
        """The text and the grade of each completion."""
        texts = [text_of(completion) for completion in completions]
        rows = rows_of(columns, len(texts))

        with self._one_at_a_time:
            if self._last_batch != (texts, rows):
                self._grade_batch(texts, rows, columns.get("log_metric"))
            return list(zip(texts, self._last_grades, strict=True))

    def _grade_batch(
        self, texts: list[str], rows: list[Row], log_metric: Callable[[str, float], None] | None
    ) -> None:
        started = time.perf_counter()
        timeouts_before = COUNTS["timeouts"]
        self._last_grades = self._task.grade_batch(texts, rows)
        self._last_batch = (texts, rows)

        failed = [grade.answer is None for grade in self._last_grades]
        if log_metric is not None:
            log_metric("grading/unscorable", sum(failed) / max(1, len(failed)))
            log_metric("grading/timeouts", COUNTS["timeouts"] - timeouts_before)
            log_metric("grading/seconds", time.perf_counter() - started)
        self._watch.record(failed)


def paper_rewards(task: Task, form: str) -> list[RewardFunction]:
    """The three reward functions of `Task.rewards`, which grade every batch once between them."""
    check_choice("form", form, FORMS)
    grader = _BatchGrader(task)

    def gets_form_rewards(grade: Grade) -> bool:
        return form == "every" or not grade.answer

    def correctness(completions: Sequence[Any], **columns: Any) -> list[float | None]:
        return [
            None if grade.answer is None else float(grade.answer)
            for _, grade in grader.grade(completions, columns)
        ]

    def format(completions: Sequence[Any], **columns: Any) -> list[float | None]:
        return form_rewards(_form_score, completions, columns)

    def tags(completions: Sequence[Any], **columns: Any) -> list[float | None]:
        return form_rewards(_tag_score, completions, columns)

    def form_rewards(
        score: Callable[[str], float], completions: Sequence[Any], columns: Mapping[str, Any]
    ) -> list[float | None]:
        rewards: list[float | None] = []
        for text, grade in grader.grade(completions, columns):
            if grade.answer is None:
                rewards.append(None)
            else:
                rewards.append(score(text) if gets_form_rewards(grade) else 0.0)
        return rewards

    # TRL logs each by its function's name.
    return [correctness, format, tags]


def _form_score(text: str) -> float:
    """Up to 0.1, and 0.001 less for each character outside the form; 0 for an empty answer."""
    span = format_span(text)
    if span is None or has_empty_answer(text):
        return 0.0
    start, end = span
    outside = len(text) - (end - start)
    return max(0.0, 0.1 - 0.001 * outside)


def _tag_score(text: str) -> float:
    """0.025 for each of the four tags that occurs exactly once; 0 for an empty answer."""
    if has_empty_answer(text):
        return 0.0
    return 0.025 * sum(text.count(tag) == 1 for tag in TAGS)
