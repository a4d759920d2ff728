"""What a run trains on and how it is measured: the fields of a config that are not TRL's."""

from dataclasses import dataclass

from podsrl.selection import described


@dataclass
class RunArguments:
    """What a run trains on and how it is measured; the rest is `PODSConfig` and TRL's model config.

    `model_name_or_path: tiny` is the embedded model.
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
    evaluation_seconds: float | None = described(
        None, "Evaluate every this many seconds of training time."
    )
    evaluation_temperature: float | None = described(
        None, "Sampling temperature of evaluations; by default the training's. 0 is greedy."
    )
    evaluation_batch_size: int = described(256, "Completions generated at once in an evaluation.")
    resume: bool = described(False, "Go on with the run in output_dir from its last checkpoint.")
    overwrite: bool = described(
        False, "Delete the run in output_dir once this one has made its first step."
    )
