"""A grid of n and m with what is recommended of it: as a table in text and as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from podsrl.recommend.choice import Cell, Choice, grid, recommend
from podsrl.recommend.costs import Costs
from podsrl.recommend.populations import Population
from podsrl.recommend.signal import DEFAULT_MEASURE


@dataclass(frozen=True)
class Advice:
    """What to generate and what to keep.

    cells: the grid. plain: plain GRPO at m, which signal is shown relative to. choice: the n to
        take with this m, which decides memory and batch size.
    """

    m: int
    measure: str
    costs: Costs
    cells: Sequence[Cell]
    plain: Cell
    choice: Choice

    def relative(self, cell: Cell) -> float:
        """Signal per second in units of plain GRPO's at m, the predicted speed-up over it."""
        plain = self.plain.per_second(self.measure)
        return cell.per_second(self.measure) / plain if plain else float("nan")

    def table(self) -> str:
        """The grid, one cell per line, and the one recommendation."""
        lines = [
            "n = num_rollouts, m = num_generations; seconds per step.",
            "std: of the kept rewards of a prompt. equal: prompts whose rewards are all equal"
            " (TRL's frac_reward_zero_std).",
            f"signal: what is learned per second; plain GRPO at n = m = {self.m} is 1.\n",
            "    n    m   seconds  generate    update     std   equal  signal",
        ]
        for cell in self.cells:
            phases = self.costs.phases(cell.n, cell.m)
            lines.append(
                f"{cell.n:5d}{cell.m:5d}{cell.seconds:10.4g}{phases['generate']:10.4g}"
                f"{phases['update']:10.4g}{cell.signal.contrast:8.3f}{1 - cell.signal.chance:8.0%}"
                f"{self.relative(cell):8.2f}"
                + ("  <- recommended" if cell == self.choice.cell else "")
            )
        return "\n".join([*lines, "", f"recommended: {self.choice.reason}"])

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values; signal per second is absolute."""
        return {
            "measure": self.measure,
            "m": self.m,
            "recommended": {
                "n": self.choice.cell.n,
                "m": self.choice.cell.m,
                "reason": self.choice.reason,
            },
            "cells": [
                {
                    "n": cell.n,
                    "m": cell.m,
                    "seconds": cell.seconds,
                    "phases": self.costs.phases(cell.n, cell.m),
                    "contrast": cell.signal.contrast,
                    "chance": cell.signal.chance,
                    "signal_per_second": cell.per_second(self.measure),
                }
                for cell in self.cells
            ],
        }


def advise(
    population: Population,
    costs: Costs,
    m: int,
    sizes: Sequence[int] = (),
    kept: Sequence[int] = (),
    measure: str = DEFAULT_MEASURE,
) -> Advice:
    """Compare a grid of n and m.

    Args:
        population: of prompts.
        costs: seconds per step.
        m: kept in the update now.
        sizes: n to compare; default: powers of two times m / 4, up to 8 m.
        kept: m to compare; default: m / 4, m / 2, m and 2 m. m itself is always in.
        measure: one of `MEASURES`, to recommend by.
    """
    kept = sorted({m, *(kept or (size for size in (m // 4, m // 2, 2 * m) if size >= 2))})
    sizes = sizes or [m * 2**i // 4 for i in range(6)]
    cells = grid(population, costs, sizes, kept)
    choice = recommend([cell for cell in cells if cell.m == m], measure)
    plain = next(cell for cell in cells if cell.n == cell.m == m)
    return Advice(m, measure, costs, cells, plain, choice)
