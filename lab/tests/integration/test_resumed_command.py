"""`pods train`, killed and resumed, goes on as if it had not been."""

import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file

from podslab.evaluation.records import evaluations
from podsrl.cli import main
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import checkpoint
from support.forked import Forked, hold_after
from support.trl_runs import COMMON, equal


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
    straight = tmp_path / "straight"
    killed = tmp_path / "killed"
    command = ["train", "--config", str(config_file), "--output_dir"]
    assert main([*command, str(straight)]) == 0

    def until_step_4() -> int:
        hold_after(4)
        return main([*command, str(killed)])

    process = Forked(until_step_4, tmp_path / "log")
    process.wait_for(lambda: len(RunFolder(killed).metrics()) == 4)
    assert process.send(signal.SIGKILL) == -signal.SIGKILL
    assert checkpoint.last_complete(killed).name == "checkpoint-3"

    assert main([*command, str(killed)]) == 2
    assert "--resume to go on with it" in capsys.readouterr().err
    assert main([*command, str(killed), "--resume", "true"]) == 0

    name = "checkpoint-6/model.safetensors"
    assert equal(load_file(straight / name), load_file(killed / name))

    expected = RunFolder(straight)
    resumed = RunFolder(killed)
    assert [row["step"] for row in resumed.metrics()] == [1, 2, 3, 4, 5, 6]
    for row, expected_row in zip(resumed.metrics(), expected.metrics(), strict=True):
        assert row["reward"] == expected_row["reward"]
        assert row["pods/rollouts_generated"] == expected_row["pods/rollouts_generated"]

    assert [point.step for point in evaluations(resumed)] == [0, 2, 4, 6]
    for point, expected_point in zip(evaluations(resumed), evaluations(expected), strict=True):
        assert point.answer_accuracy == expected_point.answer_accuracy
    assert resumed.rollout_steps() == [1, 2, 3, 4, 5, 6]
