"""A run that was killed goes on as if it had not been."""

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file

from podsrl.cli import main
from podsrl.rollout_log import files
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import checkpoint
from support.forked import pods
from support.trl_runs import COMMON, equal, weights


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"num_iterations": 2, "steps_per_generation": 2, "gradient_accumulation_steps": 1},
        {"gradient_accumulation_steps": 2, "downsampling_rule": "random"},
        {"downsampling_rule": "max_contrast", "num_generations": 1, "num_iterations": 2},
    ],
)
def test_resuming_between_two_generations_continues_exactly(make_trainer, fields):
    straight = make_trainer(8, "straight", max_steps=5, **fields)
    straight.train()
    first = make_trainer(8, "stopped", max_steps=5, save_strategy="steps", save_steps=3, **fields)
    first.train()
    folder = Path(first.args.output_dir)
    shutil.rmtree(folder / "checkpoint-5")  # as if it had been killed before
    second = make_trainer(8, "stopped", max_steps=5, save_strategy="steps", save_steps=3, **fields)
    second.train(resume_from_checkpoint=str(checkpoint.last_complete(folder)))
    assert second.state.global_step == 5
    assert equal(weights(straight), weights(second))
    assert second.rollouts_generated == straight.rollouts_generated
    assert second.clock.training_seconds > 0


@pytest.mark.slow
def test_resuming_in_a_later_epoch_draws_the_prompts_that_it_would_have(make_trainer, dataset):
    fields = {"data": dataset.select(range(6)), "max_steps": 8}  # 3 steps per epoch
    straight = make_trainer(8, "straight", **fields)
    straight.train()
    saving = make_trainer(8, "stopped", save_strategy="steps", save_steps=1, **fields)
    saving.train()
    for step in (3, 5):
        again = make_trainer(8, f"from-{step}", **fields)
        stopped = Path(saving.args.output_dir) / f"checkpoint-{step}"
        again.train(resume_from_checkpoint=str(stopped))
        assert equal(weights(straight), weights(again)), step


def test_a_half_written_checkpoint_is_not_resumed_from(make_trainer):
    trainer = make_trainer(8, max_steps=2, save_strategy="steps", save_steps=1)
    trainer.train()
    folder = Path(trainer.args.output_dir)
    assert checkpoint.last_complete(folder) == folder / "checkpoint-2"
    (folder / "checkpoint-2" / "pods_state_0.pt").unlink()
    assert checkpoint.last_complete(folder) == folder / "checkpoint-1"


def test_rollouts_are_on_the_disk_before_their_checkpoint_counts(make_trainer, monkeypatch):
    trainer = make_trainer(8, max_steps=2, save_strategy="steps", save_steps=2)
    folder = Path(trainer.args.output_dir)
    waited: list[tuple[str, bool]] = []  # for which file, and whether the checkpoint counted
    make_durable = files.make_durable

    def recorded(path: Path) -> None:
        waited.append((path.name, checkpoint.last_complete(folder) is not None))
        make_durable(path)

    monkeypatch.setattr(files, "make_durable", recorded)
    trainer.train()
    assert waited == [("step_000001.parquet", False), ("step_000002.parquet", False)]
    assert checkpoint.last_complete(folder) is not None


@pytest.fixture
def config_file(tiny_model: Path, tmp_path: Path) -> Path:
    config: dict[str, Any] = {
        **COMMON,
        "task": "arithmetic",
        "task_options": {"min_columns": 2, "max_columns": 2, "train_size": 32, "test_size": 8},
        "model_name_or_path": str(tiny_model),
        "num_rollouts": 8,
        "max_steps": 6,
        "save_strategy": "steps",
        "save_steps": 3,
        "evaluation_problems": 4,
        "evaluation_steps": 2,
        "weight_decay": 0.1,
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.slow
def test_six_steps_straight_equal_three_then_kill_9_then_three(config_file, tmp_path, capsys):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    command = ["train", "--config", str(config_file), "--output_dir"]
    assert main([*command, str(straight)]) == 0
    process = pods([*command, str(killed)], tmp_path / "log")
    process.wait_for(lambda: checkpoint.last_complete(killed))
    assert process.send(signal.SIGKILL) == -signal.SIGKILL
    assert not (killed / "finished.json").exists()

    assert main([*command, str(killed)]) == 2
    assert "--resume to go on with it, --overwrite to delete it" in capsys.readouterr().err
    assert main([*command, str(killed), "--resume", "true"]) == 0

    name = "checkpoint-6/model.safetensors"
    assert equal(load_file(straight / name), load_file(killed / name))
    one, other = RunFolder(straight), RunFolder(killed)
    assert [row["step"] for row in other.metrics()] == [1, 2, 3, 4, 5, 6]
    for ours, theirs in zip(one.metrics(), other.metrics(), strict=True):
        assert ours["reward"] == theirs["reward"]
        assert ours["pods/rollouts_generated"] == theirs["pods/rollouts_generated"]
    assert [e.step for e in other.evaluations()] == [0, 2, 4, 6]
    assert [e.answer_accuracy for e in one.evaluations()] == [
        e.answer_accuracy for e in other.evaluations()
    ]
    assert other.rollout_steps() == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_ctrl_c_ends_after_a_whole_step_that_is_continued_exactly(config_file, tmp_path):
    """Every step has two micro-batches and one evaluation, into which the signals fall."""
    flags = ("--gradient_accumulation_steps", "2", "--evaluation_steps", "1", "--save_steps", "6")
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    one, other = RunFolder(straight), RunFolder(stopped)
    command = ["train", "--config", str(config_file), *flags, "--output_dir"]
    assert main([*command, str(straight)]) == 0

    resume: list[str] = []
    for made in (2, 4):
        process = pods([*command, str(stopped), *resume], tmp_path / f"log-{made}")
        process.wait_for(
            lambda made=made: (
                (stopped / "evaluations.jsonl").exists() and len(other.evaluations()) >= made
            )
        )
        assert process.send(signal.SIGINT) == 130, process.said()
        assert "stopping after this step; Ctrl-C again stops at once" in process.said()
        assert "is saved: resuming goes on from there" in process.said()
        last = checkpoint.last_complete(stopped)
        assert last is not None
        step = checkpoint.step_of(last)
        assert made - 1 <= step < 6
        assert other.evaluations()[-1].step == other.metrics()[-1]["step"] == step
        assert not (stopped / "finished.json").exists()
        resume = ["--resume", "true"]
    assert main([*command, str(stopped), *resume]) == 0

    name = "checkpoint-6/model.safetensors"
    assert equal(load_file(straight / name), load_file(stopped / name))
    assert [e.step for e in other.evaluations()] == [0, 1, 2, 3, 4, 5, 6]
    for ours, theirs in zip(one.metrics(), other.metrics(), strict=True):
        assert ours["pods/tokens_generated"] == theirs["pods/tokens_generated"]
    assert len(other.environment()["resumed"]) == 2


@pytest.mark.parametrize("writes", ["_save_optimizer_and_scheduler", "_save_rng_state"])
def test_a_run_killed_while_it_saves_keeps_the_checkpoint_before(make_trainer, writes):
    trainer = make_trainer(8, max_steps=3, save_strategy="steps", save_steps=1, save_total_limit=1)
    write = getattr(trainer, writes)

    def killed(folder: str) -> None:
        if folder.endswith("checkpoint-3"):
            raise KeyboardInterrupt
        write(folder)

    setattr(trainer, writes, killed)
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    folder = Path(trainer.args.output_dir)
    assert {path.name for path in folder.glob("checkpoint-*")} == {"checkpoint-2", "checkpoint-3"}
    last = checkpoint.last_complete(folder)
    assert last is not None
    assert last.name == "checkpoint-2"


def test_a_renamed_checkpoint_keeps_the_rollouts_before_it(make_trainer):
    saving = {"max_steps": 3, "save_strategy": "steps", "save_steps": 2}
    first = make_trainer(8, **saving)
    first.train()
    folder = Path(first.args.output_dir)
    kept = (folder / "checkpoint-2").rename(folder / "checkpoint-2-good")
    oldest = RunFolder(folder).rollout_path(1)
    before = oldest.read_bytes()
    make_trainer(8, **saving).train(resume_from_checkpoint=str(kept))
    assert RunFolder(folder).rollout_steps() == [1, 2, 3]
    assert [row["step"] for row in RunFolder(folder).metrics()] == [1, 2, 3]
    assert oldest.read_bytes() == before
    assert not (folder / "previous-1").exists()
