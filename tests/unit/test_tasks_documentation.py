"""docs/tasks.md says what is right and wrong, and shows a task of your own: both are tried here."""

import json
import re
from pathlib import Path

import pytest

from podsrl.grading.extract import declared_answer
from podsrl.grading.math.compare import compare_quickly, equal_structures
from podsrl.tasks import TASKS, get_task

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")


def claims():
    table = PAGE.split("| gold | right | wrong |")[1].split("\n\n")[0]
    for line in table.strip().splitlines()[1:]:
        gold, right, wrong = (
            re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split(" | ")
        )
        yield from ((gold[0], answer, True) for answer in right)
        yield from ((gold[0], answer, False) for answer in wrong)


@pytest.mark.parametrize(("gold", "answer", "right"), list(claims()))
def test_what_the_table_says_of_an_answer_is_so(gold, answer, right):
    declared = declared_answer(f"<answer>{answer}</answer>")
    assert declared is not None
    verdict = compare_quickly(gold, declared)
    assert (equal_structures(gold, declared) if verdict is None else verdict) is right


def test_the_page_names_every_task():
    for name in TASKS:
        assert f"`{name}" in PAGE


def test_the_task_on_the_page_works(tmp_path):
    code = PAGE.split("## Your own task")[1].split("```python\n")[1].split("```")[0]
    (tmp_path / "capitals.py").write_text(code)
    data = tmp_path / "capitals.jsonl"
    data.write_text(json.dumps({"question": "The capital of Peru?", "answer": "Lima"}) + "\n")
    task = get_task(str(tmp_path / "capitals.py"))
    (row,) = task.load("train", str(data))
    assert task.grade(task.gold_completion(row), row) == (True, True)
    example, right, wrong = task.examples()
    assert [task.grade(text, example).answer for text in (right, wrong)] == [True, False]
