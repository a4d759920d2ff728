"""How much a run may spend, and where in that its evaluations fall."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podslab.training.spec import Spec

#: Steps for a run that its training time ends: TRL needs a number.
NO_LIMIT = 10_000_000


@dataclass(frozen=True)
class Spent:
    """What a run has spent so far: optimiser steps, and seconds of training time."""

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
        """The limits that the settings name, and the number of steps that follows from them."""
        given = spec.training.max_steps
        return cls(steps or (given if given > 0 else None), spec.run.max_training_seconds)

    def points(self, spent: Spent, number: int) -> int:
        """How many of `number` evenly spaced points are behind what was spent, at most `number`."""
        passed = [
            int(getattr(spent, unit) * number // limit)
            for unit, limit in vars(self).items()
            if limit is not None
        ]
        return min(max(passed, default=0), number)

    def is_spent(self, spent: Spent) -> bool:
        """Has any limit been reached?"""
        return self.points(spent, 1) == 1
