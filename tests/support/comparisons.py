"""A comparison of runs that take seconds."""

from pathlib import Path
from typing import Any

import pytest

BASE: dict[str, Any] = {
    "task": "arithmetic",
    "task_options": {"min_columns": 2, "max_columns": 2, "train_size": 64, "test_size": 8},
    "num_rollouts": 8,
    "num_generations": 4,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 1,
    "max_completion_length": 24,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "constant",
    "save_strategy": "no",
    "evaluation_problems": 4,
    "report_to": "none",
    "use_cpu": True,
    "bf16": False,
}
THREE: dict[str, Any] = {"grpo": {}, "grpo_ga": {}, "pods": {}}


@pytest.fixture
def comparison(tiny_model: Path, tmp_path: Path) -> Any:
    """comparison(key=value, ..., field={...}): the mapping of a comparison of seconds."""

    def make(settings: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
        own = {"model_name_or_path": str(tiny_model), **(settings or {})}
        return {
            "settings": {**BASE, **own},
            "arms": THREE,
            "seeds": 1,
            "budget": {"steps": 2},
            "evaluations": 2,
            "output_dir": str(tmp_path / "runs"),
            **keys,
        }

    return make
