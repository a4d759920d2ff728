"""What an optimiser step costs in seconds, by its rollouts and the rows of its update."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats

from podsrl.errors import InvalidInputError


class Sizes(NamedTuple):
    """Of an optimiser step: prompts, and for each n rollouts generated and m kept.

    m = 1: the best rollout of each prompt, with the advantage that it has among all n.

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

    @property
    def plain(self) -> "Sizes":
        """Plain GRPO of the same rows: n = m, which is at least 2."""
        m = max(2, self.m)
        return Sizes(max(1, self.rows // m), m, m)

    def __str__(self) -> str:
        prompts = "1 prompt" if self.prompts == 1 else f"{self.prompts} prompts"
        return f"{prompts}, {self.n} -> {self.m}{' (the best)' if self.m == 1 else ''}"


class Batch(NamedTuple):
    """How TRL counts the rows of a step: rows of a process at once, accumulation, processes.

    spares: whether rows without a gradient may be left out, as `skip_zero_advantage` does.
    """

    rows: int
    accumulation: int = 1
    processes: int = 1
    spares: bool = True

    def of_rows(self, rows: int) -> "Batch":
        """Rows per step on the same processes, at most as many at once; the rest accumulates."""
        of_process = rows // self.processes
        at_once = max(size for size in range(1, self.rows + 1) if of_process % size == 0)
        return self._replace(rows=at_once, accumulation=of_process // at_once)

    def passed(self, sizes: Sizes, chance: float) -> float:
        """Mean rows with a pass, where each prompt teaches by chance.

        Of K rows with a gradient on D devices with A micro-batches each, every device passes as
        many: they are filled up to L = DA ceil(K / DA) rows, at least one in each micro-batch. A
        micro-batch of which all rows are filled up has no pass, except the last.
        """
        if not self.spares:
            return float(sizes.rows)
        batch = self.of_rows(sizes.rows)
        micro_batches = batch.accumulation * batch.processes

        # For every number of prompts that may teach.
        teaching_T = np.arange(sizes.prompts + 1)
        taught_T = teaching_T * sizes.m
        left_T = micro_batches * np.maximum(1, -(-taught_T // micro_batches))
        in_micro_batch_T = left_T // batch.accumulation
        idle_T = stats.hypergeom.pmf(0, left_T, taught_T, in_micro_batch_T)
        with_pass_T = 1 + (batch.accumulation - 1) * (1 - idle_T)
        rows_T = left_T / batch.accumulation * with_pass_T
        probability_T = stats.binom.pmf(teaching_T, sizes.prompts, min(1.0, chance))
        return float(probability_T @ rows_T)

    @property
    def grpo(self) -> str:
        """What it is compared with, in words."""
        return "GRPO with skip_zero_advantage" if self.spares else "plain GRPO"


class Timing(NamedTuple):
    """One measured optimiser step: rollouts generated, rows trained, seconds by phase, and tokens.

    passed: rows that had one, or several. score: and selecting. tokens: mean of a rollout.
    """

    rollouts: float
    rows: float
    passed: float
    generate: float
    score: float
    update: float
    tokens: float


@dataclass(frozen=True)
class Line:
    """Seconds of a step: what a call costs whatever its size, and what each rollout adds."""

    fixed: float
    each: float

    @classmethod
    def through(cls, points: Iterable[tuple[float, float]]) -> "Line":
        """Near the median seconds of each size, with the least relative errors, never falling.

        Of two the smaller: what disturbs a timing makes it longer. Sizes that hardly differ tell
        nothing of a fixed part, so seconds are proportional. points: sizes and seconds.

        Raises:
            InvalidInputError: no point, a size not above 0, or seconds that are no number >= 0.
        """
        by_size: dict[float, list[float]] = {}
        for size, value in points:
            by_size.setdefault(size, []).append(value)
        sizes = np.array(list(by_size))
        seconds = np.array([statistics.median_low(values) for values in by_size.values()])
        if not by_size or not ((sizes > 0) & (seconds >= 0) & (seconds < np.inf)).all():
            raise InvalidInputError(f"a cost needs seconds >= 0 at one size or more; got {by_size}")
        if sizes.max() < 1.5 * sizes.min() or not seconds.any():
            return cls(0.0, float(np.median(seconds / sizes)))

        # Least squares of relative errors, with both parts at least 0.
        weights = np.sqrt([len(values) for values in by_size.values()])
        weights = weights / np.maximum(seconds, 1e-3 * seconds.max())
        coefficients = np.stack([weights, weights * sizes], axis=1)
        fixed, each = optimize.nnls(coefficients, weights * seconds)[0]
        return cls(float(fixed), float(each))

    def __call__(self, size: float) -> float:
        """Seconds at that size."""
        return self.fixed + self.each * size


@dataclass(frozen=True)
class Costs:
    """Seconds of an optimiser step: generate and score its rollouts, update on its rows.

    timed_at: rollouts of the only measured size, where generating is taken as proportional.
    """

    generate: Line
    update: Line
    score: Line = Line(0.0, 0.0)
    timed_at: float | None = None

    @classmethod
    def of_rollouts(cls, generate: float, update: float, score: float = 0.0) -> "Costs":
        """Costs that are given in seconds per rollout and per row: proportional to them.

        >>> Costs.of_rollouts(generate=0.05, update=0.42).phases(Sizes(1, 64, 16), passed=16)
        {'generate': 3.2, 'score': 0.0, 'update': 6.72}
        """
        if not generate + score + update > 0:
            raise InvalidInputError("at least one phase must take time")
        return cls(
            generate=Line.through([(1, generate)]),
            update=Line.through([(1, update)]),
            score=Line.through([(1, score)]),
        )

    @classmethod
    def of_timings(cls, timings: Sequence[Timing]) -> "Costs":
        """Costs from measured steps.

        As prompts differ in length, generating and updating are timed per token, and then counted
        for the mean length of all steps.

        Raises:
            InvalidInputError: no steps, or steps that took no time at all.
        """
        if not timings:
            raise InvalidInputError("no step was measured")
        mean_tokens = float(np.mean([timing.tokens for timing in timings]))
        generate = []
        update = []
        for timing in timings:
            longer = mean_tokens / timing.tokens if timing.tokens > 0 else 1.0
            generate.append((timing.rollouts, timing.generate * longer))
            update.append((timing.passed, timing.update * longer))

        sizes = {timing.rollouts for timing in timings}
        costs = cls(
            generate=Line.through(generate),
            update=Line.through(update),
            score=Line.through((timing.rollouts, timing.score) for timing in timings),
            timed_at=sizes.pop() if len(sizes) == 1 else None,
        )
        if not any(line(1) for line in (costs.generate, costs.update, costs.score)):
            raise InvalidInputError("the measured steps took no time")
        return costs

    def ratio(self, rows: int) -> float:
        """g/u, seconds of generating so many rollouts over those of updating on as many rows."""
        return self.generate(rows) / (self.update(rows) or np.nan)

    def phases(self, sizes: Sizes, passed: float) -> dict[str, float]:
        """Seconds per step, by phase; passed: the rows that have a pass."""
        return {
            "generate": self.generate(sizes.rollouts),
            "score": self.score(sizes.rollouts),
            "update": self.update(passed),
        }
