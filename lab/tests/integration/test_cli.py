"""The command `pods` as a user types it."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from podslab.evaluation.records import evaluations
from podslab.training.run_arguments import RunArguments
from podsrl.cli import main
from podsrl.rollout_log.run_folder import RunFolder
from support.data import SAMPLE
from support.tiny_run import TINY_RUN

pytest.importorskip("trl")


GSM8K = SAMPLE / "gsm8k"


def test_a_reader_that_goes_away_ends_a_command_quietly(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "podsrl.cli", "tasks"]
    out = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False
    )
    os.close(writer)
    assert (out.returncode, out.stderr) == (141, "")


def test_help_lists_the_verbs_without_importing_torch():
    code = (
        "import sys; from podsrl.cli import main\n"
        "for words in (['--help'], ['train', '--help']):\n"
        "    try: main(words)\n"
        "    except SystemExit: pass\n"
        "print([m for m in ('torch', 'transformers', 'trl') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    verbs = ("demo", "train", "recommend", "compare", "evaluate", "report", "tasks", "select")
    for verb in verbs:
        assert f"\n    {verb} " in out.stdout
    for field in dataclasses.fields(RunArguments):
        assert f"\n  --{field.name} " in out.stdout
    assert out.stdout.strip().endswith("[]")


def test_train_leaves_a_run_that_evaluate_can_measure(config, capsys, tmp_path):
    assert main(["train", "--config", config(), "--learning_rate", "1e-3"]) == 0
    printed = capsys.readouterr().out
    assert "2 prompts x 8 rollouts = 16 rollouts" in printed
    assert "keep        4 of 8 per prompt by max_variance: the update sees 8 rows" in printed
    assert "after    answer" in printed

    run = RunFolder(tmp_path / "run")
    assert run.config()["learning_rate"] == 1e-3
    assert run.config()["num_rollouts"] == 8
    assert [row["step"] for row in run.metrics()] == [1, 2, 3]
    assert [e.step for e in evaluations(run)] == [0, 3]
    assert run.finished() is not None
    assert run.environment()["versions"]["torch"]

    table = run.rollouts(2)
    assert table is not None
    assert table.num_rows == 16

    checkpoint = str(tmp_path / "run" / "checkpoint-3")
    flags = ["--task", "arithmetic", "--task_options", json.dumps(TINY_RUN["task_options"])]
    flags += ["--repeats", "3", "--max_completion_length", "32", "--json"]
    assert main(["evaluate", checkpoint, *flags]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["problems"] == 8
    assert len(scores["answer_accuracy"]) == 3
    assert 0 <= min(scores["both_accuracy"]) <= max(scores["answer_accuracy"]) <= 1


def test_a_dry_run_prints_without_loading_anything(config, capsys):
    path = config(model_name_or_path="no/such-model", max_steps=-1, num_train_epochs=3)
    assert main(["train", "--config", path, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "the update sees 8 rows" in printed
    assert "length      3 epoch(s)" in printed


def test_a_dry_run_says_what_a_start_would_refuse(config, capsys, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert main(["train", "--config", config(), "--dry-run"]) == 2
    output = capsys.readouterr()
    assert "the update sees 8 rows" in output.out
    assert "holds files that are not a run's" in output.err


def test_gsm8k_trains_on_its_real_questions_and_is_evaluated(config, capsys, tmp_path):
    path = config(task="gsm8k", task_options={}, data_path=str(GSM8K), max_steps=3)
    assert main(["train", "--config", path]) == 0
    table = RunFolder(tmp_path / "run").rollouts(1)
    assert table is not None
    lines = (GSM8K / "train.jsonl").read_text(encoding="utf-8").splitlines()
    questions = {json.loads(line)["question"].strip() for line in lines}
    assert {prompt.strip() for prompt in table["prompt"].to_pylist()} <= questions

    checkpoint = str(tmp_path / "run" / "checkpoint-3")
    flags = ["--task", "gsm8k", "--data_path", str(GSM8K), "--problems", "4"]
    assert main(["evaluate", checkpoint, *flags, "--max_completion_length", "16"]) == 0
    assert "4 problems x 1" in capsys.readouterr().out


def fails(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must fail as a user's error; its one line, after any progress bar."""
    capsys.readouterr()
    assert main(argv) == 2
    err = capsys.readouterr().err.replace("\x1b[A", "\n")  # a bar below another moves up
    assert "Traceback" not in err
    lines = [line for line in err.splitlines() if line.startswith("pods ")]
    assert err.strip().splitlines()[-1:] == lines
    assert lines[0].startswith(f"pods {argv[0]}: ")
    return lines[0]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"num_generations": 16}, "num_generations=16 rollouts can't be kept of num_rollouts=8"),
        ({"num_generations": 0}, "num_generations=0; allowed: 2 <= m <= 8"),
        ({"num_generations": 1}, "num_generations=1; allowed: 2 <= m <= 8"),
        ({"num_rollouts": "many"}, "num_rollouts: invalid int value: 'many'"),
        ({"learning_rate": "fast"}, "learning_rate: invalid float value: 'fast'"),
        ({"bf16": "perhaps"}, "bf16"),
        ({"max_steps": [1, 2]}, "2: only a field that is a list takes many values"),
        ({"training_clock": "sun"}, "unknown training_clock 'sun'; allowed: wall, cpu"),
        ({"reward_weights": [1, 2]}, "has 3 reward functions: give one number for each"),
        ({"report_to": "wandb"}, "report_to wandb needs a package that is not installed"),
        (
            {"per_device_train_batch_size": 7},
            "rows per generation; got 7 rows: per_device_train_batch_size",
        ),
        ({"downsampling_rule": "best"}, "unknown rule 'best'"),
        ({"task": "sudoku"}, "unknown task 'sudoku'; the tasks are arithmetic, "),
        ({"task_options": {"digits": 3}}, "digits"),
        ({"model_name_or_path": "tiny", "tiny_options": {"nose": 1}}, "argument 'nose'"),
        ({"num_rollout": 8}, "unknown config key 'num_rollout'; did you mean 'num_rollouts'"),
        ({"evaluation_split": "dev"}, "no split 'dev'; it has train, test"),
        ({"evaluation_problems": -1}, "evaluation_problems must be 0 or more"),
        ({"model_name_or_path": None}, "model_name_or_path is missing"),
        ({"model_name_or_path": "no/such-model"}, "can't load the model 'no/such-model'"),
    ],
)
def test_a_wrong_setting_gets_one_clear_line_and_makes_nothing(
    config, capsys, tmp_path, fields, says
):
    assert says in fails(["train", "--config", config(**fields)], capsys)
    assert not (tmp_path / "run").exists()


def test_unknown_flags_and_missing_or_broken_configs_get_one_clear_line(config, capsys, tmp_path):
    path = config()
    said = fails(["train", "--config", path, "--seeds", "1"], capsys)
    assert "unknown flag 'seeds'; did you mean 'seed'?" in said
    assert "arithmetic" in fails(["train", "--config", "no-such-config"], capsys)
    (tmp_path / "broken.yaml").write_text("a: [1\nb")
    assert "is not YAML" in fails(["train", "--config", str(tmp_path / "broken.yaml")], capsys)
    (tmp_path / "list.yaml").write_text("- 1\n")
    assert "YAML mapping" in fails(["train", "--config", str(tmp_path / "list.yaml")], capsys)


def test_a_damaged_data_file_is_named_with_its_line(config, capsys, tmp_path):
    damaged = tmp_path / "train.jsonl"
    damaged.write_text('{"question": "1+1?", "answer": "#### 2"}\n{"question": ')
    data = {"task": "gsm8k", "task_options": {}, "data_path": str(damaged)}
    said = fails(["train", "--config", config(**data, evaluation_problems=0)], capsys)
    assert "train.jsonl, line 2" in said


def test_a_file_to_train_on_is_not_evaluated_on(config, capsys, tmp_path):
    (tmp_path / "train.jsonl").write_text('{"question": "1+1?", "answer": "#### 2"}\n')
    data = {"task": "gsm8k", "task_options": {}, "data_path": str(tmp_path / "train.jsonl")}
    said = fails(["train", "--config", config(**data)], capsys)
    assert "are problems to train on, too: name a folder with a file for each" in said


def test_a_folder_with_another_run_is_not_overwritten_by_accident(config, capsys, tmp_path):
    path = config(max_steps=1)
    assert main(["train", "--config", path]) == 0
    capsys.readouterr()
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}

    assert "--resume to go on with it" in fails(["train", "--config", path], capsys)
    said = fails(["train", "--config", path, "--resume", "true", "--num_rollouts", "16"], capsys)
    assert "num_rollouts: 8 -> 16" in said

    for left in (tmp_path / "run").glob("checkpoint-*/pods_state_*"):
        left.unlink()  # as if killed while saving
        before.pop(left)
    said = fails(["train", "--config", path, "--resume", "true"], capsys)
    assert "no complete checkpoint to resume from: delete the folder" in said
    assert before == {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    flags = ["--output_dir", str(tmp_path / "mine")]
    assert "files that are not a run's" in fails(["train", "--config", path, *flags], capsys)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_a_run_in_the_folder_where_one_is(config, capsys, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    train = ["train", "--config", config(max_steps=1, save_steps=1), "--output_dir", "."]
    assert main(train) == 0
    assert main([*train, "--resume", "--max_steps", "2"]) == 0
    assert [row["step"] for row in RunFolder(tmp_path / "here").metrics()] == [1, 2]


GRADER = """
from pathlib import Path
from podslab.tasks.arithmetic import Arithmetic as Base

class Mine(Base):
    name = "mine"

    def grade_batch(self, completions, rows):
        if Path({broken!r}).exists() and len(list(Path({run!r}).glob("rollouts/*"))) >= {after}:
            raise OSError("grader is down")
        return super().grade_batch(completions, rows)
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 2])
def test_a_run_that_a_failing_grader_stopped_goes_on_once_it_is_repaired(
    config, capsys, tmp_path, after
):
    broken = tmp_path / "broken"
    folder = tmp_path / "run"
    task = tmp_path / "mytask.py"
    task.write_text(GRADER.format(broken=str(broken), run=str(folder), after=after))
    train = ["train", "--config", config(task=str(task), save_steps=1, evaluation_problems=0)]

    broken.touch()
    said = fails(train, capsys)
    assert "mytask.py, line 10: grade_batch failed: OSError: grader is down" in said
    assert f"reward function 'correctness' failed at step {after + 1}" in said
    assert [row["step"] for row in RunFolder(folder).metrics()] == [1, 2][:after]

    broken.unlink()
    # nobody needs to tell that a run without a step may start again
    assert main([*train, "--resume"] if after else train) == 0
    assert [row["step"] for row in RunFolder(folder).metrics()] == [1, 2, 3]
    assert RunFolder(folder).rollout_steps() == [1, 2, 3]


@pytest.mark.slow
def test_a_run_that_had_spent_its_budget_is_finished_without_another_step(config, tmp_path):
    train = ["train", "--config", config(max_training_seconds=1e-6, max_steps=100)]
    assert main(train) == 0
    run = RunFolder(tmp_path / "run")
    before = run.metrics(), run.finished(), evaluations(run)
    assert [row["step"] for row in before[0]] == [1]
    (run.path / "finished.json").unlink()  # as if killed before that was written
    assert main([*train, "--resume"]) == 0
    assert (run.metrics(), run.finished(), evaluations(run)) == before


def test_evaluate_names_a_missing_model_task_or_split(capsys, tmp_path, tiny_model):
    (tmp_path / "empty").mkdir()
    said = fails(["evaluate", str(tmp_path / "empty"), "--task", "arithmetic"], capsys)
    assert "holds no model" in said
    assert "unknown task" in fails(["evaluate", str(tiny_model), "--task", "x"], capsys)
    flags = ["--task", "arithmetic", "--split", "dev"]
    assert "no split 'dev'" in fails(["evaluate", str(tiny_model), *flags], capsys)


def test_a_field_and_its_value_may_stand_apart_before_a_verbs_own_words(config, capsys):
    apart = fails(["train", "--config", config(), "--num_rollouts", "1"], capsys)
    assert "num_rollouts=1; allowed: at least 2" in apart
    assert apart == fails(["train", "--num_rollouts=1", "--config", config()], capsys)
