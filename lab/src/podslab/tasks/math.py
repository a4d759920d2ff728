"""MATH: competition problems with free-form answers (Hendrycks et al., arXiv 2103.03874)."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podsgrading.extract import answers_to_compare, last_boxes
from podsgrading.math.answers import grade_answers
from podsgrading.multiple_choice import declared_choice, is_letter, read_choice
from podsgrading.pool import shared_pool
from podslab.tasks.base import Grade, Row, Task, check_choice, check_deadline, in_format
from podslab.tasks.data_files import find_file, load_from_hub, read_jsonl
from podsrl.errors import InvalidInputError

_SUBJECTS = (
    "algebra",
    "counting_and_probability",
    "geometry",
    "intermediate_algebra",
    "number_theory",
    "prealgebra",
    "precalculus",
)
#: split -> (dataset on the hub, its split)
_HUB = {"math500": ("HuggingFaceH4/MATH-500", "test"), "amc23": ("zwhe99/amc23", "test")}
_FILES = {
    "train": ("train.jsonl",),
    "test": ("test.jsonl",),
    "math500": ("math500.jsonl", "math500/test.jsonl"),
    "amc23": ("amc23.jsonl", "amc23/test.jsonl"),
}


class Math(Task):
    """Competition problems; trained on MATH, evaluated on MATH-500 or AMC 2023.

    Args:
        mode: "strict": the answer that the completion declares must be the gold answer. "lenient":
            the tag's content, the last number or the whole text may match, as in the paper's code.
        deadline: seconds of processor time for one answer; after that it is unscorable.
    """

    name = "math"
    summary = "competition mathematics (MATH); evaluation splits math500 and amc23"
    source = (
        "hub: EleutherAI/hendrycks_math, HuggingFaceH4/MATH-500, zwhe99/amc23; official grader:"
        " github.com/hendrycks/math, modeling/math_equivalence.py"
    )
    example = {  # noqa: RUF012
        "question": r"Convert the point $(0,3)$ in rectangular coordinates to polar coordinates.",
        "answer": r"\left( 3, \frac{\pi}{2} \right)",
    }
    example_right = "<think>\nr = 3\n</think>\n<answer>\n$(3, \\pi/2)$\n</answer>"
    example_wrong = "<think>\nr = 3\n</think>\n<answer>\n$(3, \\pi)$\n</answer>"
    splits = ("train", "test", "math500", "amc23")

    def __init__(self, mode: str = "strict", deadline: float = 5.0) -> None:
        self.mode = check_choice("mode", mode, ("strict", "lenient"))
        self.deadline = check_deadline(deadline)

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows with `question`, `answer` (LaTeX), and what else the dataset says of them."""
        check_choice("split", split, self.splits)
        if path is not None:
            file = _find(path, split)
            return [_row(row, f"{file}, line {row.line}") for row in read_jsonl(file)]

        if split in _HUB:
            rows = load_from_hub(*_HUB[split])
        else:
            name = "EleutherAI/hendrycks_math"
            subjects = (load_from_hub(name, split, config=subject) for subject in _SUBJECTS)
            rows = itertools.chain.from_iterable(subjects)
        return [_row(row, f"{split}, row {number}") for number, row in enumerate(rows)]

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Compare the declared answer with the gold answer; see `podsgrading.math.answers`."""
        return self.grade_batch([completion], [row])[0]

    def grade_batch(
        self, completions: Sequence[str], rows: Sequence[Mapping[str, Any]]
    ) -> list[Grade]:
        """Grade a batch, in parallel and without repeating equal pairs."""
        golds = [str(row["answer"]) for row in rows]
        answers_of_completions = [
            self._answers(completion, gold)
            for completion, gold in zip(completions, golds, strict=True)
        ]

        cases: list[tuple[str, str, str]] = []
        for answers, gold, row in zip(answers_of_completions, golds, rows, strict=True):
            question = str(row.get("question") or row.get("problem") or "")
            cases += [(gold, answer, question) for answer in answers]
        pool = shared_pool(self.deadline, "podsgrading.math.warm")
        verdicts = iter(grade_answers(cases, pool))

        grades: list[Grade] = []
        for completion, answers in zip(completions, answers_of_completions, strict=True):
            own_verdicts = list(itertools.islice(verdicts, len(answers)))
            grades.append(Grade(_any(own_verdicts), in_format(completion, self.mode)))
        return grades

    def _answers(self, completion: str, gold: str) -> list[str]:
        """The text that is compared with the gold answer; for a letter, the declared choice."""
        if self.mode == "strict" and is_letter(gold):
            choice = declared_choice(completion)
            if choice is None:
                return []
            label = read_choice(choice)
            # "Option D" is D; "d" may be another variable.
            return [label if label and label in choice else choice]
        return answers_to_compare(completion, self.mode)


def _any(verdicts: list[bool | None]) -> bool | None:
    """True if one is right; None if none is and one could not be graded."""
    if True in verdicts:
        return True
    return None if None in verdicts else False


def _find(path: str, split: str) -> Path:
    """The file of a split, in a folder as its authors publish it."""
    names = list(_FILES[split])
    # A folder with a file to train on holds MATH itself, whose test.jsonl is another set.
    holds_math = (Path(path).expanduser() / "train.jsonl").is_file()
    if split in _HUB and not holds_math:
        names.append("test.jsonl")
    return find_file(path, names)


def _row(row: Mapping[str, Any], where: str) -> Row:
    """The row of one problem; `where` says in a message where it stands."""
    question = row.get("problem") or row.get("question")
    answer = row.get("answer")
    if answer is None and row.get("solution"):
        answer = last_boxes(str(row["solution"]))
    # AMC 2023 has its integers as floats, 27.0.
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)

    for field, value in (("problem", question), ("answer", answer)):
        if value in (None, ""):
            raise InvalidInputError(f"{where}: no field {field!r}")

    if "####" in str(answer):
        raise InvalidInputError(
            f"{where}: the field 'answer' holds a solution with '####' before its number, as"
            " GSM8K's do; read it with the task gsm8k"
        )

    others = {key: row[key] for key in ("solution", "subject", "level") if key in row}
    return {"question": str(question), "answer": str(answer), **others}
