"""No step of the optimiser that rests on nothing: without a scored rollout, or on NaN."""

from typing import TYPE_CHECKING, Any

import torch

from podsrl.errors import RewardError, UnsupportedError
from podsrl.trl.messages import logger
from podsrl.trl.reporting import STEPS_WITHOUT_REWARD
from podsrl.trl.run_state import RunState

if TYPE_CHECKING:
    from podsrl.trl.seam import Seam


class StepGuard:
    """A step whose gradient is not finite, or rests on no scored rollout, moves no weight.

    Two things would otherwise go wrong. One NaN in a gradient makes every weight NaN, and a night's
    run is lost. And where a grading service is down, all rewards are missing: the advantages are 0,
    but weight decay and the optimiser's momentum would still move the weights.

    DeepSpeed clips and steps by itself, so it moves them all the same.

    Args:
        trainer: TRL's trainer, whose steps are guarded.
        state: What says on what the batch rests.
    """

    def __init__(self, trainer: "Seam", state: RunState) -> None:
        self._trainer = trainer
        self._state = state
        self._micro_batches = 0  # of the step so far

    def has_micro_batch(self) -> None:
        """A micro-batch was prepared; its gradient will be added to those of the step."""
        self._state.gradients_are_scored |= self._state.batch_is_scored
        self._micro_batches += 1

    def before_step(self, norm: Any) -> None:
        """Take the gradients away where the step may not be made.

        Raises:
            UnsupportedError: No micro-batch came from podsrl: a subclass prepares its own.
            RewardError: Nothing has been scored for so many steps that the run ends.
        """
        trainer = self._trainer
        if not self._micro_batches:
            raise UnsupportedError(
                f"{type(trainer).__name__} prepares its micro-batches without"
                " PODSTrainer._prepare_inputs, so nothing was selected: call"
                " super()._prepare_inputs(...) in its own"
            )
        self._micro_batches = 0

        state = self._state
        is_finite = norm is None or bool(torch.as_tensor(norm).isfinite())
        is_scored = state.gradients_are_scored
        state.gradients_are_scored = False
        state.steps_without_reward = 0 if is_scored else state.steps_without_reward + 1
        self._end_without_reward()

        if not (is_finite and is_scored):
            why = "no rollout could be scored" if is_finite else "the gradient is not finite"
            if trainer.accelerator.is_main_process:
                logger.warning("step %d: %s", trainer.state.global_step + 1, why)
            # Without gradients torch's optimisers move nothing, nor do they decay.
            trainer.optimizer.zero_grad(set_to_none=True)  # type: ignore[union-attr]

    def _end_without_reward(self) -> None:
        """End a run that nothing scores any more; all processes know it alike."""
        without = self._state.steps_without_reward
        if without >= STEPS_WITHOUT_REWARD:
            names = ", ".join(self._trainer.reward_func_names)
            raise RewardError(
                f"for {without} steps no rollout got a reward: {names} returned None or NaN for"
                " every one. Look at what they are given, or at the service that grades;"
                " resume_from_checkpoint=True goes on from the last checkpoint"
            )
