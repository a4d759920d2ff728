"""A short run that measures what generating and updating cost, and how often prompts are solved."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from transformers import TrainerCallback

from podslab.evaluation.sampling import Progress
from podslab.training.preflight import checked_spec
from podslab.training.preview import Preview
from podslab.training.run import build_trainer, load_data
from podslab.training.spec import parse
from podsrl.rollout_log.run_folder import RunFolder

#: A short run goes on until this many prompts were seen, for at most three times the steps.
GROUPS = 32


class _VaryRollouts(TrainerCallback):
    """Gives each generation the next one of several n."""

    def __init__(self, trainer: Any, sizes: Sequence[int], updates: int) -> None:
        self.trainer = trainer
        self.sizes = sizes
        self.updates = updates

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Set n for the generation that the step begins or goes on with."""
        n = self.sizes[state.global_step // self.updates % len(self.sizes)]
        effective = self.trainer.effective
        selection = replace(effective.selection, num_rollouts=n)
        self.trainer.effective = replace(effective, selection=selection)


def short_run(
    config: Mapping[str, Any],
    flags: Sequence[str],
    folder: str,
    say: Callable[[str], None],
    callbacks: Sequence[Any],
    progress: Callable[[str], Progress],
) -> RunFolder:
    """A run that only measures: generations of several n in turn, until enough prompts were seen.

    It trains at learning rate 0: all is done as in training, and the model stays as it is. The
    config is checked, and `say` is told what will be done. What is written goes to `folder`.
    """
    m = int(checked_spec(config, flags).training.num_generations or 0)
    sizes = tuple(m * times for times in (8, 2, 4, 1) if m * times > 1)
    fixed = {
        "num_rollouts": max(sizes),
        "learning_rate": 0,
        "evaluation_problems": 0,
        "save_strategy": "no",
        "report_to": "none",
        "rollout_log": True,
        "logging_steps": 1,
        "arm": "measured",
        "output_dir": folder,
    }
    flags = [*flags, *(f"--{name}={value}" for name, value in fixed.items())]

    # Every size twice at least, and at most six times.
    preview = Preview.of(parse(config, flags))
    generations = -(-GROUPS // preview.prompts)  # rounded up
    generations = max(2 * len(sizes), min(6 * len(sizes), generations))
    steps = generations * preview.updates_per_generation
    say(
        f"measuring   {steps} training steps at learning rate 0, which leave the model as it is\n"
        f"            of {preview.prompts} prompts x {', '.join(map(str, sizes))} rollouts\n"
        f"output      {folder}"
    )

    spec = parse(config, [*flags, f"--max_steps={steps}"])
    recorded = spec.flat()  # building the trainer changes the settings
    trainer = build_trainer(spec, load_data(spec), progress)
    trainer.recorder.config = recorded
    for callback in (_VaryRollouts(trainer, sizes, preview.updates_per_generation), *callbacks):
        trainer.add_callback(callback)
    trainer.train()
    return RunFolder(folder)
