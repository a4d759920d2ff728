"""The door of a run's folder: a start that fails leaves the disk as it was."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from podsrl.errors import InvalidInputError
from podslab.training.preflight import refuse_taken
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.rollout_log.files import missing_folders, remove_empty

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


class Start(TrainerCallback):
    """From the check of a run's folder to the end of its first step.

    What was in the folder is kept in or beside it until then, and put back if the start fails.

    Args:
        path: the run's folder.
        config: the settings it is to run with.
        resume: go on with the run that is there.
        overwrite: replace the run that is there.

    Raises:
        InvalidInputError: the folder can't be written to, or holds another run, or files that are
            no run's, or a run with other settings.
    """

    def __init__(
        self, path: Path, config: Mapping[str, Any], resume: bool, overwrite: bool
    ) -> None:
        refuse_taken(path, resume, overwrite)
        self._path, self._made = path, missing_folders(path)
        holds_run = (path / "config.yaml").is_file()
        self._resumes = holds_run and resume
        # to resume needs no rights beside the folder, such as where it is a mounted volume
        self._aside = path / ".before" if self._resumes else path.with_name(f".{path.name}.before")
        self.under_way = False
        if self._resumes:
            _refuse_other_settings(RunFolder(path), config)
        if holds_run:
            for left in (self._aside, path.with_name(f".{path.name}.before")):
                shutil.rmtree(left, ignore_errors=True)  # of a start that was killed
            if resume:  # a resumed run replaces these files, and writes into none of them
                skip = shutil.ignore_patterns("checkpoint-*")
                shutil.copytree(path, self._aside, copy_function=_link, ignore=skip)
            else:
                path.rename(self._aside)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The run is under way: what it replaces may go."""
        if not self.under_way:
            self.under_way = True
            shutil.rmtree(self._aside, ignore_errors=True)

    def __enter__(self) -> "Start":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Leave what was there before, if there was an error and the run is not under way."""
        if kind is None or self.under_way:
            shutil.rmtree(self._aside, ignore_errors=True)
        elif self._resumes:
            shutil.copytree(self._aside, self._path, copy_function=os.replace, dirs_exist_ok=True)
            shutil.rmtree(self._aside)
        else:
            shutil.rmtree(self._path, ignore_errors=True)
            if self._aside.exists():
                self._aside.rename(self._path)
            remove_empty(self._made)
            if not self._made and not self._path.exists():
                self._path.mkdir()  # an empty one was there


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # not on this file system
        shutil.copy2(source, target)


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
