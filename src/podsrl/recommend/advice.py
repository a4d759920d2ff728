"""A grid of n and m with what is recommended of it: as a table in text and as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from podsrl.recommend.choice import Cell, Choice, grid, recommend
from podsrl.recommend.costs import Costs
from podsrl.recommend.populations import Population
from podsrl.recommend.signal import DEFAULT_MEASURE, MEASURES


@dataclass(frozen=True)
class Advice:
    """What to generate and what to keep.

    cells: the grid. plain: plain GRPO at m, which signal is shown relative to.
    at_m: the n to take with this m. of_all: the best of the whole grid, by the measure "noise":
        the others don't count what a smaller m costs in noise.
    """

    m: int
    measure: str
    costs: Costs
    cells: Sequence[Cell]
    plain: Cell
    at_m: Choice
    of_all: Choice

    def relative(self, cell: Cell, measure: str | None = None) -> float:
        """Signal per second in units of plain GRPO's at m, the predicted speed-up over it."""
        measure = measure or self.measure
        plain = self.plain.per_second(measure)
        return cell.per_second(measure) / plain if plain else float("nan")

    def table(self) -> str:
        """The grid, one cell per line, and the recommendation."""
        lines = [
            f"signal per second: plain GRPO at n = m = {self.m} is 1",
            "    n    m    s/step  generate    update  contrast  groups with"
            + "".join(f"{name:>8}" for name in MEASURES),
        ]
        for cell in self.cells:
            phases = self.costs.phases(cell.n, cell.m)
            numbers = "".join(f"{self.relative(cell, name):8.2f}" for name in MEASURES)
            lines.append(
                f"{cell.n:5d}{cell.m:5d}{cell.seconds:11.4g}{phases['generate']:10.4g}"
                f"{phases['update']:10.4g}{cell.signal.contrast:10.3f}{cell.signal.chance:11.0%}  "
                f"{numbers}{self._mark(cell)}"
            )
        lines += ["", f"recommended at m = {self.m}: {self.at_m.reason}"]
        if self.of_all.cell != self.at_m.cell:
            lines.append(f"of the whole grid, by the measure noise: {self.of_all.reason}")
        for name in MEASURES:
            other = recommend([c for c in self.cells if c.m == self.m], name).cell
            if other.n != self.at_m.cell.n:
                lines.append(f"by the measure {name} it would be n = {other.n}")
        return "\n".join(lines)

    def _mark(self, cell: Cell) -> str:
        if cell == self.at_m.cell:
            return f"  <- recommended at m = {self.m}"
        return "  <- best of all" if cell == self.of_all.cell else ""

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values; signal per second is absolute."""
        return {
            "measure": self.measure,
            "m": self.m,
            "recommended": _choice(self.at_m),
            "best_of_all": _choice(self.of_all),
            "cells": [
                {
                    "n": cell.n,
                    "m": cell.m,
                    "seconds": cell.seconds,
                    "phases": self.costs.phases(cell.n, cell.m),
                    "contrast": cell.signal.contrast,
                    "chance": cell.signal.chance,
                    "signal_per_second": {name: cell.per_second(name) for name in MEASURES},
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
    at_m = recommend([cell for cell in cells if cell.m == m], measure)
    of_all = recommend(cells, "noise")
    plain = next(cell for cell in cells if cell.n == cell.m == m)
    return Advice(m, measure, costs, cells, plain, at_m, of_all)


def _choice(choice: Choice) -> dict[str, Any]:
    return {"n": choice.cell.n, "m": choice.cell.m, "reason": choice.reason}
