"""A run of the API is a run: what `PODSTrainer` writes by itself, and never deletes."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from podsrl.errors import InvalidInputError, RewardError
from podsrl.rollout_log.run_folder import RunFolder, find_runs
from podsrl.trl import messages
from podsrl.trl.checkpoint import last_complete
from support.trl_runs import digits, logged


def run_of(trainer: Any) -> RunFolder:
    return RunFolder(Path(trainer.args.output_dir))


@pytest.mark.parametrize(("n", "arm"), [(8, "pods"), (4, "grpo")])
def test_the_trainer_alone_writes_all_files_of_a_run(make_trainer, n, arm):
    trainer = make_trainer(n)
    trainer.train()
    run = run_of(trainer)

    config = run.config()
    assert (config["arm"], config["seed"], config["task"]) == (arm, 7, None)
    assert (config["num_rollouts"], config["num_generations"]) == (n, 4)
    assert config["reward_functions"] == ["digits"]
    assert "tiny-" in config["model_name_or_path"]
    assert run.environment()["versions"]["trl"]

    assert [row["step"] for row in run.metrics()] == [1, 2]
    assert [row["reward"] for row in run.metrics()] == [row["reward"] for row in logged(trainer)]
    assert run.rollout_steps() == [1, 2]

    finished = run.finished()
    assert finished is not None
    assert (finished["arm"], finished["seed"], finished["steps"]) == (arm, 7, 2)
    assert finished["training_seconds"] == trainer.pods.clock.training_seconds > 0


def test_the_datasets_answer_stands_beside_each_rollout(make_trainer, dataset):
    assert "answer" in dataset.column_names
    with_answer = make_trainer(8, "with", max_steps=1)
    with_answer.train()
    table = run_of(with_answer).rollouts(1)
    asked = dict(zip((p[-1]["content"] for p in dataset["prompt"]), dataset["answer"], strict=True))
    for prompt, answer in zip(*(table[c].to_pylist() for c in ("prompt", "answer")), strict=True):
        (question,) = [q for q in asked if q in prompt]
        assert answer == str(asked[question])
    without = make_trainer(8, "without", data=dataset.remove_columns("answer"), max_steps=1)
    without.train()
    assert run_of(without).rollouts(1)["answer"].null_count == 16


def test_a_run_that_ends_by_an_error_leaves_all_rollouts_that_it_scored(make_trainer):
    asked = []

    def fails_late(completions: list[Any], **kwargs: Any) -> list[float]:
        asked.append(len(completions))
        if len(asked) == 3:
            raise OSError("the grader is down")
        return digits(completions)

    trainer = make_trainer(8, reward_funcs=fails_late, max_steps=4)
    with pytest.raises(RewardError):
        trainer.train()
    run = run_of(trainer)
    assert run.rollout_steps() == [1, 2]
    assert run.rollouts(2).num_rows == 16


def test_a_log_that_can_not_be_written_loses_no_checkpoint_and_the_next_run_has_one(
    make_trainer, monkeypatch, caplog
):
    def full(run: RunFolder, *args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "write_rollouts", full)
    trainer = make_trainer(8, max_steps=2, save_strategy="steps", save_steps=1)
    trainer.train()
    assert "No space left on device; rollout_log=False" in caplog.text
    assert last_complete(trainer.args.output_dir).name == "checkpoint-2"
    assert run_of(trainer).rollout_steps() == []

    monkeypatch.undo()
    trainer.train()  # the log is another one
    assert run_of(trainer).rollout_steps() == [1, 2]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_relative_to(folder / "previous-1")
    }


@pytest.mark.slow
def test_a_second_training_in_a_used_folder_keeps_the_first_ones_records(make_trainer, caplog):
    first = make_trainer(8, max_steps=2)
    first.train()
    folder = Path(first.args.output_dir)
    before = contents(folder)
    assert len(before) == 6  # config, environment, metrics, two steps of rollouts, finished

    def fails(completions: list[Any], **kwargs: Any) -> list[float]:
        raise OSError("the grader is down")

    with pytest.raises(RewardError):  # in its first step
        make_trainer(8, reward_funcs=fails, max_steps=2).train()
    assert contents(folder / "previous-1") == before
    assert f"{folder} was used before" in caplog.text
    assert str(folder / "previous-1") in caplog.text

    third = make_trainer(8, max_steps=1)  # the failed one recorded nothing to be kept
    third.train()
    assert contents(folder / "previous-1") == before
    assert not (folder / "previous-2").exists()

    third.train()  # the same trainer again
    assert RunFolder(folder / "previous-2").rollout_steps() == [1]
    assert RunFolder(folder).rollout_steps() == [1]

    (counted,) = RunFolder(folder).metrics()  # from 0 again: 2 prompts with 8 rollouts each
    assert counted["pods/rollouts_generated"] == 16
    spent = [value for name, value in counted.items() if name.startswith("pods/seconds_")]
    assert counted["pods/training_seconds"] == pytest.approx(sum(spent))

    assert [run.path for run in find_runs(folder)] == [folder]
    assert [run.path for run in find_runs(folder / "previous-1")] == [folder / "previous-1"]


def unconfigure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logging as a plain script finds it, without the handlers that pytest adds to every test."""
    ours = logging.getLogger("podsrl")
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(ours, "handlers", [])
    monkeypatch.setattr(ours, "level", logging.NOTSET)
    ours.manager._clear_cache()


def test_a_plain_script_sees_what_was_selected_once(make_trainer, monkeypatch, capsys):
    unconfigure(monkeypatch)
    make_trainer(8).train()
    said = [line for line in capsys.readouterr().err.splitlines() if "podsrl: " in line]
    assert len(said) == 1
    assert said[0].endswith(
        "podsrl: method pods: selected 4 of 8 in 2 groups; the update sees 8 rows; rows with"
        " advantage 0 are skipped"
    )


def test_where_logging_is_configured_it_alone_decides(monkeypatch, capsys):
    unconfigure(monkeypatch)
    messages.show_messages()
    messages.show_messages()
    assert len(logging.getLogger("podsrl").handlers) == 1
    logging.getLogger("podsrl.trl").info("one")
    logging.getLogger().addHandler(logging.NullHandler())  # configured later
    logging.getLogger("podsrl.trl").info("two")
    assert capsys.readouterr().err == "podsrl: one\n"
    logging.getLogger("podsrl").handlers.clear()
    messages.show_messages()
    assert not logging.getLogger("podsrl").handlers


def test_an_evaluation_is_among_the_metrics_of_the_run(make_trainer, dataset):
    trainer = make_trainer(
        8,
        eval_dataset=dataset.select(range(4)),
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=8,
        num_generations_eval=2,
    )
    trainer.train()
    rows = run_of(trainer).metrics()
    assert [row["step"] for row in rows if "eval_reward" in row] == [1, 2]
    assert [row["step"] for row in rows if "pods/training_seconds" in row] == [1, 2]


@pytest.mark.parametrize("column", ["answer", "solution", "ground_truth", "label"])
def test_the_right_answer_is_recorded_by_the_names_that_datasets_have(
    make_trainer, dataset, column
):
    data = dataset if column == "answer" else dataset.rename_column("answer", column)
    trainer = make_trainer(8, data=data, max_steps=1)
    trainer.train()
    assert set(run_of(trainer).rollouts(1).to_pandas()["answer"]) <= set(dataset["answer"])


def with_more_columns(dataset):
    rows = range(len(dataset))
    columns = {
        "level": [row % 5 for row in rows],
        "source": ["a" * 3_000 for _ in rows],
        "hard": [row % 2 == 0 for row in rows],
        "share": [float("nan") if row == 0 else row / 8 for row in rows],
        "tags": [["x", "y"] for _ in rows],
    }
    for name, values in columns.items():
        dataset = dataset.add_column(name, values)
    return dataset


def test_what_the_dataset_says_of_a_prompt_is_recorded_within_bounds(make_trainer, dataset):
    trainer = make_trainer(8, data=with_more_columns(dataset), max_steps=1)
    trainer.train()
    recorded = [json.loads(text) for text in run_of(trainer).rollouts(1)["data"].to_pylist()]
    scalars = {*dataset.column_names, "level", "source", "hard", "share"} - {"prompt"}
    assert all(set(row) == scalars for row in recorded)  # and no list of tags
    assert {len(row["source"]) for row in recorded} == {1_003}  # and three dots
    assert {type(row["level"]) for row in recorded} == {int}
    assert {type(row["hard"]) for row in recorded} == {bool}


@pytest.mark.parametrize(
    ("chosen", "recorded"), [(["level"], ["level"]), (["hard", "level"], ["hard", "level"])]
)
def test_the_columns_to_record_can_be_chosen(make_trainer, dataset, chosen, recorded):
    trainer = make_trainer(
        8, data=with_more_columns(dataset), max_steps=1, rollout_log_columns=chosen
    )
    trainer.train()
    rows = run_of(trainer).rollouts(1)["data"].to_pylist()
    assert {tuple(json.loads(text)) for text in rows} == {tuple(recorded)}


def test_no_columns_are_recorded_where_none_is_chosen(make_trainer, dataset):
    trainer = make_trainer(8, data=dataset, max_steps=1, rollout_log_columns=[])
    trainer.train()
    assert run_of(trainer).rollouts(1)["data"].null_count == 16


@pytest.mark.parametrize(
    ("chosen", "says"),
    [(["answr"], "did you mean 'answer'"), ("answer", "must be a list"), ([1], "must be a list")],
)
def test_a_column_to_record_that_is_none_is_told(make_trainer, dataset, chosen, says):
    with pytest.raises(InvalidInputError, match=says):
        make_trainer(8, data=dataset, rollout_log_columns=chosen)
