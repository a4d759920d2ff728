"""What an optimiser step costs in seconds, by its rollouts and the rows of its update."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import optimize

from podsrl.errors import InvalidInputError

_SURE = 3  # timings of a size that are enough to believe them


class Sizes(NamedTuple):
    """Of an optimiser step: prompts, and for each n rollouts generated and m kept.

    >>> print(Sizes(8, 8, 2), Sizes(8, 8, 2).rows, sep=": ")
    8 prompts, 8 -> 2: 16
    """

    prompts: int
    n: int
    m: int

    @property
    def rollouts(self) -> int:
        """Generated in a step."""
        return self.prompts * self.n

    @property
    def rows(self) -> int:
        """Kept in a step, what the update sees: they decide its memory."""
        return self.prompts * self.m

    def __str__(self) -> str:
        prompts = "1 prompt" if self.prompts == 1 else f"{self.prompts} prompts"
        return f"{prompts}, {self.n} -> {self.m}"


class Timing(NamedTuple):
    """One measured optimiser step: rollouts generated, rows trained, seconds by phase, and tokens.

    tokens: mean of a rollout.
    """

    rollouts: float
    rows: float
    generate: float
    score: float
    select: float
    update: float
    tokens: float


@dataclass(frozen=True)
class Curve:
    """Seconds per step against rollouts or rows per step, measured at one or several sizes.

    Between sizes it is interpolated linearly; beyond them the nearest stretch goes on, below never
    under what is proportional to the smallest. One size alone is taken as proportional.

    >>> decode = Curve.of({16: 1.0, 64: 2.5})
    >>> decode(32), decode(128), Curve.of({16: 1.0})(32)
    (1.5, 4.5, 2.0)
    """

    sizes: tuple[float, ...]
    seconds: tuple[float, ...]

    @classmethod
    def of(
        cls, points: Mapping[float, float], weights: Mapping[float, float] | None = None
    ) -> "Curve":
        """A curve through size: seconds, or near it: more rollouts never take less time.

        Where a measurement says they do, it is noise, and sizes get the mean of their neighbours
        (isotonic regression).

        Args:
            points: seconds by size.
            weights: how much each size counts in such a mean; default: the same.

        Raises:
            InvalidInputError: none, a size below 1, or seconds that are no number >= 0.
        """
        sizes = tuple(sorted(points))
        seconds = tuple(float(points[size]) for size in sizes)
        if not sizes or sizes[0] < 1 or not all(0 <= s < np.inf for s in seconds):
            raise InvalidInputError(
                f"a cost needs seconds >= 0 at one size >= 1 or more; got {dict(points)!r}"
            )
        counts = [(weights or {}).get(size, 1.0) for size in sizes]
        rising = optimize.isotonic_regression(seconds, weights=counts).x
        return cls(sizes, tuple(rising.tolist()))

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
    """Seconds of one optimiser step: generate, score and select its rollouts, update on its rows.

    What doesn't depend on the size is part of its curve.
    """

    generate: Curve
    update: Curve
    score: Curve = Curve((1,), (0.0,))
    select: Curve = Curve((1,), (0.0,))

    @classmethod
    def of_rollouts(cls, generate: float, update: float, score: float = 0.0) -> "Costs":
        """Costs that are given in seconds per rollout and per row: proportional to them.

        >>> Costs.of_rollouts(generate=0.05, update=0.42).seconds(Sizes(1, 64, 16))
        9.92
        """
        if not generate + score + update > 0:
            raise InvalidInputError("at least one phase must take time")
        return cls(*(Curve.of({1: given}) for given in (generate, update, score)))

    @classmethod
    def of_timings(cls, timings: Sequence[Timing]) -> "Costs":
        """Costs from measured steps.

        For each size the median, of two the smaller: what disturbs a timing, a first call or other
        work on the machine, makes it longer. Where a size was timed less than three times, one
        such disturbance could decide, and the sizes get what a straight line through all of them
        says. As prompts differ in length, generating and updating are timed per token, and then
        counted for the mean length of all steps.

        Raises:
            InvalidInputError: no steps, or steps that took no time at all.
        """
        if not timings:
            raise InvalidInputError("no step was measured")
        mean = float(np.mean([timing.tokens for timing in timings]))
        longer = [mean / timing.tokens if timing.tokens > 0 else 1.0 for timing in timings]
        sizes, rows = [t.rollouts for t in timings], [t.rows for t in timings]
        costs = cls(
            generate=_curve(sizes, [t.generate * f for t, f in zip(timings, longer, strict=True)]),
            update=_curve(rows, [t.update * f for t, f in zip(timings, longer, strict=True)]),
            score=_curve(sizes, [t.score for t in timings]),
            select=_curve(sizes, [t.select for t in timings]),
        )
        if not costs.generate(max(sizes)) + costs.score(max(sizes)) + costs.update(max(rows)) > 0:
            raise InvalidInputError("the measured steps took no time")
        return costs

    def phases(self, sizes: Sizes) -> dict[str, float]:
        """Seconds per step, by phase."""
        return {
            "generate": self.generate(sizes.rollouts),
            "score": self.score(sizes.rollouts),
            "select": self.select(sizes.rollouts),
            "update": self.update(sizes.rows),
        }

    def seconds(self, sizes: Sizes) -> float:
        """Seconds per step."""
        return sum(self.phases(sizes).values())


def _curve(sizes: Sequence[float], seconds: Sequence[float]) -> Curve:
    by_size: dict[float, list[float]] = {}
    for size, value in zip(sizes, seconds, strict=True):
        by_size.setdefault(size, []).append(value)
    medians = {size: statistics.median_low(values) for size, values in by_size.items()}
    counts = {size: len(values) for size, values in by_size.items()}
    if min(counts.values()) < _SURE and min(medians.values()) > 0:
        medians = _line(medians, counts)
    return Curve.of(medians, counts)


def _line(points: Mapping[float, float], counts: Mapping[float, int]) -> dict[float, float]:
    """The points moved onto a + b size, a and b >= 0, with the least squares of relative errors."""
    weights = np.sqrt([counts[size] for size in points])
    relative = weights / np.array(list(points.values()))
    sizes = np.array(list(points), dtype=float)
    (a, b), _ = optimize.nnls(np.stack([relative, relative * sizes], axis=1), weights)
    return {size: float(a + b * size) for size in points}
