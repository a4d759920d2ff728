"""The door of a run's folder: who may start there, and who may go on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podslab.checks import refuse_unwritable
from podsrl.errors import InvalidInputError, listed
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import checkpoint

#: Beginnings of keys that may differ between a run and its resumption.
MAY_CHANGE = (
    "data_path",
    "disable_tqdm",
    "evaluation_steps",
    "evaluations",
    "logging_",
    "max_steps",
    "max_training_seconds",
    "num_train_epochs",
    "output_dir",
    "processes",
    "report_to",
    "resume",
    "run_name",
    "save_",
    "use_cpu",
)


def refuse_taken(folder: Path, resume: bool) -> None:
    """Raise `InvalidInputError` for a folder that holds other things or can't be written to.

    A run that ended before its first step was logged may be started again.
    """
    refuse_unwritable(folder)
    holds_run = RunFolder(folder).is_run
    if holds_run and (resume or not RunFolder(folder).metrics()):
        return

    if folder.exists() and any(folder.iterdir()):
        what = "another run" if holds_run else "files that are not a run's"
        way = "--resume to go on with it, or " if holds_run else ""
        raise InvalidInputError(f"{folder} holds {what}: {way}choose a new --output_dir")


def refuse_own_config(config: str, folder: Path, resume: bool) -> None:
    """Refuse to start where the config that is read would be overwritten by the run's own.

    Args:
        config: The file, or the name of a shipped config.
        folder: Of the run.
        resume: Whether a run goes on, which has its own config there.

    Raises:
        InvalidInputError: It would be.
    """
    given = Path(config).expanduser()
    own = folder / "config.yaml"
    if not resume and given.is_file() and own.exists() and given.samefile(own):
        raise InvalidInputError(
            f"--config {config} is where the run would write its own: choose a new --output_dir, or"
            " --resume to go on with the run in that folder"
        )


def where_to_resume(run: RunFolder, config: Mapping[str, Any]) -> Path | None:
    """The last complete checkpoint of a run; None if it ended before it logged a step.

    Raises:
        InvalidInputError: It has other settings than `config`, or steps and no checkpoint.
    """
    if not (run.path / "config.yaml").is_file():
        return None
    _refuse_other_settings(run, config)

    last = checkpoint.last_complete(run.path)
    if last is None and run.metrics():
        raise InvalidInputError(
            f"{run.path} has steps but no complete checkpoint to resume from: delete the folder to"
            " start again"
        )
    return last


def _refuse_other_settings(run: RunFolder, config: Mapping[str, Any]) -> None:
    before = run.config()
    changed = [
        f"{key}: {before[key]!r} -> {config[key]!r}"
        for key in before
        if key in config and not key.startswith(MAY_CHANGE) and before[key] != config[key]
    ]
    if changed:
        raise InvalidInputError(
            f"the run in {run.path} has other settings, and can't be resumed with these:"
            f" {listed(changed)}. Give it those that it had, in its config.yaml (after an upgrade:"
            " the versions in its environment.json), or delete the folder to start again"
        )
