"""The task `code`: its data, and what of a batch is run at all, in real runs of the sandbox."""

import json

import pytest

from podsgrading.sandbox import run_in_sandbox, why_no_sandbox
from podslab.tasks import code as code_module
from podslab.tasks import get_task
from podsrl.errors import InvalidInputError

pytestmark = pytest.mark.skipif(bool(why_no_sandbox()), reason=why_no_sandbox())

MBPP = {
    "text": "Write a function to find the larger of two numbers.",
    "code": "def larger(a, b):\r\n  return max(a, b)",
    "task_id": 601,
    "test_setup_code": "import math",
    "test_list": ["assert larger(1, 2) == 2", "assert larger(math.inf, 2) == math.inf"],
    "challenge_test_list": [],
}


def test_mbpp_rows_in_their_original_form_pass_with_their_gold_code(tmp_path):
    (tmp_path / "mbpp.jsonl").write_text(json.dumps(MBPP) + "\n")
    task = get_task("code")
    (row,) = task.load("train", str(tmp_path))
    assert task.grade(task.gold_completion(row), row) == (True, True)
    future = "from __future__ import annotations\n"  # after the row's own setup
    assert task.grade(task.gold_completion({"answer": future + row["answer"]}), row).answer is True
    wrong = "<answer>```python\ndef larger(a, b):\n    return a\n```</answer>"
    assert task.grade(wrong, row).answer is False
    with pytest.raises(InvalidInputError, match=r"no task_id in 11\.\.510"):
        task.load("test", str(tmp_path))


@pytest.mark.parametrize(
    "options", [{"cpu_seconds": 2.5}, {"cpu_seconds": 0}, {"memory_mb": 0}, {"seconds": 0}]
)
def test_limits_with_which_no_answer_could_be_right_are_refused(options):
    with pytest.raises(InvalidInputError, match=f"{next(iter(options))} must be"):
        get_task("code", **options)


def answer(code):
    return f"<answer>\n```python\n{code}\n```\n</answer>"


def test_a_batch_runs_the_same_program_once_and_keeps_the_order(monkeypatch):
    programs = []

    def counting(code, tests, limits):
        programs.append(code.strip())
        return run_in_sandbox(code, tests, limits)

    monkeypatch.setattr(code_module, "run_in_sandbox", counting)
    task = get_task("code")
    right, wrong = task.example_right, task.example_wrong
    texts = [right, wrong, "no code", right.replace("<think>", "")]
    texts += [answer("def add(a, b) return a + b"), answer("I would add them.")]
    grades = task.grade_batch(texts * 3, [task.example] * 18)
    assert [g.answer for g in grades] == [True, False, False, True, False, False] * 3
    assert [g.format for g in grades[:4]] == [True, True, False, False]
    assert len(programs) == len(set(programs)) == 4


def test_the_same_program_with_other_tests_or_another_setup_is_run_again():
    task = get_task("code")
    rows = [
        {"tests": "assert f() == 1", "setup": "one = 1"},
        {"tests": "assert f() == 2", "setup": "one = 1"},
        {"tests": "assert f() == 1", "setup": "one = 3"},
    ]
    grades = task.grade_batch([answer("def f():\n    return one")] * 3, rows)
    assert [g.answer for g in grades] == [True, False, False]


def test_a_batch_and_one_at_a_time_agree_on_odd_programs():
    task = get_task("code")
    add = "def add(a, b):\n    return a + b\n"
    codes = [add, add + "return 1", add + "x = " + "-" * 200 + "1", add + "\x00"]
    codes += [add + "# \ud800", add + "x = '\ud800'", add.replace("a", "\uff41"), "\ufeff" + add]
    codes += [add.replace("\n", "\r\n"), add + "1" * 5_000, "\tif 1:\n" + add]
    texts = [answer(code) for code in codes]
    together = [g.answer for g in task.grade_batch(texts, [task.example] * len(codes))]
    assert together == [task.grade(text, task.example).answer for text in texts]
    assert set(together) == {True, False}
