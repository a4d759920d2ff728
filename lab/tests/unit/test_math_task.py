import itertools
import json

import pytest

from podsgrading.math.answers import compare_quickly, equal_structures
from podslab.tasks import get_task
from podsrl.errors import InvalidInputError
from tests.support.data import COMPLETE, SAMPLE, sample_and_complete

on_math500 = sample_and_complete("math500", "the same for all 500 problems of MATH-500")


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def assert_passes_its_own_grader(split, mode, data, count):
    task = get_task("math", mode=mode)
    rows = task.load(split, str(data))
    assert len(rows) == count
    grades = task.grade_batch([task.gold_completion(row) for row in rows], rows)
    wrong = [r["answer"] for r, g in zip(rows, grades, strict=True) if g != (True, True)]
    assert wrong == []


@on_math500
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_every_gold_answer_of_math500_passes_its_own_grader(mode, data):
    assert_passes_its_own_grader("math500", mode, data, 12 if data == SAMPLE / "math500" else 500)


@pytest.mark.skipif(not COMPLETE.is_dir(), reason="AMC 2023 is not in ../shared/data: 40 answers")
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_every_gold_answer_of_amc_2023_passes_its_own_grader(mode):
    assert_passes_its_own_grader("amc23", mode, COMPLETE / "amc23", 40)


@on_math500
def test_gold_answers_that_are_no_numbers_or_words_pass_by_their_meaning_too(data):
    rows = [row["answer"] for row in get_task("math").load("math500", str(data))]
    hard = [answer for answer in rows if compare_quickly(answer, "0") is None]
    assert len(hard) > 0.16 * len(rows)
    assert [answer for answer in hard if not equal_structures(answer, answer)] == []


@on_math500
def test_the_solutions_of_math500_as_completions_are_right(data):
    task = get_task("math")
    rows = task.load("math500", str(data))
    grades = task.grade_batch([row["solution"] for row in rows], rows)
    wrong = [r["answer"] for r, g in zip(rows, grades, strict=True) if g.answer is not True]
    assert wrong == []


@on_math500
def test_the_gold_answer_of_the_next_problem_is_wrong(data):
    task = get_task("math")
    rows = task.load("math500", str(data))
    completions = []
    asked = []
    for row, other in itertools.pairwise(rows):
        if compare_quickly(row["answer"], other["answer"]) is not True:
            completions.append(task.gold_completion(row))
            asked.append(other)
    assert len(asked) >= 0.9 * (len(rows) - 1)

    for row, grade in zip(asked, task.grade_batch(completions, asked), strict=True):
        assert grade.answer is False, row


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
    (tmp_path / "test.jsonl").write_text(file.read_text())  # of MATH: a file to train on is there
    with pytest.raises(InvalidInputError, match=r"math500\.jsonl"):
        task.load("math500", str(tmp_path))
