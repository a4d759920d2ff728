"""A run that was killed goes on as if it had not been."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import checkpoint
from support.trl_runs import equal, straight_and_resumed, weights


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"num_iterations": 2, "steps_per_generation": 2, "gradient_accumulation_steps": 1},
        {"gradient_accumulation_steps": 2, "downsampling_rule": "random"},
        {"downsampling_rule": "max_contrast", "num_generations": 1, "num_iterations": 2},
    ],
)
def test_resuming_between_two_generations_continues_exactly(make_trainer, fields):
    straight, second = straight_and_resumed(make_trainer, 8, **fields)
    assert equal(weights(straight), weights(second))
    assert second.pods.state.rollouts_generated == straight.pods.state.rollouts_generated
    assert second.pods.clock.training_seconds > 0


@pytest.mark.slow
def test_resuming_in_a_later_epoch_draws_the_prompts_that_it_would_have(make_trainer, dataset):
    fields = {"data": dataset.select(range(6)), "max_steps": 8}  # 3 steps per epoch
    straight = make_trainer(8, "straight", save_strategy="steps", save_steps=1, **fields)
    straight.train()
    for step in (3, 5):
        again = make_trainer(8, f"from-{step}", **fields)
        stopped = Path(straight.args.output_dir) / f"checkpoint-{step}"
        again.train(resume_from_checkpoint=str(stopped))
        assert equal(weights(straight), weights(again)), step


def test_a_half_written_checkpoint_is_not_resumed_from(make_trainer):
    trainer = make_trainer(8, max_steps=2, save_strategy="steps", save_steps=1)
    trainer.train()
    folder = Path(trainer.args.output_dir)
    assert checkpoint.last_complete(folder) == folder / "checkpoint-2"
    (folder / "checkpoint-2" / "pods_state_0.pt").unlink()
    assert checkpoint.last_complete(folder) == folder / "checkpoint-1"
    again = make_trainer(8, max_steps=2)
    again.train(resume_from_checkpoint=True)
    assert equal(weights(again), weights(trainer))


@pytest.mark.slow
def test_with_other_micro_batches_a_resumed_run_generates_before_each_step(make_trainer):
    """As many rows in smaller micro-batches, as one does who is out of memory."""
    first = make_trainer(8, max_steps=3, save_strategy="steps", save_steps=1)
    first.train()
    halves = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    again = make_trainer(8, max_steps=3, **halves)
    stopped = Path(first.args.output_dir) / "checkpoint-1"
    again.train(resume_from_checkpoint=str(stopped))
    assert again.pods.state.rollouts_generated == first.pods.state.rollouts_generated
    assert again._step % again.args.steps_per_generation == 0


def test_a_checkpoint_of_another_buffer_generates_first(make_trainer):
    """Its rows were cut into other parts than this run takes."""
    first = make_trainer(8, max_steps=2, num_iterations=2, save_strategy="steps", save_steps=1)
    first.train()
    folder = Path(first.args.output_dir)
    assert first.args.steps_per_generation == 1
    again = make_trainer(8, max_steps=2, num_iterations=2, steps_per_generation=2)
    again.train(resume_from_checkpoint=str(folder / "checkpoint-1"))
    assert again.state.global_step == 2
    assert again.pods.state.rollouts_generated > first.pods.state.rollouts_generated


def test_a_batch_that_can_not_be_saved_is_generated_anew(make_trainer, caplog):
    class Adds:
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            output = super()._generate_and_score_completions(inputs)
            return {**output, "lengths": list(np.ones(len(output["advantages"])))}

    fields = {"mixin": Adds, "max_steps": 2, "num_iterations": 2}
    first = make_trainer(8, save_strategy="steps", save_steps=1, **fields)
    first.train()
    assert "a batch holds a float64: a resumed run generates them anew" in caplog.text
    again = make_trainer(8, **fields)
    again.train(resume_from_checkpoint=str(Path(first.args.output_dir) / "checkpoint-1"))
    assert again.state.global_step == 2
    assert again.pods.state.rollouts_generated > first.pods.state.rollouts_generated


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"beta": 0.1}, ["beta 0.0 -> 0.1"]),
        ({"num_rollouts": 12}, ["num_rollouts 8 -> 12"]),
        ({"scale_rewards": "none"}, ["scale_rewards 'group' -> 'none'"]),
        ({"temperature": 0.7}, ["temperature 1.0 -> 0.7"]),
        ({"loss_type": "dapo"}, ["loss_type 'grpo' -> 'dapo'"]),
        ({"learning_rate": 1e-4}, []),  # the same rows, another optimiser
        ({"max_grad_norm": 0.5, "weight_decay": 0.1}, []),
    ],
)
def test_rows_of_before_are_trained_on_only_where_they_fit_the_settings_of_now(
    make_trainer, caplog, fields, says
):
    """A checkpoint between the two passes of a generation, whose rows are still to be used."""
    first = make_trainer(8, max_steps=2, num_iterations=2, save_strategy="steps", save_steps=1)
    first.train()
    folder = Path(first.args.output_dir)

    again = make_trainer(fields.pop("num_rollouts", 8), max_steps=2, num_iterations=2, **fields)
    again.train(resume_from_checkpoint=str(folder / "checkpoint-1"))
    assert again.state.global_step == 2
    anew = [record.message for record in caplog.records if "are generated anew" in record.message]
    assert len(anew) == (1 if says else 0)
    for part in says:
        assert part in anew[0]

    has_generated = again.pods.state.rollouts_generated > first.pods.state.rollouts_generated
    assert has_generated == bool(says)
    # Whatever is learned otherwise now, the settings of step 1 are kept.
    assert (folder / "config-until-1.yaml").is_file()


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({"learning_rate": 1e-4}, True),
        ({"loss_type": "dapo"}, True),
        ({"max_steps": 3, "lr_scheduler_type": "linear"}, True),
        ({"max_steps": 3}, False),  # at a constant rate a longer run learns the same
        ({"logging_steps": 2, "save_steps": 2, "run_name": "again"}, False),
    ],
)
def test_a_resume_tells_every_setting_that_changes_what_is_learned(
    make_trainer, caplog, fields, is_told
):
    first = make_trainer(8, max_steps=2, save_strategy="steps", save_steps=1)
    first.train()
    folder = Path(first.args.output_dir)
    again = make_trainer(8, **{"max_steps": 2, **fields})
    again.train(resume_from_checkpoint=str(folder / "checkpoint-1"))

    told = [r.message for r in caplog.records if "with other settings" in r.message]
    assert len(told) == is_told
    assert (folder / "config-until-1.yaml").is_file() == is_told
    if is_told:
        assert all(name in told[0] for name in fields)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 half of one"])
def test_a_damaged_state_is_named_and_nothing_is_written(make_trainer, content):
    first = make_trainer(8, max_steps=2, save_strategy="steps", save_steps=1)
    first.train()
    folder = Path(first.args.output_dir)
    before = (folder / "config.yaml").read_bytes()
    (folder / "checkpoint-1" / "pods_state_0.pt").write_bytes(content)

    again = make_trainer(8, max_steps=2, learning_rate=1e-4)
    with pytest.raises(InvalidInputError, match=r"pods_state_0.pt is damaged .*: resume from anot"):
        again.train(resume_from_checkpoint=str(folder / "checkpoint-1"))
    assert (folder / "config.yaml").read_bytes() == before


def test_a_run_that_went_back_is_resumed_from_its_own_newest_checkpoint(make_trainer):
    first = make_trainer(8, max_steps=3, save_strategy="steps", save_steps=1)
    first.train()
    folder = Path(first.args.output_dir)
    back = make_trainer(8, max_steps=2, save_strategy="steps", save_steps=1)
    back.train(resume_from_checkpoint=str(folder / "checkpoint-1"))
    assert checkpoint.last_complete(folder) == folder / "checkpoint-2"
    assert (folder / "previous-1" / "checkpoint-3").is_dir()


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
    (oldest,) = RunFolder(folder).rollout_parts(1)
    before = oldest.read_bytes()
    make_trainer(8, **saving).train(resume_from_checkpoint=str(kept))
    assert RunFolder(folder).rollout_steps() == [1, 2, 3]
    assert [row["step"] for row in RunFolder(folder).metrics()] == [1, 2, 3]
    assert oldest.read_bytes() == before
    assert [path.name for path in (folder / "previous-1").iterdir()] == ["checkpoint-3"]


def test_a_second_train_generates_anew_where_the_first_ended_within_a_generation(make_trainer):
    trainer = make_trainer(8, max_steps=1, steps_per_generation=2, gradient_accumulation_steps=1)
    trainer.train()
    once = trainer.pods.state.rollouts_generated
    trainer.train()
    assert trainer.pods.state.rollouts_generated == once > 0
