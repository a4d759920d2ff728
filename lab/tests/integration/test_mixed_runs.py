"""A folder that two processes wrote into: every command that reads it says so."""

from pathlib import Path
from typing import Any

import pytest

from podsrl.cli import main
from podsrl.rollout_log import files
from support.synthetic_runs import write_run


@pytest.mark.parametrize("verb", ["report", "recommend"])
def test_steps_out_of_order_end_a_command_in_one_line(tmp_path: Path, capsys: Any, verb: str):
    folder = tmp_path / "run"
    write_run(folder, "pods", 0, (0.1, 0.5))
    path = folder / "metrics.jsonl"
    rows = files.read_lines(path)
    for row in [*rows, *rows]:
        files.append_line(path, row)
    assert main([verb, str(folder), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{path} has step" in said
    assert "several runs wrote into this folder" in said
