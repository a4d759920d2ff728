"""The state of a run between its steps, with one owner, which saves and restores it."""

from dataclasses import dataclass, field, fields
from typing import Any

from podsrl.trl.clock import PhaseClock

#: What is counted over all steps, logged as pods/<name>, and kept in checkpoints. A counter that is
#: not named here is neither.
TOTALS = ("rollouts_generated", "rollouts_trained", "rows_passed", "tokens_generated")


@dataclass
class RunState:
    """Counters, flags and clock of a run of `PODSTrainer`, on this process.

    `DownSampling` raises the counters at the end of a generation, except `rows_passed`, which
    `PassSparing.count` does.

    Args:
        rollouts_generated: The rollouts of all processes that were generated so far.
        rollouts_trained: Those of them that the update saw.
        rows_passed: Rows of all processes that had a pass, counted in every pass.
        tokens_generated: The tokens of all rollouts, with those of their prompts.
        generations_of_step: The generations for the optimiser step that is not yet done; 0 again at
            its end.
        batch_is_scored: Whether the rows in TRL's buffer rest on any rollout that was scored.
        steps_without_reward: The last optimiser steps that rested on no scored rollout.
        gradients_are_scored: Whether the gradients that are summed so far do; see `StepGuard`.
        clock: The seconds of training, by phase.
    """

    rollouts_generated: int = 0
    rollouts_trained: int = 0
    rows_passed: int = 0
    tokens_generated: int = 0
    generations_of_step: int = 0
    batch_is_scored: bool = False
    steps_without_reward: int = 0
    gradients_are_scored: bool = False
    clock: PhaseClock = field(default_factory=PhaseClock)

    def reset(self) -> None:
        """Begin anew, as a second `train()` of one trainer does."""
        for counter in fields(self):
            if counter.name != "clock":
                setattr(self, counter.name, counter.default)
        self.clock.training_seconds = 0.0

    def totals(self) -> dict[str, int]:
        """The counts over all steps."""
        return {name: getattr(self, name) for name in TOTALS}

    def state_dict(self) -> dict[str, Any]:
        """The state that a resumed run goes on from; at a checkpoint no step is under way."""
        return {
            **self.totals(),
            "batch_is_scored": self.batch_is_scored,
            "training_seconds": self.clock.training_seconds,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        for name in TOTALS:
            setattr(self, name, state[name])
        self.batch_is_scored = state["batch_is_scored"]
        self.clock.training_seconds = state["training_seconds"]
