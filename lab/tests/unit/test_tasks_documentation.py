"""docs/laboratory.md says what is right and wrong and shows a task of one's own: both are tried."""

import ast
import json
import re
from pathlib import Path

import pytest

from podsgrading.extract import declared_answer
from podsgrading.math.answers import compare_quickly, equal_structures
from podslab import tasks
from podslab.tasks import TASKS
from podsrl.cli import main

PAGE = (Path(__file__).parents[3] / "docs" / "laboratory.md").read_text(encoding="utf-8")


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


def printed(kind, folder):
    """What the section on your own task prints in that language, in a file of its name."""
    section = PAGE.split("## Your own task")[1]
    names = {"python": "capitals.py", "json": "capitals.jsonl", "yaml": "capitals.yaml"}
    (folder / names[kind]).write_text(section.split(f"```{kind}\n")[1].split("```")[0])


def test_the_task_on_the_page_passes_its_check_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    printed("python", tmp_path)
    printed("json", tmp_path)
    assert main(["tasks", "check", "./capitals.py"]) == 0
    said = capsys.readouterr().out
    assert "train: 4 of 4 gold answers pass" in said
    assert "test: 2 of 2 gold answers pass" in said


def test_the_task_on_the_page_imports_nothing_internal(tmp_path):
    printed("python", tmp_path)
    tree = ast.parse((tmp_path / "capitals.py").read_text())
    (imported,) = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert imported.module == "podslab.tasks"
    assert {alias.name for alias in imported.names} <= set(tasks.__all__)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch and transformers
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of TRL
@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch: no pinned memory on a CPU
def test_the_task_on_the_page_trains_as_printed(tmp_path, monkeypatch, tiny_model):
    pytest.importorskip("trl")
    monkeypatch.chdir(tmp_path)
    for kind in ("python", "json", "yaml"):
        printed(kind, tmp_path)
    (tmp_path / "model").symlink_to(tiny_model)
    assert main(["train", "--config", "capitals.yaml"]) == 0
    lines = (tmp_path / "runs" / "capitals" / "metrics.jsonl").read_text().splitlines()
    assert sum("rewards/correctness/mean" in json.loads(line) for line in lines) == 2
