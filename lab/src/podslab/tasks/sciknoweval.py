"""SciKnowEval, chemistry L3: multiple choice, and balancing equations (arXiv 2406.09098)."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from podsgrading.equations import NotAnEquationError, balances, same_text
from podsgrading.extract import declared_answer
from podsgrading.multiple_choice import declared_choice, read_choice
from podslab.tasks.base import Grade, Messages, Row, Task, check_choice, in_format
from podslab.tasks.data_files import load_from_hub, read_jsonl
from podsrl.errors import InvalidInputError

SUBTASKS = (
    "balancing_chemical_equation",
    "molar_weight_calculation",
    "molecular_property_calculation",
    "molecule_structure_prediction",
    "reaction_prediction",
    "retrosynthesis",
)
_CHOICE_PROMPT = "\n\nIn the answer, give the letter of the right option only."
_EQUATION_PROMPT = (
    "\n\nIn the answer, give the balanced equation only, with whole numbers and the substances as"
    " they are given."
)


class SciKnowEval(Task):
    """Six kinds of chemistry questions; one in five, by a hash of its text, is for testing.

    The dataset has no training split; equal questions are always on the same side.

    Args:
        subtask: one of `SUBTASKS`, or "all".
    """

    name = "sciknoweval"
    summary = "chemistry (SciKnowEval L3): multiple choice, and balancing equations"
    source = (
        "hub: hicai-zju/SciKnowEval; files: github.com/HICAI-ZJU/SciKnowEval,"
        " raw_data/Chemistry/L3/*.jsonl; official grader: evaluation/ there"
    )
    example = {  # noqa: RUF012
        "question": "Here is a unbalanced chemical equation:\nBa(NO3)2 + H2SO4 = BaSO4 + HNO3\n"
        "The balanced chemical equation is:",
        "answer": "Ba(NO3)2 + H2SO4 = BaSO4 + 2HNO3",
        "choices": [],
    }
    example_right = (
        "<think>\n2 N\n</think>\n<answer>\nH2SO4 + Ba(NO3)2 -> BaSO4 + 2 HNO3\n</answer>"
    )
    example_wrong = "<think>\n2 N\n</think>\n<answer>\nBa(NO3)2 + H2SO4 = BaSO4 + HNO3\n</answer>"

    def __init__(self, subtask: str = "all") -> None:
        self.subtasks: tuple[str, ...] = SUBTASKS
        if subtask != "all":
            self.subtasks = (check_choice("subtask", subtask, SUBTASKS),)

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows with `question`, `answer` (a letter or an equation), `choices` and `subtask`."""
        check_choice("split", split, self.splits)
        all_rows = self._from_hub() if path is None else self._from_files(Path(path).expanduser())
        rows = [row for row in all_rows if _is_for_testing(row) == (split == "test")]
        if not rows:
            raise InvalidInputError(f"no row of {path or 'the dataset'} is in the split {split!r}")
        return rows

    def prompt(self, row: Mapping[str, Any]) -> Messages:
        """Asks for a letter, or for an equation."""
        request = _CHOICE_PROMPT if row.get("choices") else _EQUATION_PROMPT
        return super().prompt({"question": f"{row['question']}{request}"})

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """A letter (or its option's text), or an equation that balances atoms and charge."""
        choices = row.get("choices")
        if choices:
            answer = declared_choice(completion, _labels(choices), choices)
        else:
            answer = declared_answer(completion)
        is_right = False if answer is None else _is_right(answer, row)
        return Grade(is_right, in_format(completion))

    def _from_files(self, path: Path) -> Iterable[Row]:
        files = [path] if path.is_file() else [path / f"{name}.jsonl" for name in self.subtasks]
        files = [file for file in files if file.is_file()]
        if not files:
            raise InvalidInputError(
                f"{path} is no file, and no folder with {' or '.join(self.subtasks)} (.jsonl)"
            )

        for file in files:
            for row in read_jsonl(file, required=("question",)):
                yield _row(row, f"{file}, line {row.line}")

    def _from_hub(self) -> Iterable[Row]:
        for number, row in enumerate(load_from_hub("hicai-zju/SciKnowEval", "test")):
            level = (row.get("details") or {}).get("level")
            if row.get("domain") != "Chemistry" or level != "L3":
                continue
            own_row = _row(row, f"hicai-zju/SciKnowEval, row {number}")
            if own_row["subtask"] in self.subtasks:
                yield own_row


def _row(row: Mapping[str, Any], where: str) -> Row:
    """The row of one question, with its options; `where` says in a message where it stands."""
    choices = row.get("choices") or {}
    texts = list(choices.get("text", ()))
    labels = list(choices.get("label", ()))
    answer = row.get("answerKey") or row.get("answer")
    if not answer:
        raise InvalidInputError(f"{where}: no field 'answer' or 'answerKey'")
    if texts and (answer not in labels or len(labels) != len(texts)):
        raise InvalidInputError(f"{where}: the answer {answer!r} is no label of {labels}")

    options = "".join(f"\n{label}) {text}" for label, text in zip(labels, texts, strict=False))
    subtask = (row.get("details") or {}).get("task", "")
    if subtask == "molecular_property_prediction":  # the published rows' name is not the file's
        subtask = "molecular_property_calculation"

    return {
        "question": f"{row['question']}{options}",
        "answer": str(answer),
        "choices": texts,
        "subtask": subtask,
    }


def _is_right(answer: str, row: Mapping[str, Any]) -> bool:
    """Is the answer the right option, or a balanced equation of the same reaction?"""
    gold = str(row["answer"])
    choices = row.get("choices")
    if choices:
        return read_choice(answer, _labels(choices), choices) == gold

    if "".join(answer.split()) == "".join(gold.split()):
        return True
    try:
        return balances(answer, gold)
    except NotAnEquationError:  # the gold equation can't be read: only the same text is right
        return same_text(answer, gold)


def _labels(choices: Sequence[str]) -> str:
    return "ABCDEFGHIJ"[: len(choices)]


def _is_for_testing(row: Row) -> bool:
    first_byte = hashlib.sha256(row["question"].encode()).digest()[0]
    return first_byte % 5 == 0
