"""The door of a run's folder: new, resumed, or overwritten on purpose; never by accident."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.runs.folder import RunFolder

#: Keys that may differ between a run and its resumption.
MAY_CHANGE = frozenset(
    {
        *("resume", "overwrite", "resume_from_checkpoint", "output_dir", "logging_dir", "run_name"),
        *("max_steps", "num_train_epochs", "max_training_seconds", "report_to", "disable_tqdm"),
        *("max_rollouts", "max_tokens", "evaluations", "processes"),
        *("save_steps", "save_strategy", "save_total_limit", "logging_steps", "logging_strategy"),
        *("evaluation_steps", "evaluation_seconds", "use_cpu", "data_path", "evaluation_path"),
    }
)


def open_output(path: Path, config: Mapping[str, Any], resume: bool, overwrite: bool) -> RunFolder:
    """The folder of a run that may start now.

    Args:
        path: the run's folder.
        config: the settings it is to run with.
        resume: go on with the run that is there.
        overwrite: delete the run that is there.

    Raises:
        InvalidInputError: the folder holds another run, or files that are no run's, or a run with
            other settings.
    """
    run = RunFolder(path)
    holds_run = (path / "config.yaml").is_file()
    if resume and holds_run:
        _refuse_other_settings(run, config)
        return run
    if holds_run and overwrite:
        shutil.rmtree(path)
        return run
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        what = "another run" if holds_run else "files that are not a run's"
        ways = "--resume to go on with it, --overwrite to delete it, or " if holds_run else ""
        raise InvalidInputError(f"{path} holds {what}: {ways}choose a new --output_dir")
    return run


def _refuse_other_settings(run: RunFolder, config: Mapping[str, Any]) -> None:
    before = run.config()
    changed = [
        f"{key}: {before[key]!r} -> {config[key]!r}"
        for key in before
        if key in config and key not in MAY_CHANGE and before[key] != config[key]
    ]
    if changed:
        raise InvalidInputError(
            f"the run in {run.path} has other settings, and can't be resumed with these:"
            f" {'; '.join(changed)}. Give it those that it had (after an upgrade: the versions in"
            " its environment.json), or delete the folder to start again"
        )
