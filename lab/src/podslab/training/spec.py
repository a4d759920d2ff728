"""A run's settings: a YAML mapping and flags, which TRL's own parser reads."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from trl import ModelConfig, TrlParser

from podslab.evaluation.sampling import Sampling
from podslab.models.tiny import TinySettings
from podslab.training.config_file import parse_options
from podslab.training.run_arguments import RunArguments
from podsrl.errors import InvalidInputError, suggestion
from podsrl.trl import PODSConfig


@dataclass
class Spec:
    """The resolved settings of one run."""

    run: RunArguments
    training: PODSConfig
    model: ModelConfig

    @property
    def evaluation_sampling(self) -> Sampling:
        """How evaluations sample."""
        return Sampling.as_in(self.flat())

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


class _Parser(TrlParser):
    def __init__(self) -> None:
        super().__init__((RunArguments, PODSConfig, ModelConfig))  # type: ignore[arg-type]
        options = (word for word in self._option_string_actions if word.startswith("--"))
        self.names = {word[2:].replace("-", "_") for word in options}

    def error(self, message: str) -> NoReturn:
        """One line instead of TRL's usage of several hundred."""
        raise InvalidInputError(re.sub(r"^argument --(\w+)(/\S+)?: ", r"\1: ", message))

    def refuse_unknown(self, name: str, what: str) -> None:
        """Refuse a name that no field has, with the nearest one that there is."""
        if name.replace("-", "_") not in self.names:
            near = suggestion(name, self.names, "`pods train --help` tells where they are listed")
            raise InvalidInputError(f"unknown {what} {name!r}; {near}")


def parse(config: Mapping[str, Any], flags: Sequence[str] = ()) -> Spec:
    """Settings from a config mapping and flags, which win.

    Args:
        config: fields of `RunArguments`, `PODSConfig` and TRL's `ModelConfig`.
        flags: the same as `--field value`.

    Raises:
        InvalidInputError: an unknown key (with the nearest known one), or a value that is not
            allowed.
    """
    parser = _Parser()
    config = {"logging_steps": 1, **config}  # unlike TRL's default, so that no step is missing
    for name in config:
        parser.refuse_unknown(name, "config key")
    for word in flags:
        if word.startswith("--"):
            parser.refuse_unknown(word[2:].partition("=")[0], "flag")
    for name in ("task_options", "tiny_options"):
        if isinstance(config.get(name), dict):
            config[name] = json.dumps(config[name])
    given = {name: value for name, value in config.items() if not _is_text(value)}
    parser.set_defaults(**given)
    try:
        run, training, model, left = parser.parse_args_into_dataclasses(
            [*_words(config), *flags], return_remaining_strings=True, look_for_args_file=False
        )
    except InvalidInputError:
        raise
    except (ValueError, TypeError) as error:
        raise InvalidInputError(" ".join(str(error).split())) from error
    if left:
        raise InvalidInputError(f"{' '.join(left)}: only a field that is a list takes many values")
    if model.model_name_or_path is None:
        raise InvalidInputError(
            "model_name_or_path is missing: a folder, a name on the hub, or 'tiny'"
        )
    return Spec(run, training, model)


def _is_text(value: Any) -> bool:
    """Can it be given on a command line: a number, a word, or a list of such?"""
    return isinstance(value, (str, int, float)) or (isinstance(value, list) and bool(value))


def _words(config: Mapping[str, Any]) -> Iterator[str]:
    """A config as flags, so that the parser checks its values as it checks those."""
    for name, value in config.items():
        if isinstance(value, list) and value:
            yield from (f"--{name}", *map(str, value))
        elif _is_text(value):
            yield f"--{name}={value}"
