"""Around an optimiser step: steps without any reward, metrics, and the next n."""

import logging
from typing import Any

from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback

from podsrl.trl.clock import peak_memory

logger = logging.getLogger(__name__)


class StepCallback(TrainerCallback):
    """What `PODSTrainer` does around an optimiser step.

    Args:
        trainer: the `PODSTrainer`.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Without gradients the optimiser moves nothing: no momentum, no weight decay."""
        if not self.trainer._scorable_gradients:
            logger.warning("step %d: no rollout could be scored; no update", state.global_step + 1)
            kwargs["optimizer"].zero_grad(set_to_none=True)
        self.trainer._scorable_gradients = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Log the step's seconds by phase and the totals so far; choose the next n."""
        trainer, metrics = self.trainer, self.trainer._metrics["train"]
        for phase, seconds in trainer.clock.last_step.items():
            metrics[f"pods/seconds_{phase}"].append(seconds)
        metrics["pods/peak_memory"] = [float(peak_memory())]
        metrics["pods/training_seconds"] = [trainer.clock.training_seconds]
        metrics["pods/rollouts_generated"] = [float(trainer.rollouts_generated)]
        metrics["pods/rollouts_trained"] = [float(trainer.rollouts_trained)]
        metrics["pods/tokens_generated"] = [float(trainer.tokens_generated)]
        if trainer.auto is not None and trainer.auto.chosen is None:
            self._choose(trainer.auto)
        trainer._in_step.clear()
        trainer._between_micro_batches = False

    def _choose(self, auto: Any) -> None:
        """Tell what the step generated, and what it took the main process, on every process."""
        trainer = self.trainer
        weights, batches = trainer.args.selection_weights, trainer._in_step
        selected_by = [batch.rewards_to_select_by(weights).double().tolist() for batch in batches]
        rewards = [group for groups in selected_by for group in groups]
        lengths = [len(ids) for b in trainer._in_step for ids in b.rollouts["completion_ids"] or ()]
        seconds = [trainer.clock.last_step]
        if trainer.accelerator.num_processes > 1:
            broadcast_object_list(seconds)
        trainer.num_rollouts = auto.observe(rewards, lengths, seconds[0], trainer._generates_next())
        if auto.chosen is not None:
            trainer._say("num_rollouts auto: %s", auto.reason)
