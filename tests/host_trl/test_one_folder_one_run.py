"""A folder holds the records and the checkpoints of one run, written by one process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl.checkpoint import last_complete
from support.trl_runs import digits

SAVING: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1}
HOLD = """
import os, sys
from podsrl.rollout_log.run_folder import RunFolder
RunFolder(sys.argv[1]).lock()
if not os.fork():
    print("locked", flush=True)
    os.close(1)
sys.stdin.read()  # the child outlives a killed run, as processes that grade do
"""


def steps_of(folder: Path) -> list[int]:
    return [row["step"] for row in RunFolder(folder).metrics()]


@pytest.mark.slow
def test_checkpoints_move_with_the_records_so_that_none_of_another_run_is_resumed_from(
    make_trainer,
):
    first = make_trainer(8, max_steps=4, save_strategy="steps", save_steps=4)
    first.train()
    folder = Path(first.args.output_dir)
    make_trainer(8, max_steps=2).train()  # anew, and killed before it saved

    moved = folder / "previous-1" / "checkpoint-4"
    assert not list(folder.glob("checkpoint-*"))
    assert last_complete(folder) is None
    assert last_complete(folder / "previous-1") == moved

    with pytest.raises(ValueError, match="No valid checkpoint"):
        make_trainer(8, max_steps=6).train(resume_from_checkpoint=True)
    assert steps_of(folder) == [1, 2]

    # by its path it is refused, and nothing recorded is lost
    with pytest.raises(InvalidInputError, match="of another run than the one recorded"):
        make_trainer(8, max_steps=6).train(resume_from_checkpoint=str(moved))
    assert steps_of(folder) == [1, 2]

    # in a folder of its own it may go on, twice
    for _ in range(2):
        other = make_trainer(8, "other", max_steps=5)
        other.train(resume_from_checkpoint=str(moved))
        assert steps_of(Path(other.args.output_dir)) == [5]


def test_checkpoints_that_no_run_recorded_move_too(make_trainer):
    plain = make_trainer(None, max_steps=2, **SAVING)
    plain.train()
    folder = Path(plain.args.output_dir)
    make_trainer(8, max_steps=1).train()

    moved = {path.name for path in (folder / "previous-1").glob("checkpoint-*")}
    assert moved == {"checkpoint-1", "checkpoint-2"}


def test_what_an_earlier_version_began_is_resumed(make_trainer):
    first = make_trainer(8, max_steps=2, **SAVING)
    first.pods.recorder.run_id = None
    first.train()
    folder = Path(first.args.output_dir)
    environment = folder / "environment.json"
    environment.write_text(environment.read_text().replace('"run"', '"unknown"'))
    for saved in folder.glob("checkpoint-*/pods_state_0.pt"):
        saved.unlink()  # as of plain TRL

    for _ in range(2):
        again = make_trainer(8, max_steps=3)
        again.train(resume_from_checkpoint=str(folder / "checkpoint-2"))
        assert steps_of(folder) == [1, 2, 3]


def test_a_folder_that_another_process_writes_to_is_refused_until_that_has_ended(make_trainer):
    trainer = make_trainer(8, max_steps=1)
    folder = Path(trainer.args.output_dir)
    holder = hold(folder)

    with pytest.raises(InvalidInputError) as caught:
        trainer.train()
    assert f"being written to by process {holder.pid} on {os.uname().nodename}" in str(caught.value)
    assert not (folder / "config.yaml").exists()
    with pytest.raises(InvalidInputError, match="being written to"):
        trainer.train()  # the first one did not take the lock away

    holder.kill()  # it leaves its lock's file and a process behind
    holder.wait()
    assert (folder / ".podsrl.lock").exists()
    trainer.train()
    assert steps_of(folder) == [1]
    assert not (folder / ".podsrl.lock").exists()  # another process may report or go on
    trainer.train()
    holder.communicate()


@pytest.mark.parametrize("holds", ["config", "config and a checkpoint"])
def test_a_config_of_the_users_own_in_the_output_dir_is_not_overwritten(make_trainer, holds):
    trainer = make_trainer(8, max_steps=1, save_strategy="no")
    folder = Path(trainer.args.output_dir)
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text("learning_rate: 1.0e-6\n")
    if holds != "config":
        (folder / "checkpoint-7").mkdir()
        (folder / "checkpoint-7" / "model.bin").write_text("weights")

    before = sorted(folder.rglob("*"))
    with pytest.raises(InvalidInputError, match=r"config.yaml would be overwritten.*output_dir"):
        trainer.train()
    assert (folder / "config.yaml").read_text() == "learning_rate: 1.0e-6\n"
    assert sorted(folder.rglob("*")) == before

    (folder / "config.yaml").rename(folder / "mine.yaml")
    trainer.train()
    assert steps_of(folder) == [1]


def hold(folder: Path) -> subprocess.Popen[str]:
    """Another process that has the lock of a folder."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    return holder


def test_a_folder_stays_locked_when_its_own_process_reads_the_lock(tmp_path):
    """As a copy or an upload of the folder does."""
    run = RunFolder(tmp_path)
    run.lock()
    assert f"process {os.getpid()}" in (tmp_path / ".podsrl.lock").read_text()
    run.lock()  # `pods train` begins before the trainer does

    other = [sys.executable, "-c", HOLD, str(tmp_path)]
    refused = subprocess.run(other, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert f"being written to by process {os.getpid()}" in refused.stderr
    with pytest.raises(InvalidInputError, match="being written to"):
        RunFolder(tmp_path).lock()

    run.unlock()
    RunFolder(tmp_path).lock()


def test_a_resume_with_other_settings_is_told_and_the_earlier_ones_stay(make_trainer, caplog):
    def odd(completions: list[Any], **kwargs: Any) -> list[float]:
        return [2 * reward for reward in digits(completions)]

    fields = {"max_steps": 3, **SAVING}
    first = make_trainer(8, **fields)
    first.train()
    folder = Path(first.args.output_dir)

    same = make_trainer(8, **fields)
    same.train(resume_from_checkpoint=str(folder / "checkpoint-2"))
    assert "other settings" not in caplog.text

    other = make_trainer(
        12,
        reward_funcs=[digits, odd],
        reward_weights=[1.0, 0.5],
        downsampling_rule="max_reward",
        **fields,
    )
    other.train(resume_from_checkpoint=str(folder / "checkpoint-2"))

    (said,) = [record.message for record in caplog.records if "other settings" in record.message]
    assert "goes on after step 2" in said
    assert "num_rollouts 8 -> 12" in said
    assert "downsampling_rule 'max_variance' -> 'max_reward'" in said
    assert "reward_weights [1.0] -> [1.0, 0.5]" in said
    assert "reward_functions ['digits'] -> ['digits', 'odd']" in said
    assert "keeps the earlier config" in said

    before = yaml.safe_load((folder / "config-until-2.yaml").read_text())
    assert (before["num_rollouts"], before["downsampling_rule"]) == (8, "max_variance")
    assert RunFolder(folder).config()["num_rollouts"] == 12


def test_steps_out_of_order_are_named(tmp_path):
    run = RunFolder(tmp_path)
    for step in (1, 2, 2, 3):
        run.append_metrics({"step": step, "pods/training_seconds": 1.0})
    with pytest.raises(InvalidInputError, match="has step 2 after step 2: several runs wrote"):
        run.metrics()
