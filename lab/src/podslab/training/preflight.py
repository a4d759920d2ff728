"""Checks of a run before anything is made, and before torch is imported."""

import inspect
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from podsrl.downsampling import resolve_rule
from podsrl.errors import InvalidInputError, MissingDependencyError
from podslab.training import fields
from podslab.training.config_file import parse_options
from podsrl.rollout_log.files import refuse_unwritable
from podslab.tasks import Task
from podslab.tasks import get_task

#: The package that `report_to` needs, where it is not called like that.
_PACKAGES = {"azure_ml": "azureml", "flyte": "flytekit"}
#: What a run sets otherwise than TRL: its metrics are complete unless told otherwise.
RUN_DEFAULTS = {"logging_steps": 1}
_MODEL_FILES = ("config.json", "adapter_config.json")


def check_run(config: Mapping[str, Any], flags: Sequence[str] = ()) -> dict[str, Any]:
    """Check the settings of a run, its task, and what it reads; the value of every field.

    Raises:
        PodsError: something is wrong; the message says what is allowed.
    """
    values = fields.check({**RUN_DEFAULTS, **config}, flags)
    resolve_rule(values["downsampling_rule"])
    for name in ("data_path", "evaluation_path"):
        if values[name] is not None and not Path(values[name]).expanduser().exists():
            raise InvalidInputError(f"{name}: there is no {values[name]}")
    check_model(values["model_name_or_path"])
    _check_reporters(values["report_to"])
    rewards = reward_functions(task_of(values), values["form_reward"])
    weights = values["reward_weights"]
    if weights is not None and len(weights) != len(rewards):
        raise InvalidInputError(
            f"reward_weights has {len(weights)} numbers, and the task {values['task']!r} has"
            f" {len(rewards)} reward functions: give one number for each"
        )
    return values


def check_output(values: Mapping[str, Any]) -> None:
    """Check that a run with these values of its fields may start in its folder.

    Raises:
        InvalidInputError: see `refuse_taken`.
    """
    if os.environ.get("RANK", "0") == "0":  # of several processes one makes the folder
        folder = Path(values["output_dir"] or "trainer_output")
        refuse_taken(folder, values["resume"], values["overwrite"])


def task_of(values: Mapping[str, Any]) -> Task:
    """The task of a run.

    Args:
        values: `task`, `task_options`, `max_unscorable`, `train_split` and `evaluation_split`.

    Raises:
        PodsError: no such task, option or split.
    """
    task = get_task(values["task"], **parse_options(values["task_options"]))
    task.max_unscorable = values["max_unscorable"]
    for split in (values["train_split"], values["evaluation_split"]):
        check_split(task, values["task"], split)
    return task


def reward_functions(task: Task, form: str) -> list[Any]:
    """The task's reward functions; a task of the user's own may have `rewards()` without `form`."""
    if form == "wrong":
        return task.rewards()
    if "form" not in inspect.signature(task.rewards).parameters:
        raise InvalidInputError(
            f"form_reward: {form} is for tasks whose rewards() takes `form`; that of {task.name!r}"
            " does not. Leave form_reward out"
        )
    return task.rewards(form=form)


def check_split(task: Task, name: str, split: str) -> None:
    """Refuse a split that a task lacks.

    Raises:
        InvalidInputError: it has none of that name.
    """
    if split not in task.splits:
        raise InvalidInputError(
            f"task {name!r} has no split {split!r}; it has {', '.join(task.splits)}"
        )


def check_model(name: str) -> None:
    """Refuse a path without a model; a name may be one of the hub's.

    Raises:
        InvalidInputError: no such folder, or one without a model.
    """
    folder = Path(name).expanduser()
    if name != "tiny" and (folder.exists() or name.startswith(("/", "./", "../", "~"))):
        if not folder.is_dir():
            raise InvalidInputError(f"can't load the model {name!r}: there is no such folder")
        if not any((folder / file).is_file() for file in _MODEL_FILES):
            raise InvalidInputError(
                f"{folder} holds no model: neither {' nor '.join(_MODEL_FILES)} is there"
            )


def _check_reporters(asked: Any) -> None:
    for name in asked if isinstance(asked, list) else [asked]:
        package = _PACKAGES.get(str(name), str(name))
        if name not in (None, "none", "all") and find_spec(package) is None:
            raise MissingDependencyError(
                f"report_to {name} needs the package {package}, which is not installed: install it"
                " if the name is right, or set --report_to none"
            )


def refuse_taken(folder: Path, resume: bool, overwrite: bool) -> None:
    """Refuse a folder that a run may not start in: it holds other things, or can't be written to.

    Raises:
        InvalidInputError: that is so.
    """
    refuse_unwritable(folder)
    holds_run = (folder / "config.yaml").is_file()
    if holds_run and (resume or overwrite):
        return
    if folder.exists() and any(folder.iterdir()):
        what = "another run" if holds_run else "files that are not a run's"
        ways = "--resume to go on with it, --overwrite to delete it, or " if holds_run else ""
        raise InvalidInputError(f"{folder} holds {what}: {ways}choose a new --output_dir")
