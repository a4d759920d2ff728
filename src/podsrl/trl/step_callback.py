"""Around an optimiser step: steps without any reward, and metrics of the step."""

from typing import Any

from transformers import TrainerCallback

from podsrl.trl.clock import peak_memory
from podsrl.trl.messages import logger


class StepCallback(TrainerCallback):
    """What `PODSTrainer` does around an optimiser step.

    Args:
        trainer: The `PODSTrainer`.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Without gradients the optimiser moves nothing: no momentum, no weight decay."""
        if not self.trainer.gradients_are_scored:
            logger.warning("step %d: no rollout could be scored; no update", state.global_step + 1)
            kwargs["optimizer"].zero_grad(set_to_none=True)
        self.trainer.gradients_are_scored = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Log the step's seconds by phase and the totals so far."""
        trainer, metrics = self.trainer, self.trainer._metrics["train"]
        for phase, seconds in trainer.clock.last_step.items():
            metrics[f"pods/seconds_{phase}"].append(seconds)
        metrics["pods/peak_memory"] = [float(peak_memory())]
        metrics["pods/training_seconds"] = [trainer.clock.training_seconds]
        for name in ("rollouts_generated", "rollouts_trained", "tokens_generated"):
            metrics[f"pods/{name}"] = [float(getattr(trainer, name))]
        trainer.generations_of_step = 0
