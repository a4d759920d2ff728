"""A dataset is checked before training: TRL would fail on it later, with a riddle."""

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import torch

from podsrl.errors import InvalidInputError

#: What every TRL passes to a reward function, besides the columns of the dataset.
_ALWAYS_PASSED = ("prompts", "completions", "completion_ids", "trainer_state")
#: What some versions pass, or some runs.
_SOMETIMES_PASSED = ("log_extra", "log_metric", "environments")
#: Columns that TRL does not pass on; completion_ids are then those that the model made.
_COLUMNS_NOT_PASSED = ("prompt", "completion", "completion_ids")


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
    takes = _Parameters.of(environment.reset)
    takes.refuse_what_is_missing(columns, who, columns, name)
    takes.refuse_what_is_too_much(columns, who)


class _Parameters(NamedTuple):
    """What a function takes by name."""

    needed: list[str]  # those without a default
    accepted: set[str]
    takes_any_other: bool  # by **kwargs

    @classmethod
    def of(cls, function: Any) -> "_Parameters":
        """Those of a function; what `inspect.signature` raises where it can't be asked."""
        parameters = inspect.signature(function).parameters.values()
        by_name = [
            parameter
            for parameter in parameters
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]
        return cls(
            needed=[
                parameter.name for parameter in by_name if parameter.default is parameter.empty
            ],
            accepted={parameter.name for parameter in by_name},
            takes_any_other=any(
                parameter.kind is parameter.VAR_KEYWORD for parameter in parameters
            ),
        )

    def refuse_what_is_missing(
        self, passed: Collection[str], who: str, columns: Sequence[str], name: str
    ) -> None:
        """Raise `InvalidInputError` where something is needed that TRL will not pass."""
        if missing := [parameter for parameter in self.needed if parameter not in passed]:
            raise InvalidInputError(
                f"{who} needs {', '.join(map(repr, missing))}, and {name} has no such column; it"
                f" has {', '.join(columns)}. Rename one of them"
            )

    def refuse_what_is_too_much(self, passed: Sequence[str], who: str) -> None:
        """Raise `InvalidInputError` where TRL will pass something that is not accepted."""
        unknown = [parameter for parameter in passed if parameter not in self.accepted]
        if unknown and not self.takes_any_other:
            raise InvalidInputError(
                f"{who} has no **kwargs among its parameters, and TRL also passes"
                f" {', '.join(unknown)}: add **kwargs"
            )


def _check_function(function: Any, columns: Sequence[str], name: str) -> None:
    try:
        takes = _Parameters.of(function)
    except (TypeError, ValueError):  # such as a function of C
        return

    who = f"reward function {getattr(function, '__name__', type(function).__name__)!r}"
    passed = [*_ALWAYS_PASSED, *(name for name in columns if name not in _COLUMNS_NOT_PASSED)]
    takes.refuse_what_is_missing({*passed, *_SOMETIMES_PASSED}, who, columns, name)
    takes.refuse_what_is_too_much(passed, who)


def _refuse_empty(prompts: Any, name: str) -> None:
    """Refuse prompts that are missing or empty, by the number of the first one."""
    is_bad_for = {"None": pc.is_null(prompts)}
    if _is_text(prompts.type):
        is_bad_for["empty"] = pc.equal(pc.binary_length(prompts), 0)
    elif _is_list(prompts.type):
        is_bad_for["empty"] = pc.equal(pc.list_value_length(prompts), 0)

    for what, is_bad in is_bad_for.items():
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
