"""What to generate and keep of how many prompts: as a table, as settings, as plain values."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from podslab.recommend.choice import Cell, best, grid, splits, why
from podslab.recommend.costs import Batch, Costs, Sizes
from podslab.recommend.populations import Population
from podslab.recommend.what_pays import WhatPays, what_pays

_BEST = {"downsampling_rule": "max_reward", "advantage_baseline": "group"}
_CONTRAST = {"downsampling_rule": "max_contrast"}  # fills rows that would cost a pass for nothing


@dataclass(frozen=True)
class Advice:
    """What to generate and what to keep.

    Args:
        now: The present sizes.
        costs: What a step costs.
        cells: What is compared.
        plain: GRPO of the present prompts and m, which what is learned is shown relative to.
        choice: What to take.
        reason: Why.
        batch: The rows of a step as TRL counts them.
        population: The prompts.
    """

    now: Sizes
    costs: Costs
    cells: list[Cell]
    plain: Cell
    choice: Cell
    reason: str
    batch: Batch
    population: Population

    @cached_property
    def pays(self) -> WhatPays | None:
        """Whether to drop rows at all; None where there is nothing to choose by."""
        if not self.choice.worth:
            return None
        # With every GRPO, whatever was asked for.
        compared = {cell.sizes for cell in self.cells}
        others = [size for size in splits(self.now.rows) if size.n == size.m]
        others = [size for size in others if size not in compared]
        cells = self.cells + grid(self.population, self.costs, others, self.batch)
        return what_pays(self.costs, cells, self.batch)

    def relative(self, cell: Cell) -> float:
        """What is learned per second over that GRPO's, the predicted speed-up; NaN if it is 0."""
        return cell.per_second / (self.plain.per_second or float("nan"))

    def table(self) -> str:
        """The grid, one cell per line, the one recommendation, and its settings."""
        lines = [f"{self.pays}\n"] if self.pays else []
        lines += [
            f"Ways to spend {self.now.rows} rows per step; n = num_rollouts, m = num_generations.",
            "m = 1: the best rollout, with its advantage among all n. std: of a prompt's kept"
            " rewards; with m = 1 the push of the best. equal: prompts of equal rewards, without"
            f" a gradient. learned: per second; {self.plain.sizes}, {self.batch.grpo}, is 1.\n",
            "prompts    n    m   seconds  generate    update     std   equal  learned",
        ]
        lines += [self._row(cell) for cell in self.cells]

        lines += ["", f"recommended: {self.reason}."]
        if self._is_largest_n():
            lines.append(
                f"no larger n than {self.choice.sizes.n} was compared; --n compares others"
            )
        if self.costs.timed_at is not None:
            lines.append(
                f"generation was timed at one size, {self.costs.timed_at:g} rollouts: larger sizes"
                " may be better than shown. `pods recommend --config FILE` times several"
            )

        settings = self.settings()
        if settings:
            lines.append("\nthe settings of TRL and podsrl for it:")
            lines += [f"  {name}: {value}" for name, value in settings.items()]
        return "\n".join(lines)

    def _row(self, cell: Cell) -> str:
        prompts, n, m = cell.sizes
        equal = abs(1 - cell.signal.chance)  # never "-0 %", which rounding may give
        learned = f"{self.relative(cell):9.2f}".replace("nan", "  —")
        mark = "  <- recommended" if cell == self.choice and cell.worth else ""
        return (
            f"{prompts:7d}{n:5d}{m:5d}{cell.seconds:10.4g}{cell.phases['generate']:10.4g}"
            f"{cell.phases['update']:10.4g}{cell.signal.contrast:8.3f}{equal:8.0%}{learned}{mark}"
        )

    def _is_largest_n(self) -> bool:
        """Whether what is recommended drops rows, and no larger n was compared at its m."""
        _, n, m = self.choice.sizes
        compared = [cell.sizes.n for cell in self.cells if cell.sizes.m == m]
        return bool(self.choice.worth) and n == max(compared) > m

    def settings(self) -> dict[str, Any]:
        """What to write into a config: rows per device x accumulation x processes = prompts x m.

        Empty where there is nothing to choose by.
        """
        if not self.choice.worth:
            return {}
        sizes = self.choice.sizes
        batch = self.batch.of_rows(sizes.rows)
        return {
            "num_rollouts": sizes.n,
            "num_generations": sizes.m,
            **self._what_is_kept(),
            "per_device_train_batch_size": batch.rows,
            "gradient_accumulation_steps": batch.accumulation,
        }

    def _what_is_kept(self) -> dict[str, Any]:
        sizes = self.choice.sizes
        if sizes.m == 1:
            return dict(_BEST if self.batch.spares else _CONTRAST)
        if sizes.n > sizes.m:  # where skip_zero_advantage is the default
            rule = getattr(self.population, "rule", "max_variance")
            return {"downsampling_rule": rule, "advantage_baseline": "kept"}
        return {"skip_zero_advantage": True} if self.batch.spares else {}

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values; what is learned per second is absolute."""
        recommended = self.choice.sizes._asdict()
        recommended |= {"reason": self.reason, "settings": self.settings()}
        return {
            "rows": self.now.rows,
            "timed_at": self.costs.timed_at,
            "pays": asdict(self.pays) if self.pays else None,
            "recommended": recommended,
            "cells": [_cell_as_json(cell) for cell in self.cells],
        }


def _cell_as_json(cell: Cell) -> dict[str, Any]:
    return {
        **cell.sizes._asdict(),
        **asdict(cell.signal),
        "seconds": cell.seconds,
        "phases": cell.phases,
        "rows_passed": cell.passed,
        "worth": cell.worth,
        "learned_per_second": cell.per_second,
    }


def advise(
    population: Population,
    costs: Costs,
    now: Sizes,
    n: Sequence[int] = (),
    m: Sequence[int] = (),
    batch: Batch | None = None,
) -> Advice:
    """Compare the ways to spend the rows of the present sizes, `now`, with n and m as in `splits`.

    The present m is always in. batch: the rows of a step as TRL counts them now.
    """
    batch = batch or Batch(now.rows)
    kept = {*m, now.m} if m else ()
    sizes = {*splits(now.rows, n, kept), *splits(now.rows, n, [now.m])}
    by_m_and_n = sorted(sizes, key=lambda size: (size.m, size.n))
    cells = grid(population, costs, by_m_and_n, batch)

    plain = grid(population, costs, [now.plain], batch)[0]
    if any(cell.worth for cell in cells):
        choice = best(cells)
    else:
        choice = grid(population, costs, [now], batch)[0]
    return Advice(
        now=now,
        costs=costs,
        cells=cells,
        plain=plain,
        choice=choice,
        reason=why(cells, choice, plain, batch.grpo),
        batch=batch,
        population=population,
    )
