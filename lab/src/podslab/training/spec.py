"""A run's settings: YAML and flags, checked before anything is loaded."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from trl import ModelConfig, TrlParser

from podsrl.errors import InvalidInputError
from podslab.evaluation.sampling import Sampling
from podslab.training import fields
from podslab.training.config_file import parse_options
from podslab.training.preflight import RUN_DEFAULTS
from podslab.training.run_arguments import RunArguments
from podslab.models.tiny import TinySettings
from podsrl.trl import PODSConfig


@dataclass
class Spec:
    """The resolved settings of one run."""

    run: RunArguments
    training: PODSConfig
    model: ModelConfig

    @property
    def evaluation_sampling(self) -> Sampling:
        """How evaluations sample: as training does, unless told otherwise."""
        temperature = self.run.evaluation_temperature
        template: Any = self.training.chat_template_kwargs or {}  # TRL has parsed JSON text
        return Sampling(
            temperature=self.training.temperature if temperature is None else temperature,
            top_p=self.training.top_p,
            max_new_tokens=self.training.max_completion_length or 256,
            batch_size=self.run.evaluation_batch_size,
            seed=self.training.seed,
            top_k=self.training.top_k or 0,
            min_p=self.training.min_p,
            repetition_penalty=self.training.repetition_penalty,
            chat_template_kwargs=template,
        )

    @property
    def tiny_settings(self) -> TinySettings:
        """Of the embedded model."""
        try:
            return TinySettings(**parse_options(self.run.tiny_options))
        except TypeError as error:
            raise InvalidInputError(f"tiny_options: {error}") from error

    def flat(self) -> dict[str, Any]:
        """All settings as one mapping of plain values, for config.yaml."""
        return {**asdict(self.run), **asdict(self.model), **self.training.plain()}


class _Parser(TrlParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of TRL's usage of several hundred."""
        raise InvalidInputError(message)


def parse(config: dict[str, Any], flags: Sequence[str] = ()) -> Spec:
    """Settings from a config mapping and flags, which win.

    Args:
        config: fields of `RunArguments`, `PODSConfig` and TRL's `ModelConfig`.
        flags: the same as `--field value`.

    Raises:
        InvalidInputError: an unknown key (with the nearest known ones), or a value that is not
            allowed.
    """
    config = {**RUN_DEFAULTS, **config}
    for name in ("task_options", "tiny_options"):
        if isinstance(config.get(name), dict):
            config[name] = json.dumps(config[name])
    fields.check(config, flags)
    parser = _Parser((RunArguments, PODSConfig, ModelConfig))  # type: ignore[arg-type]
    try:
        parser.set_defaults_with_config(**config)
        run, training, model = parser.parse_args_into_dataclasses(args=list(flags))
    except InvalidInputError:
        raise
    except (ValueError, TypeError) as error:
        raise InvalidInputError(" ".join(str(error).split())) from error
    return Spec(run, training, model)
