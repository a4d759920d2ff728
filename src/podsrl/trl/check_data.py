"""A dataset is checked before training: TRL would fail on it later, with a riddle."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import torch

from podsrl.errors import InvalidInputError

#: What every TRL passes to a reward function, besides the columns of the dataset.
_ALWAYS_PASSED = ("prompts", "completions", "completion_ids", "trainer_state")
#: What some versions pass, or some runs.
_SOMETIMES_PASSED = ("log_extra", "log_metric", "environments")
#: Columns that TRL does not pass on.
_NOT_PASSED = ("prompt", "completion", "completion_ids")


def check_prompts(dataset: Any, name: str) -> None:
    """Refuse a dataset whose prompts TRL can't use; a stream is looked at no further than it says.

    Args:
        dataset: One of `datasets`, or None.
        name: What the trainer calls it, such as "train_dataset".

    Raises:
        InvalidInputError: No column "prompt", or a prompt that is neither text nor a list of
            messages; the message names the row.
    """
    columns = getattr(dataset, "column_names", None)
    if not isinstance(columns, list):
        return
    if "prompt" not in columns:
        raise InvalidInputError(
            f"{name} has no column 'prompt'; it has {', '.join(columns)}. A prompt is text or a"
            f" list of messages: {name}.map(lambda row: {{'prompt': ...}}) makes one"
        )
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "__len__"):
        return

    prompts = dataset.select_columns(["prompt"]).with_format("arrow")[:]["prompt"]
    kind = prompts.type
    if pa.types.is_primitive(kind) or pa.types.is_struct(kind):  # numbers, or a dictionary
        raise InvalidInputError(
            f"prompts of {name} are {kind}, and a prompt is text, or a list of messages such as"
            " [{'role': 'user', 'content': ...}]"
        )
    _refuse_empty(prompts, name)


def check_parameters(functions: Sequence[Any], dataset: Any, name: str) -> None:
    """Refuse a reward function that TRL can't call with the columns of a dataset.

    Raises:
        InvalidInputError: It needs a column that the dataset lacks, or it lacks `**kwargs`.
    """
    columns = getattr(dataset, "column_names", None)
    if not isinstance(columns, list):
        return
    for function in functions:
        if callable(function) and not isinstance(function, torch.nn.Module):
            _check_function(function, columns, name)


def check_environments(pools: Mapping[Any, Sequence[Any]], dataset: Any, name: str) -> None:
    """Refuse a dataset whose columns don't fit the environments.

    Args:
        pools: The environments that TRL made so far, by their name; of one alone the name is None.
        dataset: One of `datasets`, or None where environments have the prompts.
        name: What the trainer calls it.

    Raises:
        InvalidInputError: No column "environment" where there are several, a row that names none of
            them, or a `reset` that can't be called with the columns.
    """
    columns = getattr(dataset, "column_names", None)
    if not isinstance(columns, list):
        return
    if None not in pools:
        _check_names_of_environments(list(pools), dataset, columns, name)
        columns = [column for column in columns if column != "environment"]
    for environments in pools.values():
        for environment in environments[:1]:
            _check_reset(environment, columns, name)


def _check_names_of_environments(
    known: Sequence[str], dataset: Any, columns: Sequence[str], name: str
) -> None:
    allowed = f"allowed: {', '.join(map(str, known))}"
    if "environment" not in columns:
        listed = ", ".join(map(repr, columns))
        raise InvalidInputError(
            f"{name} has no column 'environment', which says of each prompt which one of several it"
            f" has ({allowed}); it has {listed}. Rename one of them, or add it"
        )
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "__len__"):
        return
    for row, given in enumerate(dataset.select_columns(["environment"])[:]["environment"]):
        if given not in known:
            raise InvalidInputError(
                f"the environment of row {row} of {name} is {given!r}; {allowed}"
            )


def _check_reset(environment: Any, columns: Sequence[str], name: str) -> None:
    who = f"{type(environment).__name__}.reset"
    parameters = inspect.signature(environment.reset).parameters.values()
    by_name = [
        one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    needed = [one.name for one in by_name if one.default is one.empty]
    if lacking := [one for one in needed if one not in columns]:
        raise InvalidInputError(_lacks(who, lacking, columns, name))

    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
    accepted = {one.name for one in by_name}
    if not takes_all and (refused := [one for one in columns if one not in accepted]):
        raise InvalidInputError(_refuses(who, refused))


def _lacks(who: str, lacking: Sequence[str], columns: Sequence[str], name: str) -> str:
    return (
        f"{who} needs {', '.join(map(repr, lacking))}, and {name} has no such column; it has"
        f" {', '.join(columns)}. Rename one of them"
    )


def _refuses(who: str, refused: Sequence[str]) -> str:
    return (
        f"{who} has no **kwargs among its parameters, and TRL also passes"
        f" {', '.join(refused)}: add **kwargs"
    )


def _check_function(function: Any, columns: Sequence[str], name: str) -> None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # such as a function of C
        return
    who = f"reward function {getattr(function, '__name__', type(function).__name__)!r}"
    by_name = [
        one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    accepted = {one.name for one in by_name}

    known = {*_ALWAYS_PASSED, *_SOMETIMES_PASSED, *columns} - set(_NOT_PASSED[:2])
    needed = [one.name for one in by_name if one.default is one.empty]
    if lacking := [one for one in needed if one not in known]:
        raise InvalidInputError(_lacks(who, lacking, columns, name))

    passed = [*_ALWAYS_PASSED, *(column for column in columns if column not in _NOT_PASSED)]
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
    if not takes_all and (refused := [one for one in passed if one not in accepted]):
        raise InvalidInputError(_refuses(who, refused))


def _refuse_empty(prompts: Any, name: str) -> None:
    """Refuse prompts that are missing or empty, by the number of the first one."""
    found = {"None": pc.is_null(prompts)}
    if _is_text(prompts.type):
        found["empty"] = pc.equal(pc.binary_length(prompts), 0)
    elif _is_list(prompts.type):
        found["empty"] = pc.equal(pc.list_value_length(prompts), 0)

    for what, is_bad in found.items():
        row = pc.index(is_bad, True).as_py()
        if row >= 0:
            count = pc.sum(is_bad).as_py()
            raise InvalidInputError(
                f"the prompt of row {row} of {name} is {what}, as {count} of {len(prompts)} are:"
                " leave such rows out"
            )


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
