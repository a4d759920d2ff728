"""Fixtures of all tests here."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.comparisons import comparison
from support.tiny_run import TINY_RUN

__all__ = ["comparison"]


@pytest.fixture
def config(tiny_model: Path, tmp_path: Path) -> Any:
    """config(field=value, ...): the path of a YAML file for a run of seconds."""

    def write(**fields: Any) -> str:
        path = tmp_path / "config.yaml"
        model = {"model_name_or_path": str(tiny_model), "output_dir": str(tmp_path / "run")}
        path.write_text(yaml.safe_dump({**TINY_RUN, **model, **fields}))
        return str(path)

    return write
