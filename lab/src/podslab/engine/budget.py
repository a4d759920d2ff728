"""The budget of a run, and the points of it at which the run is measured."""

from dataclasses import dataclass, replace

from podsrl.errors import InvalidInputError

#: Steps for a run that another limit ends: TRL needs a number.
NO_LIMIT = 10_000_000


@dataclass(frozen=True)
class Spent:
    """The spending of a run so far.

    Args:
        steps: Optimiser steps.
        training_seconds: Seconds of training time.
        rollouts: Rollouts that were generated.
        rows_passed: Rows that had a forward and a backward pass, counted in every pass.
    """

    steps: int
    training_seconds: float
    rollouts: int = 0
    rows_passed: int = 0


@dataclass(frozen=True)
class Prices:
    """The price of what a step does, in place of the seconds of a machine.

    A run with a priced budget stops at the same step on every machine.

    Args:
        rollout: The price of generating one rollout.
        row: The price of one forward and backward pass over one row.
    """

    rollout: float
    row: float

    def __post_init__(self) -> None:
        if not (self.rollout >= 0 and self.row >= 0 and self.rollout + self.row > 0):
            raise InvalidInputError(
                "the prices of a rollout and of a row must be 0 or more, and not both 0; got"
                f" {self.rollout} and {self.row}"
            )

    def of(self, spent: Spent) -> float:
        """The price of what was spent.

        >>> Prices(rollout=0.5, row=1.0).of(Spent(1, 9.0, rollouts=64, rows_passed=16))
        48.0
        """
        return self.rollout * spent.rollouts + self.row * spent.rows_passed


@dataclass(frozen=True)
class Budget:
    """Limits of what a run may spend; None is no limit. The first one that is reached ends the run.

    Args:
        steps: Optimiser steps.
        training_seconds: Seconds of training time.
        rollouts: Rollouts that are generated.
        price: The price of rollouts and rows.
        prices: What a rollout and a row cost; needed for `price`.

    >>> Budget(steps=10).points(Spent(steps=4, training_seconds=9.0), 5)
    2
    >>> priced = Budget(price=96.0, prices=Prices(rollout=0.5, row=1.0))
    >>> priced.points(Spent(1, 9.0, rollouts=64, rows_passed=16), 4)
    2
    """

    steps: int | None = None
    training_seconds: float | None = None
    rollouts: int | None = None
    price: float | None = None
    prices: Prices | None = None

    def __post_init__(self) -> None:
        if self.price is not None and self.prices is None:
            raise InvalidInputError("a budget by price needs the prices of a rollout and of a row")

    def with_steps(self, steps: int) -> "Budget":
        """The same budget where TRL has made a number of steps of epochs; 0 or less is no limit."""
        return replace(self, steps=steps) if self.steps is None and steps > 0 else self

    def points(self, spent: Spent, number: int) -> int:
        """The number of points that the spent budget has passed, of `number` evenly spaced ones."""
        passed = [0]
        for value, limit in self._limits(spent):
            if limit is not None:
                passed.append(int(value * number // limit))
        return min(max(passed), number)

    def is_spent(self, spent: Spent) -> bool:
        """Whether any limit has been reached."""
        return self.points(spent, 1) == 1

    def _limits(self, spent: Spent) -> list[tuple[float, float | None]]:
        """The spending in each unit, with its limit."""
        price = self.prices.of(spent) if self.prices is not None else 0.0
        return [
            (spent.steps, self.steps),
            (spent.training_seconds, self.training_seconds),
            (spent.rollouts, self.rollouts),
            (price, self.price),
        ]


@dataclass(frozen=True)
class Schedule:
    """When a run is measured.

    Args:
        points: At so many evenly spaced points of the budget, the last at its end.
        every_steps: After every so many steps; None: not by steps.
        at_start: Whether the untrained model is measured.
        saves: Whether each point of the budget leaves a checkpoint.
    """

    points: int = 0
    every_steps: int | None = None
    at_start: bool = True
    saves: bool = False
