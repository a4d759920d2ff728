"""Checks of a run before anything is loaded or written."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers.integrations import get_available_reporting_integrations

from podslab.tasks import Task, get_task
from podslab.training.config_file import parse_options
from podslab.training.spec import Spec, parse
from podsrl.errors import InvalidInputError, MissingDependencyError

_MODEL_FILES = ("config.json", "adapter_config.json")


def checked_spec(config: Mapping[str, Any], flags: Sequence[str] = ()) -> Spec:
    """The settings of a run; a `PodsError` says what is wrong with them, or with what it reads."""
    spec = parse(config, flags)
    check_data_path("data_path", spec.run.data_path)
    check_model(str(spec.model.model_name_or_path))
    _check_reporting(spec.training.report_to or ())
    _check_reward_weights(spec)
    _refuse_lora_without_peft(spec, config, flags)
    return spec


def notes(spec: Spec) -> list[str]:
    """The points that these checks can't know, for a dry run."""
    name = str(spec.model.model_name_or_path)
    if name in ("tiny", "smollm2") or Path(name).expanduser().is_dir():
        return []
    return [f"there is no folder {name}: when the run starts, the hub is asked for it"]


def _refuse_lora_without_peft(spec: Spec, config: Mapping[str, Any], flags: Sequence[str]) -> None:
    """Refuse settings of LoRA where all weights are trained: they would count for nothing."""
    if spec.model.use_peft:
        return
    of_flags = [word[2:].partition("=")[0] for word in flags if word.startswith("--")]
    names = [name.replace("-", "_") for name in (*config, *of_flags)]
    if given := next((name for name in names if name.startswith("lora_")), None):
        raise InvalidInputError(
            f"{given} is given, and use_peft is not, so that all weights would be trained: set"
            " use_peft: true, or leave it out"
        )


def _check_reporting(names: Sequence[str]) -> None:
    for name in names:
        if name not in get_available_reporting_integrations():
            raise MissingDependencyError(
                f"report_to {name} needs a package that is not installed: install it if the name is"
                " right, or set --report_to none"
            )


def _check_reward_weights(spec: Spec) -> None:
    functions = reward_functions(task_of(spec), spec.run.form_reward)
    weights = spec.training.reward_weights
    if weights is not None and len(weights) != len(functions):
        raise InvalidInputError(
            f"reward_weights has {len(weights)} numbers, and the task {spec.run.task!r} has"
            f" {len(functions)} reward functions: give one number for each"
        )


def task_of(spec: Spec) -> Task:
    """The task of a run; a `PodsError` if there is none such, or no such option or split."""
    run = spec.run
    task = get_task(run.task, **parse_options(run.task_options))
    task.max_unscorable = run.max_unscorable
    for split in (run.train_split, run.evaluation_split):
        check_split(task, run.task, split)
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
    """Raise `InvalidInputError` for a split that the task lacks."""
    if split not in task.splits:
        raise InvalidInputError(
            f"task {name!r} has no split {split!r}; it has {', '.join(task.splits)}"
        )


def check_data_path(name: str, path: str | None) -> None:
    """Raise `InvalidInputError` for a path of data that is not there."""
    if path is not None and not Path(path).expanduser().exists():
        raise InvalidInputError(f"{name}: there is no {path}")


def check_model(name: str) -> None:
    """Raise `InvalidInputError` for a path without a model; a name may be one of the hub's."""
    if name in ("tiny", "smollm2"):
        return
    folder = Path(name).expanduser()
    if folder.exists() or name.startswith(("/", "./", "../", "~")):
        if not folder.is_dir():
            raise InvalidInputError(f"can't load the model {name!r}: there is no such folder")
        if not any((folder / file).is_file() for file in _MODEL_FILES):
            neither = " nor ".join(_MODEL_FILES)
            raise InvalidInputError(f"{folder} holds no model: neither {neither} is there")
