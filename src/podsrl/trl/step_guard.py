"""No step of the optimiser that rests on nothing: without a scored rollout, or on NaN."""

from typing import TYPE_CHECKING, Any

import torch

from podsrl.errors import UnsupportedError
from podsrl.trl.messages import logger

if TYPE_CHECKING:
    from podsrl.trl.down_sampling import DownSampling


class StepGuard:
    """A step whose gradient is not finite, or rests on no scored rollout, moves no weight.

    Two things would otherwise go wrong. One NaN in a gradient makes every weight NaN, and a night's
    run is lost. And where a grading service is down, all rewards are missing: the advantages are 0,
    but weight decay and the optimiser's momentum would still move the weights.

    DeepSpeed clips and steps by itself, so it moves them all the same.

    Args:
        pods: Whose state says on what the batch rests.
    """

    def __init__(self, pods: "DownSampling") -> None:
        self._pods = pods
        self._micro_batches = 0  # of the step so far

    def has_micro_batch(self) -> None:
        """A micro-batch was prepared; its gradient will be added to those of the step."""
        state = self._pods.state
        state.gradients_are_scored |= state.batch_is_scored
        self._micro_batches += 1

    def before_step(self, norm: Any) -> None:
        """Take the gradients away where the step may not be made.

        Raises:
            UnsupportedError: No micro-batch came from podsrl: a subclass prepares its own.
        """
        trainer = self._pods.trainer
        if not self._micro_batches:
            raise UnsupportedError(
                f"{type(trainer).__name__} prepares its micro-batches without"
                " PODSTrainer._prepare_inputs, so nothing was selected: call"
                " super()._prepare_inputs(...) in its own"
            )
        self._micro_batches = 0

        state = self._pods.state
        is_finite = norm is None or bool(torch.as_tensor(norm).isfinite())
        is_scored = state.gradients_are_scored
        state.gradients_are_scored = False

        if not (is_finite and is_scored):
            why = "no rollout could be scored" if is_finite else "the gradient is not finite"
            if trainer.accelerator.is_main_process:
                logger.warning("step %d: %s", trainer.state.global_step + 1, why)
            # Without gradients torch's optimisers move nothing, nor do they decay.
            trainer.optimizer.zero_grad(set_to_none=True)  # type: ignore[union-attr]
