"""Fixtures of all tests here."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.tiny_run import TINY_RUN

BASE: dict[str, Any] = {
    **{name: value for name, value in TINY_RUN.items() if name != "max_steps"},  # the budget's
    "task_options": {**TINY_RUN["task_options"], "train_size": 64},
    "per_device_train_batch_size": 4,
    "max_completion_length": 24,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "constant",
    "save_strategy": "no",
}
THREE: dict[str, Any] = {"grpo": {}, "grpo_ga": {}, "pods": {}}


@pytest.fixture
def config(tiny_model: Path, tmp_path: Path) -> Any:
    """config(field=value, ...): the path of a YAML file for a run of seconds."""

    def write(**fields: Any) -> str:
        path = tmp_path / "config.yaml"
        model = {"model_name_or_path": str(tiny_model), "output_dir": str(tmp_path / "run")}
        path.write_text(yaml.safe_dump({**TINY_RUN, **model, **fields}))
        return str(path)

    return write


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
