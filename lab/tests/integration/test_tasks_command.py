import argparse
import json

import pytest

from podslab.cli import tasks as command
from podslab.tasks import TASKS
from podsrl.errors import PodsError

MY_TASK = """
from podslab.tasks import Grade
from podslab.tasks import Task

class Echo(Task):
    name = "echo"
    summary = "say the answer"
    source = "here"
    example = {"question": "say a", "answer": "a"}
    example_right, example_wrong = "a", "b"
    splits = ("train",)

    def __init__(self, shout=False):
        self.shout = shout

    def load(self, split, path=None):
        return [{"question": f"say {c}", "answer": c} for c in "abc"]

    def grade(self, completion, row):
        return Grade(completion.strip().endswith(row["answer"]), True)

    def gold_completion(self, row):
        return row["answer"] if row["answer"] != BROKEN else "something else"
"""


def pods_tasks(*arguments):
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.run(parser.parse_args(arguments))


def write_gsm8k(folder, *answers):
    for split in ("train", "test"):
        lines = [json.dumps({"question": "q", "answer": f"so\n#### {a}"}) for a in answers]
        (folder / f"{split}.jsonl").write_text("\n".join(lines))
    return str(folder)


def test_the_list_names_every_task_with_its_splits(capsys):
    assert pods_tasks() == 0
    printed = capsys.readouterr().out
    for name in TASKS:
        assert f"\n{name} " in f"\n{printed}"


def test_a_check_that_passes_says_how_many_and_returns_0(tmp_path, capsys):
    assert pods_tasks("check", "gsm8k", "--data_path", write_gsm8k(tmp_path, 1, 2, "3,000")) == 0
    assert "train: 3 of 3 gold answers pass" in capsys.readouterr().out


def test_a_check_of_your_own_task_by_its_file_and_a_failure_returns_1(tmp_path, capsys):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(MY_TASK.replace("BROKEN", "None"))
    bad.write_text(MY_TASK.replace("BROKEN", "'b'"))
    assert pods_tasks("check", str(good)) == 0
    assert pods_tasks("check", str(bad), "--split", "train") == 1
    assert "2 of 3 gold answers pass" in capsys.readouterr().out


def test_a_check_of_which_one_split_cannot_be_read_returns_1(tmp_path, capsys):
    folder = write_gsm8k(tmp_path, 1, 2)
    (tmp_path / "train.jsonl").write_text('{"question": ')
    assert pods_tasks("check", "gsm8k", "--data_path", folder) == 1
    printed = capsys.readouterr().out
    assert "train: could not be read: " in printed
    assert "test: 2 of 2 gold answers pass" in printed


def test_a_check_whose_data_cannot_be_read_is_an_error_that_says_why(tmp_path):
    with pytest.raises(PodsError, match="'x' is not a number"):
        pods_tasks("check", "gsm8k", "--data_path", write_gsm8k(tmp_path, "x"))
    with pytest.raises(PodsError, match="unknown task"):
        pods_tasks("check", "gms8k")


def test_one_broken_split_fails_the_check_even_if_the_others_pass(tmp_path, capsys):
    folder = write_gsm8k(tmp_path, 1, 2)
    with (tmp_path / "train.jsonl").open("a") as file:
        file.write('\n{"question": ')
    assert pods_tasks("check", "gsm8k", "--data_path", folder) == 1
    printed = capsys.readouterr().out
    assert "train.jsonl, line 3: not JSON" in printed
    assert "test: 2 of 2 gold answers pass" in printed
