"""A folder of runs may hold what is no run; and a folder that can't be written to says so."""

from pathlib import Path
from typing import Any

import pytest

from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import RunFolder, find_runs


@pytest.mark.parametrize("text", ["name: hydra's\n", "- a\n- list\n", "{{ template }}\n", ""])
def test_a_foreign_config_below_a_folder_is_skipped_with_a_note(
    tmp_path: Path, caplog: Any, text: str
):
    RunFolder(tmp_path / "pods").write_config({"seed": 1, "arm": "pods"})
    foreign = tmp_path / "pods" / "wandb" / "files" / "config.yaml"
    foreign.parent.mkdir(parents=True)
    foreign.write_text(text)
    assert [run.path for run in find_runs(tmp_path)] == [tmp_path / "pods"]
    assert f"{foreign} is no run's" in caplog.text
    with pytest.raises(InvalidInputError, match="no run in"):
        find_runs(tmp_path / "pods" / "wandb")


def test_a_folder_that_cannot_be_written_to_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "run" / ".lock").mkdir(parents=True)  # as one that others may not open
    for folder, why in (("file", "File exists"), ("run", "Is a directory")):
        with pytest.raises(InvalidInputError, match=f"can't write to {tmp_path / folder}: {why}"):
            RunFolder(tmp_path / folder).lock()
