"""How much a run may spend, and where in that its evaluations fall."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podslab.training.spec import Spec

#: Steps for a run that its training time ends: TRL needs a number.
NO_LIMIT = 10_000_000


@dataclass(frozen=True)
class Spent:
    """What a run has spent so far.

    Args:
        steps: Optimiser steps.
        training_seconds: Seconds of training time.
    """

    steps: int
    training_seconds: float


@dataclass(frozen=True)
class Budget:
    """Limits in the units of `Spent`; None is no limit. The first one that is reached ends the run.

    >>> Budget(steps=10).points(Spent(steps=4, training_seconds=9.0), 5)
    2
    """

    steps: int | None = None
    training_seconds: float | None = None

    @classmethod
    def of(cls, spec: "Spec", steps: int | None = None) -> "Budget":
        """The limits that the settings name; `steps`: those that TRL made of epochs, once it has.

        Steps of 0 or less are no limit, as in TRL's settings.
        """
        if not steps and spec.training.max_steps > 0:
            steps = spec.training.max_steps
        return cls(steps or None, spec.run.max_training_seconds)

    def points(self, spent: Spent, number: int) -> int:
        """How many of `number` evenly spaced points are behind what was spent, at most `number`."""
        passed = [0]
        if self.steps is not None:
            passed.append(spent.steps * number // self.steps)
        if self.training_seconds is not None:
            passed.append(int(spent.training_seconds * number // self.training_seconds))
        return min(max(passed), number)

    def is_spent(self, spent: Spent) -> bool:
        """Whether any limit has been reached."""
        return self.points(spent, 1) == 1
