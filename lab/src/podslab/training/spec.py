"""A run's settings: a YAML mapping and flags, which TRL's own parser reads."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NoReturn

from trl import ModelConfig, TrlParser

from podslab.engine.budget import Budget, Prices
from podslab.evaluation.sampling import Sampling
from podslab.models.tiny import TinySettings
from podslab.training.config_file import parse_options
from podslab.training.run_arguments import RunArguments
from podsrl.errors import InvalidInputError, suggestion
from podsrl.trl import PODSConfig
from podsrl.trl.config import OTHER_NAMES


@dataclass
class Spec:
    """The resolved settings of one run."""

    run: RunArguments
    training: PODSConfig
    model: ModelConfig

    @property
    def evaluation_sampling(self) -> Sampling:
        """The sampling of evaluations."""
        return Sampling.as_in(self.flat())

    @property
    def budget(self) -> Budget:
        """The budget of the run; a `max_steps` of 0 or less is no limit, as in TRL."""
        run = self.run
        prices = None
        if run.rollout_price is not None and run.row_price is not None:
            prices = Prices(run.rollout_price, run.row_price)
        budget = Budget(
            training_seconds=run.max_training_seconds,
            rollouts=run.max_rollouts,
            price=run.max_price,
            prices=prices,
        )
        return budget.with_steps(self.training.max_steps)

    @property
    def tiny_settings(self) -> TinySettings:
        """The settings of the embedded model."""
        try:
            return TinySettings(**parse_options(self.run.tiny_options))
        except TypeError as error:
            raise InvalidInputError(f"tiny_options: {error}") from error

    def flat(self) -> dict[str, Any]:
        """All settings as one mapping of plain values, for config.yaml."""
        return {**asdict(self.run), **asdict(self.model), **self.training.settings()}


_PARTS = (RunArguments, PODSConfig, ModelConfig)
_FIELDS = [field for part in _PARTS for field in fields(part)]

#: The names of all fields, which are the keys of a config and, after "--", flags.
NAMES = frozenset(field.name for field in _FIELDS)
#: A field that is on by default is turned off by a flag of its own, too.
_FLAGS = NAMES | {f"no_{field.name}" for field in _FIELDS if field.default is True}


class _Parser(TrlParser):
    """TRL's parser, whose errors are one line each instead of a usage of several hundred."""

    def error(self, message: str) -> NoReturn:
        raise InvalidInputError(re.sub(r"^argument --(\w+)(/\S+)?: ", r"\1: ", message))


def parse(config: Mapping[str, Any], flags: Sequence[str] = ()) -> Spec:
    """Settings from a config mapping and flags, which win.

    Args:
        config: The fields of `RunArguments`, `PODSConfig` and TRL's `ModelConfig`.
        flags: The same as `--field value`.

    Raises:
        InvalidInputError: An unknown key (with the nearest known one), or a value that is not
            allowed.
    """
    _refuse_unknown(config, flags)
    config = {"logging_steps": 1, **config}  # unlike TRL's default, so that no step is missing
    for name in ("task_options", "tiny_options"):
        if isinstance(config.get(name), dict):
            config[name] = json.dumps(config[name])

    # What a command line can hold is checked by the parser; the rest, such as a mapping, is a
    # default, which it takes as it is.
    parser = _Parser(_PARTS)  # type: ignore[arg-type]
    parser.set_defaults(**{name: value for name, value in config.items() if not _is_text(value)})
    try:
        run, training, model, unread = parser.parse_args_into_dataclasses(
            [*_as_flags(config), *flags],
            return_remaining_strings=True,
            look_for_args_file=False,
        )
    except InvalidInputError:
        raise
    except (ValueError, TypeError) as error:
        raise InvalidInputError(" ".join(str(error).split())) from error

    if unread:
        words = " ".join(unread)
        raise InvalidInputError(f"{words}: only a field that is a list takes many values")
    if model.model_name_or_path is None:
        raise InvalidInputError(
            "model_name_or_path is missing: a folder, a name on the hub, or 'tiny'"
        )
    return Spec(run, training, model)


def _refuse_unknown(config: Mapping[str, Any], flags: Sequence[str]) -> None:
    """Refuse names that no field has, with the nearest one that there is."""
    for name in config:
        if name.replace("-", "_") not in NAMES:
            raise _unknown(name, "config key", NAMES)
    for word in flags:
        if word.startswith("--"):
            name = word[2:].partition("=")[0]
            if name.replace("-", "_") not in _FLAGS:
                raise _unknown(name, "flag", _FLAGS)


def _unknown(name: str, what: str, known: Iterable[str]) -> InvalidInputError:
    meant = OTHER_NAMES.get(name.replace("-", "_"))
    near = f"did you mean {meant!r}?"
    if meant is None:
        near = suggestion(name, known, "`pods train --help` tells where they are listed")
    return InvalidInputError(f"unknown {what} {name!r}; {near}")


def _is_text(value: Any) -> bool:
    """Whether it can be given on a command line: a number, a word, or a list of such."""
    return isinstance(value, (str, int, float)) or (isinstance(value, list) and bool(value))


def _as_flags(config: Mapping[str, Any]) -> Iterator[str]:
    """A config as flags, so that the parser checks its values as it checks those."""
    for name, value in config.items():
        if isinstance(value, list) and value:
            yield f"--{name}"
            yield from map(str, value)
        elif _is_text(value):
            yield f"--{name}={value}"
