import json

import pytest

from podslab.tasks import TASKS, get_task
from podsrl.cli import main
from podsrl.errors import InvalidInputError


def pods_tasks(*arguments):
    return main(["tasks", *arguments])


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


def test_a_check_whose_data_cannot_be_read_is_an_error_that_says_why(tmp_path, capsys):
    assert pods_tasks("check", "gsm8k", "--data_path", write_gsm8k(tmp_path, "x")) == 2
    assert "'x' is not a number" in capsys.readouterr().err
    assert pods_tasks("check", "gms8k") == 2
    assert "unknown task" in capsys.readouterr().err
    assert pods_tasks("check", "gsm8k", "--data_pth", "x") == 2
    assert "--data_path" in capsys.readouterr().err  # what was meant


def test_one_broken_split_fails_the_check_even_if_the_others_pass(tmp_path, capsys):
    folder = write_gsm8k(tmp_path, 1, 2)
    with (tmp_path / "train.jsonl").open("a") as file:
        file.write('\n{"question": ')
    assert pods_tasks("check", "gsm8k", "--data_path", folder) == 1
    printed = capsys.readouterr().out
    assert "train: could not be read: " in printed
    assert "train.jsonl, line 3: not JSON" in printed
    assert "test: 2 of 2 gold answers pass" in printed
    assert pods_tasks("check", "gsm8k", "--data_path", folder, "--split", "test") == 0
    assert "train" not in capsys.readouterr().out


def test_a_name_that_is_nearly_a_task_is_asked_back(capsys):
    assert pods_tasks("check", "GSM8K") == 2
    assert "did you mean 'gsm8k'" in capsys.readouterr().err
    assert pods_tasks("check", "reasoning_gym:chain_sums") == 2
    said = capsys.readouterr().err
    assert "did you mean 'chain_sum'" in said
    assert len(said) < 200


def test_solutions_of_gsm8k_are_not_taken_for_the_answers_of_math(tmp_path, capsys):
    folder = write_gsm8k(tmp_path, 1, 2)
    assert pods_tasks("check", "math", "--split", "test", "--data_path", folder) == 2
    assert "read it with the task gsm8k" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gsm8k", "--split", ""], "has no split ''"),
        (["gsm8k", "--data_path", ""], "the path of the data is empty"),
        (["./own.py"], "Mine, which lacks grade and load"),
    ],
)
def test_a_word_that_is_empty_or_a_task_that_is_half_written_is_named(
    tmp_path, monkeypatch, capsys, words, said
):
    monkeypatch.chdir(tmp_path)
    source = 'from podslab.tasks import Task\n\n\nclass Mine(Task):\n    name = "mine"\n'
    (tmp_path / "own.py").write_text(source)
    assert pods_tasks("check", *words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("deadline", [-1, 0, "x", True, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["math", "reasoning_gym"])
def test_a_deadline_that_is_no_time_is_refused(name, deadline):
    with pytest.raises(InvalidInputError, match="deadline must be a number of seconds above 0"):
        get_task(name, deadline=deadline)


@pytest.mark.parametrize("folder", ["", "config.yaml"])
def test_a_report_of_what_is_no_folder_names_what_was_given(tmp_path, monkeypatch, capsys, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("task: arithmetic\n")
    assert main(["report", folder]) == 2
    assert f"{folder!r} is no folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]
