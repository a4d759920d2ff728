import itertools
import json
from pathlib import Path

import pytest

from podsrl.errors import InvalidInputError
from podsrl.grading.math.answers import compare_quickly, equal_structures
from podsrl.tasks import get_task

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the MATH-500 and AMC files are not there"
)


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@needs_data
@pytest.mark.parametrize(("split", "count"), [("math500", 500), ("amc23", 40)])
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_every_gold_answer_passes_its_own_grader(split, count, mode):
    task = get_task("math", mode=mode)
    rows = task.load(split, str(DATA))
    assert len(rows) == count
    grades = task.grade_batch([task.gold_completion(row) for row in rows], rows)
    wrong = [r["answer"] for r, g in zip(rows, grades, strict=True) if g != (True, True)]
    assert wrong == []


@needs_data
def test_gold_answers_that_are_no_numbers_or_words_pass_by_their_meaning_too():
    rows = [row["answer"] for row in get_task("math").load("math500", str(DATA))]
    hard = [answer for answer in rows if compare_quickly(answer, "0") is None]
    assert len(hard) > 80
    assert [answer for answer in hard if not equal_structures(answer, answer)] == []


@needs_data
def test_the_solutions_of_math500_as_completions_are_right():
    task = get_task("math")
    rows = task.load("math500", str(DATA))
    grades = task.grade_batch([row["solution"] for row in rows], rows)
    wrong = [r["answer"] for r, g in zip(rows, grades, strict=True) if g.answer is not True]
    assert wrong == []


@needs_data
def test_the_gold_answer_of_the_next_problem_is_wrong():
    task = get_task("math")
    rows = task.load("math500", str(DATA))
    pairs = [
        (a, b)
        for a, b in itertools.pairwise(rows)
        if compare_quickly(a["answer"], b["answer"]) is not True
    ]
    grades = task.grade_batch([task.gold_completion(a) for a, _ in pairs], [b for _, b in pairs])
    assert len(pairs) > 450
    assert [pair for pair, g in zip(pairs, grades, strict=True) if g.answer is not False] == []


def test_the_gold_answer_of_a_solution_is_its_last_box_with_nested_braces(tmp_path):
    row = {"problem": "p", "solution": r"so \boxed{2}, no: $\boxed{\frac{1}{2}}$.", "level": "1"}
    (loaded,) = get_task("math").load("train", write(tmp_path / "train.jsonl", row))
    assert loaded["answer"] == r"\frac{1}{2}"
    assert loaded["question"] == "p"


def test_answers_that_are_whole_floats_are_integers(tmp_path):
    write(
        tmp_path / "amc23.jsonl",
        {"question": "q", "answer": 27.0},
        {"question": "q", "answer": 0.5},
    )
    rows = get_task("math").load("amc23", str(tmp_path))
    assert [row["answer"] for row in rows] == ["27", "0.5"]


def test_bad_rows_and_folders_are_refused_with_their_place(tmp_path):
    task = get_task("math")
    file = tmp_path / "train.jsonl"
    with pytest.raises(InvalidInputError, match="line 2: no field 'answer'"):
        task.load("train", write(file, {"problem": "p", "answer": "1"}, {"problem": "p"}))
    with pytest.raises(InvalidInputError, match="line 1: no field 'problem'"):
        task.load("train", write(file, {"answer": "1"}))
    with pytest.raises(InvalidInputError, match=r"math500\.jsonl"):
        task.load("math500", str(tmp_path))
    (tmp_path / "algebra").mkdir()
    with pytest.raises(InvalidInputError, match="one JSONL file"):
        task.load("train", str(tmp_path))
