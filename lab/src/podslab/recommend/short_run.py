"""A short run that measures what generating and updating cost, and how often prompts are solved."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transformers import TrainerCallback

from podslab.evaluation.sampling import Progress
from podslab.training.preflight import checked_spec
from podslab.training.preview import Preview
from podslab.training.run import build_trainer, load_data
from podslab.training.spec import Spec, parse
from podsrl.rollout_log.run_folder import RunFolder

#: A short run goes on until this many prompts were seen, for at most three times the steps.
GROUPS = 32


class _VaryRollouts(TrainerCallback):
    """Gives each generation the next one of several n."""

    def __init__(self, trainer: Any, sizes: Sequence[int], updates: int) -> None:
        self.trainer, self.sizes, self.updates = trainer, sizes, updates

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Set n for the generation that the step begins or goes on with."""
        n = self.sizes[state.global_step // self.updates % len(self.sizes)]
        self.trainer.selection = replace(self.trainer.selection, num_rollouts=n)


@dataclass(frozen=True)
class ShortRun:
    """A run that only measures: generations of several n in turn, until enough prompts were seen.

    It trains at learning rate 0: all is done as in training, and the model stays as it is.
    """

    spec: Spec
    sizes: tuple[int, ...]
    preview: Preview
    steps: int

    @classmethod
    def of(cls, config: Mapping[str, Any], flags: Sequence[str], folder: str) -> "ShortRun":
        """The short run of a config, which is checked; what it writes goes to `folder`."""
        m = int(checked_spec(config, flags).training.num_generations or 0)
        sizes = tuple(m * times for times in (8, 2, 4, 1) if m * times > 1)
        fixed = {
            "num_rollouts": max(sizes), "learning_rate": 0, "evaluation_problems": 0,
            "save_strategy": "no", "report_to": "none", "rollout_log": True, "logging_steps": 1,
            "arm": "measured", "output_dir": folder,
        }  # fmt: skip
        flags = [*flags, *(f"--{name}={value}" for name, value in fixed.items())]
        preview = Preview.of(parse(config, flags))
        least, most = 2 * len(sizes), 6 * len(sizes)
        generations = max(least, min(most, -(-GROUPS // preview.prompts)))
        steps = generations * preview.updates_per_generation
        return cls(parse(config, [*flags, f"--max_steps={steps}"]), sizes, preview, steps)

    def describe(self) -> str:
        """What it will do."""
        sizes = ", ".join(map(str, self.sizes))
        return (
            f"measuring   {self.steps} training steps at learning rate 0, which leave the model as"
            f" it is\n            of {self.preview.prompts} prompts x {sizes} rollouts\n"
            f"output      {self.spec.training.output_dir}"
        )

    def run(self, callbacks: Sequence[Any], progress: Callable[[str], Progress]) -> RunFolder:
        """Do it; the folder of the run."""
        config = self.spec.flat()
        trainer = build_trainer(self.spec, load_data(self.spec), progress)
        trainer.recorder.config = config
        vary = _VaryRollouts(trainer, self.sizes, self.preview.updates_per_generation)
        for callback in (vary, *callbacks):
            trainer.add_callback(callback)
        trainer.train()
        return RunFolder(str(self.spec.training.output_dir))
