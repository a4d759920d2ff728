"""A run's settings: YAML and flags, checked before anything is loaded."""

import difflib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

import yaml
from trl import ModelConfig, TrlParser

from podsrl.errors import InvalidInputError
from podsrl.evaluation.sampling import Sampling
from podsrl.tasks.base import FORMS
from podsrl.trl import PODSConfig

CONFIGS = Path(__file__).parent.parent / "configs"

_POSITIVE = (
    *("max_training_seconds", "max_rollouts", "max_tokens", "processes"),
    *("evaluations", "evaluation_steps", "evaluation_seconds"),
)


@dataclass
class RunArguments:
    """What a run trains on and how it is measured; the rest is `PODSConfig` and TRL's model config.

    `model_name_or_path: tiny` is the embedded model.
    """

    task: str = field(
        default="arithmetic", metadata={"help": "A task (see `pods tasks`), or ./mytask.py."}
    )
    task_options: str | None = field(
        default=None, metadata={"help": "Options of the task, as JSON or a YAML mapping."}
    )
    tiny_options: str | None = field(
        default=None, metadata={"help": "Settings of the embedded model, as JSON or a mapping."}
    )
    form_reward: str = field(
        default="wrong",
        metadata={
            "help": "Who gets the task's rewards for the form: 'wrong' answers only, or 'every'"
            " rollout. reward_weights scales them."
        },
    )
    data_path: str | None = field(
        default=None, metadata={"help": "Local folder or file with the task's data; else the hub."}
    )
    max_unscorable: float = field(
        default=0.25,
        metadata={"help": "Stop when more than this share of recent completions is unscorable."},
    )
    train_split: str = field(default="train", metadata={"help": "Split to train on."})
    arm: str = field(default="pods", metadata={"help": "Name of the algorithm in a comparison."})
    max_training_seconds: float | None = field(
        default=None,
        metadata={"help": "Stop after this much training time; evaluation is not counted."},
    )
    max_rollouts: int | None = field(
        default=None, metadata={"help": "Stop after generating this many rollouts."}
    )
    max_tokens: int | None = field(
        default=None,
        metadata={"help": "Stop after this many tokens of all rollouts, prompts included."},
    )
    processes: int | None = field(
        default=None,
        metadata={"help": "Processes (GPUs) that these settings are meant for; default: any."},
    )
    evaluation_split: str = field(default="test", metadata={"help": "Split to evaluate on."})
    evaluation_path: str | None = field(
        default=None, metadata={"help": "Local data of the evaluation split, if not data_path."}
    )
    evaluation_problems: int = field(
        default=200, metadata={"help": "Held-out problems per evaluation; 0 switches it off."}
    )
    evaluation_repeats: int = field(
        default=1, metadata={"help": "k: completions per problem and evaluation."}
    )
    evaluations: int | None = field(
        default=None,
        metadata={
            "help": "Evaluate at this many evenly spaced points of the budget, the last at its end:"
            " of max_steps, max_training_seconds, max_rollouts or max_tokens."
        },
    )
    evaluation_steps: int | None = field(
        default=None, metadata={"help": "Evaluate every this many steps; always before and after."}
    )
    evaluation_seconds: float | None = field(
        default=None, metadata={"help": "Evaluate every this many seconds of training time."}
    )
    evaluation_temperature: float | None = field(
        default=None, metadata={"help": "Sampling temperature; default: the training's."}
    )
    evaluation_batch_size: int = field(
        default=256, metadata={"help": "Completions generated at once in an evaluation."}
    )
    resume: bool = field(
        default=False,
        metadata={"help": "Go on with the run in output_dir from its last checkpoint."},
    )
    overwrite: bool = field(
        default=False, metadata={"help": "Delete the run in output_dir and start again."}
    )

    def __post_init__(self) -> None:
        if self.resume and self.overwrite:
            raise InvalidInputError("resume and overwrite exclude each other; set one of them")
        if self.form_reward not in FORMS:
            raise InvalidInputError(
                f"form_reward must be one of {', '.join(FORMS)}; got {self.form_reward!r}"
            )
        if self.evaluation_problems < 0 or self.evaluation_repeats < 1:
            raise InvalidInputError(
                "evaluation_problems must be >= 0 and evaluation_repeats >= 1; got"
                f" {self.evaluation_problems} and {self.evaluation_repeats}"
            )
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidInputError(f"{name} must be positive; got {value}")


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

    def flat(self) -> dict[str, Any]:
        """All settings as one mapping of plain values, for config.yaml."""
        training = {k: v for k, v in self.training.to_dict().items() if not k.startswith("_")}
        return {**asdict(self.run), **asdict(self.model), **training}


class _Parser(TrlParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of TRL's usage of several hundred."""
        raise InvalidInputError(message)


def parse_options(value: str | None) -> dict[str, Any]:
    """Options given as JSON or YAML text.

    Raises:
        InvalidInputError: not a mapping.

    >>> parse_options('{"columns": 4}')
    {'columns': 4}
    """
    if value is None:
        return {}
    try:
        options = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise InvalidInputError(f"options {value!r} are not JSON or YAML: {error}") from error
    if not isinstance(options, dict):
        raise InvalidInputError(f"options must be a mapping such as {{columns: 4}}; got {value!r}")
    return options


def read_config(name: str | Path) -> dict[str, Any]:
    """A YAML mapping from a file, or from one of the shipped configs by its name.

    Raises:
        InvalidInputError: no such file or config, or no YAML mapping in it.
    """
    path = Path(name).expanduser()
    if not path.is_file():
        shipped = CONFIGS / f"{str(name).removesuffix('.yaml')}.yaml"
        if not shipped.is_file():
            names = sorted(str(p.relative_to(CONFIGS))[:-5] for p in CONFIGS.rglob("*.yaml"))
            raise InvalidInputError(
                f"no config file {path}; the shipped ones are {', '.join(names)}"
            )
        path = shipped
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        problem = " ".join(str(error).split())
        raise InvalidInputError(f"{path} is not YAML: {problem}") from error
    if not isinstance(config, dict):
        raise InvalidInputError(f"{path} must hold a YAML mapping, such as 'task: gsm8k'")
    return config


def parse(config: dict[str, Any], flags: Sequence[str] = ()) -> Spec:
    """Settings from a config mapping and flags, which win.

    Args:
        config: fields of `RunArguments`, `PODSConfig` and TRL's `ModelConfig`.
        flags: the same as `--field value`.

    Raises:
        InvalidInputError: an unknown key (with the nearest known ones), or a value that is not
            allowed.
    """
    config = {"logging_steps": 1, **config}  # a run's metrics are complete unless told otherwise
    for name in ("task_options", "tiny_options"):
        if isinstance(config.get(name), dict):
            config[name] = json.dumps(config[name])
    parser = _Parser((RunArguments, PODSConfig, ModelConfig))  # type: ignore[arg-type]
    given = [flag[2:].partition("=")[0] for flag in flags if flag.startswith("--")]
    _refuse_unknown([*config, *given])
    try:
        parser.set_defaults_with_config(**config)
        run, training, model = parser.parse_args_into_dataclasses(args=list(flags))
    except InvalidInputError:
        raise
    except (ValueError, TypeError) as error:
        raise InvalidInputError(" ".join(str(error).split())) from error
    if model.model_name_or_path is None:
        raise InvalidInputError(
            "model_name_or_path is missing: a folder, a name on the hub, or 'tiny'"
        )
    return Spec(run, training, model)


def _refuse_unknown(keys: Sequence[str]) -> None:
    known = {f.name for kind in (RunArguments, PODSConfig, ModelConfig) for f in fields(kind)}
    known |= {f"no_{name}" for name in known}
    for key in keys:
        if key.replace("-", "_") not in known:
            near = difflib.get_close_matches(key, known, n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise InvalidInputError(f"unknown config key {key!r}{hint}")
