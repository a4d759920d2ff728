"""The data and the measurements of a run: the fields of a config that are not TRL's."""

from dataclasses import dataclass, field
from typing import Any

from podslab.tasks.base import FORMS
from podsrl.errors import InvalidInputError, suggestion


def described(default: Any, meaning: str) -> Any:
    """A field of a dataclass with this default, and this help on the command line."""
    return field(default=default, metadata={"help": meaning})


@dataclass
class RunArguments:
    """A run's data and its measurements; the rest is `PODSConfig` and TRL's model config.

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
        "Which rollouts get the task's rewards for the form: only 'wrong' ones, or 'every' one."
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
    max_rollouts: int | None = described(None, "Stop after this many generated rollouts.")
    max_price: float | None = described(
        None,
        "Stop when rollouts and passes have cost this much, by rollout_price and row_price: at the"
        " same step on every machine.",
    )
    rollout_price: float | None = described(None, "Price of a generated rollout.")
    row_price: float | None = described(
        None, "Price of a forward and backward pass over a row of the update."
    )
    training_clock: str = described(
        "wall",
        "The clock of training time: 'wall', or 'cpu', the processor time of this process, for"
        " comparisons on a shared machine, in one thread without a GPU.",
    )
    processes: int | None = described(
        None, "The number of processes (GPUs) that these settings need; by default any number."
    )
    evaluation_split: str = described("test", "Split to evaluate on.")
    evaluation_problems: int = described(200, "Held-out problems per evaluation; 0: no evaluation.")
    evaluation_repeats: int = described(1, "Completions per problem and evaluation (k).")
    evaluation_greedy: bool = described(
        False, "In evaluations, also grade the likeliest completion of each problem."
    )
    evaluations: int | None = described(
        None,
        "Evaluate this many times, evenly over max_steps, max_training_seconds, max_rollouts or"
        " max_price, and at its end.",
    )
    evaluation_steps: int | None = described(
        None, "Steps between two evaluations; there is always one before and one after training."
    )
    evaluation_temperature: float | None = described(
        None, "Sampling temperature of evaluations; by default the training's. 0 is greedy."
    )
    evaluation_batch_size: int = described(256, "Completions generated at once in an evaluation.")
    resume: bool = described(False, "Go on with the run in output_dir from its last checkpoint.")

    def __post_init__(self) -> None:
        for name in _ZERO_OR_MORE:
            value = getattr(self, name)
            if value is not None and not value >= 0:  # NaN is neither
                raise InvalidInputError(f"{name} must be 0 or more; got {value}")
        for name in _ABOVE_ZERO:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidInputError(f"{name} must be above 0; got {value}")
        if self.max_price is not None and None in (self.rollout_price, self.row_price):
            raise InvalidInputError("max_price needs rollout_price and row_price")
        for name, words in _WORDS.items():
            value = getattr(self, name)
            if value not in words:
                raise InvalidInputError(f"unknown {name} {value!r}; {suggestion(value, words)}")


_ZERO_OR_MORE = (
    "evaluation_problems",
    "evaluation_temperature",
    "rollout_price",
    "row_price",
)
_ABOVE_ZERO = (
    "max_training_seconds",
    "max_rollouts",
    "max_price",
    "processes",
    "evaluations",
    "evaluation_steps",
    "evaluation_repeats",
    "evaluation_batch_size",
)
_WORDS = {"form_reward": FORMS, "training_clock": ("wall", "cpu")}
