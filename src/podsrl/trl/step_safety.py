"""No step of the optimiser that rests on nothing: without a scored rollout, or on NaN."""

from typing import Any

import torch
from trl import GRPOTrainer

from podsrl.trl.messages import logger
from podsrl.trl.run_state import RunState


class StepSafety(GRPOTrainer):
    """A step whose gradient is not finite, or rests on no scored rollout, moves no weight.

    Two things would otherwise go wrong. One NaN in a gradient makes every weight NaN, and a night's
    run is lost. And where a grading service is down, all rewards are missing: the advantages are 0,
    but weight decay and the optimiser's momentum would still move the weights.

    DeepSpeed clips and steps by itself, so it moves them all the same.
    """

    run_state: RunState

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """TRL's step; remembers whether the gradients so far rest on any scored rollout."""
        loss = super().training_step(*args, **kwargs)
        self.run_state.gradients_are_scored |= self.run_state.batch_is_scored
        return loss

    def _get_grad_norm(self, *args: Any, **kwargs: Any) -> Any:
        # transformers asks for the norm between the last backward pass and the optimiser's step.
        norm = super()._get_grad_norm(*args, **kwargs)
        is_finite = norm is None or bool(torch.as_tensor(norm).isfinite())
        is_scored = self.run_state.gradients_are_scored
        self.run_state.gradients_are_scored = False

        if not (is_finite and is_scored):
            why = "no rollout could be scored" if is_finite else "the gradient is not finite"
            logger.warning("step %d: %s", self.state.global_step + 1, why)
            # Without gradients torch's optimisers move nothing, nor do they decay.
            self.optimizer.zero_grad(set_to_none=True)  # type: ignore[union-attr]
        return norm
