"""GSM8K: grade-school word problems whose answer is one number (Cobbe et al., arXiv 2110.14168)."""

from collections.abc import Mapping
from typing import Any

from podsgrading.extract import answers_to_compare
from podsgrading.math.answers import same_text
from podsgrading.math.numbers import read_number, states_number
from podslab.tasks.base import Grade, Row, Task, check_choice, in_format
from podslab.tasks.data_files import find_file, load_from_hub, read_jsonl
from podsrl.errors import InvalidInputError


class GSM8K(Task):
    """Grade-school word problems; `mode="lenient"` grades as the paper's code does.

    Args:
        mode: "strict": the number that the completion declares as its answer must be the gold
            number. "lenient": the last number, the tag's content or the whole text may match, and
            in the form a tag may be repeated.
    """

    name = "gsm8k"
    summary = "grade-school word problems, 7,473 for training and 1,319 for testing"
    source = (
        "hub: openai/gsm8k; files: github.com/openai/grade-school-math, "
        "grade_school_math/data/{train,test}.jsonl; official grader: grade_school_math/dataset.py"
    )
    example = {  # noqa: RUF012
        "question": "Natalia sold clips to 48 of her friends in April, and then she sold half as"
        " many clips in May. How many clips did Natalia sell altogether in April and May?",
        "answer": "72",
    }
    example_right = "<think>\n48 + 24\n</think>\n<answer>\n72 clips\n</answer>"
    example_wrong = "<think>\n48 / 2\n</think>\n<answer>\n24\n</answer>"

    def __init__(self, mode: str = "strict") -> None:
        self.mode = check_choice("mode", mode, ("strict", "lenient"))

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows with `question`, `answer` (the number, as written) and `solution`."""
        check_choice("split", split, self.splits)
        if path is None:
            hub_rows = load_from_hub("openai/gsm8k", split, config="main")
            return [
                _row(row, f"openai/gsm8k, {split}, row {number}")
                for number, row in enumerate(hub_rows)
            ]

        file = find_file(path, [f"{split}.jsonl"])
        rows = read_jsonl(file, required=("question", "answer"))
        return [_row(row, f"{file}, line {row.line}") for row in rows]

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Compare numbers, exactly; a gold answer may still have its solution before "####".

        One that is no number is compared as a text.
        """
        is_formed = in_format(completion, self.mode)
        answers = answers_to_compare(completion, self.mode)
        gold_text = _after_hashes(str(row["answer"]))
        gold = read_number(gold_text, prose=True)

        if gold is None:
            is_right = any(same_text(gold_text, answer) for answer in answers)
        else:
            is_right = any(states_number(gold, answer, prose=True) for answer in answers)
        return Grade(is_right, is_formed)


def _after_hashes(solution: str) -> str:
    return solution.rpartition("####")[2].strip()


def _row(row: Mapping[str, Any], where: str) -> Row:
    """The row of one problem; `where` says in a message where it stands."""
    solution = str(row["answer"])
    if "####" not in solution:
        raise InvalidInputError(f"{where}: the field 'answer' has no '#### <number>' at its end")
    answer = _after_hashes(solution)
    if read_number(answer, prose=True) is None:
        raise InvalidInputError(f"{where}: the gold answer {answer!r} is not a number")
    return {"question": str(row["question"]), "answer": answer, "solution": solution}
