"""Values of TRL's own fields that TRL takes, and trains wrongly with, or fails on much later."""

import functools
import inspect
import math
from collections.abc import Iterable
from dataclasses import Field, fields
from typing import Any, NamedTuple

from podsrl.errors import InvalidInputError
from podsrl.rewards import are_weights


class _Range(NamedTuple):
    """The numbers that a field takes: from `least` to `most`.

    Args:
        least, most: The bounds.
        above: Whether `least` itself is not allowed.
        also: A number outside them that has a meaning of its own, and the meaning.
    """

    least: float
    most: float = math.inf
    above: bool = False
    also: tuple[float, str] | None = None

    def allows(self, value: float) -> bool:
        """Whether a number is one of them; NaN is none."""
        if self.also is not None and value == self.also[0]:
            return True
        is_enough = value > self.least if self.above else value >= self.least
        return is_enough and value <= self.most

    def in_words(self) -> str:
        """The allowed values, in words for a message."""
        words = f"above {self.least:g}" if self.above else f"{self.least:g} or more"
        if self.most < math.inf:
            words += f", up to {self.most:g}"
        return words if self.also is None else f"{words}, and {self.also[0]:g}, {self.also[1]}"


#: Where TRL does not check, or checks when a model was loaded, or when the first step ends.
_RANGES = {
    "max_steps": _Range(1, also=(-1, "which leaves the end to num_train_epochs")),
    "num_train_epochs": _Range(0, above=True),
    "learning_rate": _Range(0),
    "weight_decay": _Range(0),
    "max_grad_norm": _Range(0),
    "per_device_train_batch_size": _Range(1),
    "gradient_accumulation_steps": _Range(1),
    "steps_per_generation": _Range(1),
    "generation_batch_size": _Range(1),
    "num_iterations": _Range(1),
    "save_steps": _Range(0, above=True),
    "max_completion_length": _Range(1),
    "temperature": _Range(0, above=True),
    "top_p": _Range(0, 1, above=True),
    "top_k": _Range(0, also=(-1, "vLLM's word for all")),
    "min_p": _Range(0, 1),
    "repetition_penalty": _Range(0, above=True),
    "beta": _Range(0),
    "epsilon": _Range(0),
    "epsilon_high": _Range(0),
}


def refuse_values(args: Any) -> None:
    """Refuse values of another type than a field's, and numbers that have no meaning there.

    YAML reads "1e-5" as text, and `no` as False. A text where True or False belongs counts as True,
    whatever it says.

    Args:
        args: A config of TRL's, constructed and not yet completed.

    Raises:
        InvalidInputError: The message names the field, what was given, and what is allowed.
    """
    config: Any = type(args)
    kinds = _kinds_by_name(config)
    for field in fields(args):
        value = getattr(args, field.name)
        if problem := _wrong_type(field, kinds[field.name], value):
            raise InvalidInputError(problem)

        allowed = _RANGES.get(field.name)
        if allowed is not None and value is not None and not allowed.allows(value):
            raise InvalidInputError(f"{field.name}={value!r}; allowed: {allowed.in_words()}")

    weights = args.reward_weights
    if isinstance(weights, Iterable) and not are_weights(weights):
        raise InvalidInputError(
            f"reward_weights={weights!r}; allowed: a finite number for each reward function, not"
            " all of them 0"
        )


def _wrong_type(field: Field[Any], kinds: set[str], value: Any) -> str:
    """The problem of a value's type; "" if there is none."""
    given = f"{field.name}={value!r}"
    if isinstance(value, str) and kinds & {"int", "float"} and "str" not in kinds:
        yaml = "YAML reads 1e-5 as text, and 1.0e-5 as a number"
        return f"{given} is text, and must be a number ({yaml})"
    if isinstance(value, str) and "bool" in kinds and "str" not in kinds:
        return f"{field.name} must be True or False; got {value!r}, and any text counts as True"
    if value is None and kinds in ({"int"}, {"float"}):
        return f"{given}, and must be a number; leave it out for {field.default}"
    if isinstance(value, float) and kinds in ({"int"}, {"int", "None"}) and not value.is_integer():
        return f"{given}, and must be a whole number"
    if field.name.endswith("_strategy") and value is False:
        return f"{given}; write 'no' in quotes, which YAML reads as False without"
    return ""


@functools.cache
def _kinds_by_name(config: type) -> dict[str, set[str]]:
    """The types of each field, as its annotation names them: {"int", "None"}.

    The fields themselves don't tell: transformers' parser of command lines changes their types.
    """
    kinds: dict[str, set[str]] = {}
    for part in reversed(config.__mro__):
        for name, kind in inspect.get_annotations(part).items():
            written = kind.__name__ if isinstance(kind, type) else str(kind)
            kinds[name] = {word.strip() for word in written.split("|")}
    return kinds
