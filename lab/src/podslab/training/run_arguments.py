"""What a run trains on and how it is measured: the fields of a config that are not TRL's."""

from dataclasses import dataclass, field
from typing import Any

from podslab.cli.bounds import COUNT, POSITIVE, SHARE, Bounds
from podslab.tasks.base import FORMS
from podsrl.errors import InvalidInputError, suggestion


def described(default: Any, meaning: str) -> Any:
    """A field of a dataclass with this default, and this help on the command line."""
    return field(default=default, metadata={"help": meaning})


@dataclass
class RunArguments:
    """What a run trains on and how it is measured; the rest is `PODSConfig` and TRL's model config.

    `model_name_or_path: tiny` is the embedded model.

    Raises:
        InvalidInputError: A number is out of its range, or a word is none of the allowed ones.
    """

    task: str = described("arithmetic", "A task (see `pods tasks`), or ./mytask.py.")
    task_options: str | None = described(None, "Options of the task, as JSON or a YAML mapping.")
    tiny_options: str | None = described(
        None, "Settings of the embedded model, as JSON or a YAML mapping."
    )
    form_reward: str = described(
        "wrong",
        "Who gets the task's rewards for the form: 'wrong' answers only, or 'every' rollout."
        " reward_weights scales them.",
    )
    data_path: str | None = described(
        None, "Local folder or file with the task's data; by default it comes from the hub."
    )
    max_unscorable: float = described(
        0.25, "Stop when more than this share of recent completions can't be scored."
    )
    train_split: str = described("train", "Split to train on.")
    arm: str = described("pods", "Name of the algorithm in a comparison.")
    max_training_seconds: float | None = described(
        None, "Stop after this much training time; evaluation is not counted."
    )
    max_rollouts: int | None = described(None, "Stop after generating this many rollouts.")
    max_tokens: int | None = described(
        None, "Stop after this many tokens of all rollouts, prompts included."
    )
    training_clock: str = described(
        "wall",
        "What training time is measured in: 'wall', or 'cpu', the seconds that this process"
        " computed. 'cpu' is for comparisons on a shared machine, in one thread without a GPU.",
    )
    processes: int | None = described(
        None, "Processes (GPUs) that these settings are meant for; by default any number."
    )
    evaluation_split: str = described("test", "Split to evaluate on.")
    evaluation_path: str | None = described(
        None, "Local data of the evaluation split, if not data_path."
    )
    evaluation_problems: int = described(200, "Held-out problems per evaluation; 0: no evaluation.")
    evaluation_repeats: int = described(1, "Completions per problem and evaluation (k).")
    evaluations: int | None = described(
        None,
        "Evaluate at this many evenly spaced points of the budget, the last at its end: of"
        " max_steps, max_training_seconds, max_rollouts or max_tokens.",
    )
    evaluation_steps: int | None = described(
        None, "Evaluate every this many steps; always before and after."
    )
    evaluation_temperature: float | None = described(
        None, "Sampling temperature of evaluations; by default the training's. 0 is greedy."
    )
    evaluation_batch_size: int = described(256, "Completions generated at once in an evaluation.")
    resume: bool = described(False, "Go on with the run in output_dir from its last checkpoint.")

    def __post_init__(self) -> None:
        for name, bounds in _BOUNDS.items():
            value = getattr(self, name)
            if value is not None and value not in bounds:
                kind = "int" if "int" in str(self.__annotations__[name]) else "float"
                raise InvalidInputError(f"{name} must be {bounds.words(kind)}; got {value}")
        for name, words in (("form_reward", FORMS), ("training_clock", ("wall", "cpu"))):
            if (value := getattr(self, name)) not in words:
                raise InvalidInputError(f"unknown {name} {value!r}; {suggestion(value, words)}")


_BOUNDS: dict[str, Bounds] = {
    "max_unscorable": SHARE,
    "evaluation_problems": Bounds(),
    "evaluation_temperature": Bounds(),
    "max_training_seconds": POSITIVE,
    **dict.fromkeys(("max_rollouts", "max_tokens", "processes", "evaluations"), COUNT),
    **dict.fromkeys(("evaluation_steps", "evaluation_repeats", "evaluation_batch_size"), COUNT),
}
