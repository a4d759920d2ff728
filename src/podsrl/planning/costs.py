"""What an optimiser step costs in seconds, as a function of n and m."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from podsrl.errors import InvalidInputError


class Timing(NamedTuple):
    """One measured optimiser step: its n and m, seconds by phase, and mean tokens a rollout."""

    n: int
    m: int
    generate: float
    score: float
    select: float
    update: float
    tokens: float


@dataclass(frozen=True)
class Curve:
    """Seconds a step against rollouts a prompt, measured at one or several sizes.

    Between sizes it is interpolated linearly; beyond them the nearest stretch goes on, below never
    under what is proportional to the smallest. One size alone is taken as proportional. More
    rollouts never take less time: where a measurement says so, it is noise, and the larger counts.

    >>> decode = Curve.of({16: 1.0, 64: 2.5})
    >>> decode(32), decode(128), Curve.of({16: 1.0})(32)
    (1.5, 4.5, 2.0)
    """

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @classmethod
    def of(cls, points: Mapping[int, float]) -> "Curve":
        """A curve through size: seconds.

        Raises:
            InvalidInputError: none, a size below 1, or seconds that are no number >= 0.
        """
        sizes = tuple(sorted(points))
        seconds = tuple(float(points[size]) for size in sizes)
        if not sizes or sizes[0] < 1 or not all(0 <= s < np.inf for s in seconds):
            raise InvalidInputError(
                f"a cost needs seconds >= 0 at one size >= 1 or more; got {dict(points)!r}"
            )
        return cls(sizes, tuple(np.maximum.accumulate(seconds).tolist()))

    def __call__(self, size: float) -> float:
        """Seconds at that size."""
        x, y = self.sizes, self.seconds
        proportional = y[0] * size / x[0]
        if len(x) == 1:
            return proportional
        if size < x[0]:
            return max(proportional, y[0] + (size - x[0]) * (y[1] - y[0]) / (x[1] - x[0]))
        if size > x[-1]:
            return y[-1] + (size - x[-1]) * (y[-1] - y[-2]) / (x[-1] - x[-2])
        return float(np.interp(size, x, y))


@dataclass(frozen=True)
class Costs:
    """Seconds of one optimiser step: T(n, m) = generate(n) + score(n) + select(n) + update(m).

    Each is for all prompts of a step; what doesn't depend on the size is part of its curve.
    """

    generate: Curve
    update: Curve
    score: Curve = Curve((1,), (0.0,))
    select: Curve = Curve((1,), (0.0,))

    @classmethod
    def of_rollouts(
        cls, generate: float, update: float, score: float = 0.0, prompts: float = 1.0
    ) -> "Costs":
        """Costs that are given in seconds a rollout: proportional to n and m.

        >>> Costs.of_rollouts(generate=0.05, update=0.42).seconds(64, 16)
        9.92
        """
        if not generate + score + update > 0:
            raise InvalidInputError("at least one phase must take time")
        return cls(
            generate=Curve.of({1: prompts * generate}),
            update=Curve.of({1: prompts * update}),
            score=Curve.of({1: prompts * score}),
        )

    @classmethod
    def of_timings(cls, timings: Sequence[Timing]) -> "Costs":
        """Costs from measured steps, in the order they were made.

        Of each n the first step is left out if there are others, and of the updates the first of
        all: first calls are slow. As prompts differ in length, time to generate is measured per
        token, and then counted for the mean length of all steps.

        Raises:
            InvalidInputError: no steps, or steps that took no time at all.
        """
        if not timings:
            raise InvalidInputError("no step was measured")
        tokens = _mean(timings, lambda t: t.tokens)
        warm = {}
        for n in {t.n for t in timings}:
            of_size = [t for t in timings if t.n == n]
            warm[n] = of_size[1:] or of_size
        generate, score, select = {}, {}, {}
        for n, steps in warm.items():
            length = _mean(steps, lambda t: t.tokens)
            longer = tokens / length if length > 0 else 1.0
            generate[n] = _mean(steps, lambda t: t.generate) * longer
            score[n] = _mean(steps, lambda t: t.score)
            select[n] = _mean(steps, lambda t: t.select)
        later = list(timings[1:]) or list(timings)
        updates = {
            m: _mean([t for t in later if t.m == m], lambda t: t.update)
            for m in {t.m for t in later}
        }
        costs = cls(Curve.of(generate), Curve.of(updates), Curve.of(score), Curve.of(select))
        if not costs.seconds(max(generate), max(updates)) > 0:
            raise InvalidInputError("the measured steps took no time")
        return costs

    def phases(self, n: int, m: int) -> dict[str, float]:
        """Seconds a step, by phase."""
        return {
            "generate": self.generate(n),
            "score": self.score(n),
            "select": self.select(n),
            "update": self.update(m),
        }

    def seconds(self, n: int, m: int) -> float:
        """T(n, m): seconds a step."""
        return sum(self.phases(n, m).values())


def _mean(timings: Sequence[Timing], value: Callable[[Timing], float]) -> float:
    return float(np.mean([value(timing) for timing in timings]))
