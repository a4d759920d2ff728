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

    now: the present sizes. cells: what is compared. plain: GRPO of the present prompts and m, which
        what is learned is shown relative to. choice: what to take, for the reason given.
        batch: the rows of a step as TRL counts them. population: the prompts.
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
        compared = {cell.sizes for cell in self.cells}  # with every GRPO, whatever was asked for
        grpo = [one for one in splits(self.now.rows) if one.n == one.m and one not in compared]
        cells = self.cells + grid(self.population, self.costs, grpo, self.batch)
        given = (self.population, self.costs, cells, self.batch)
        return what_pays(*given) if self.choice.worth else None

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
        for cell in self.cells:
            (prompts, n, m), equal, phases = cell.sizes, abs(1 - cell.signal.chance), cell.phases
            lines.append(
                f"{prompts:7d}{n:5d}{m:5d}{cell.seconds:10.4g}{phases['generate']:10.4g}"
                f"{phases['update']:10.4g}{cell.signal.contrast:8.3f}{equal:8.0%}"
                + f"{self.relative(cell):9.2f}".replace("nan", "  —")
                + ("  <- recommended" if cell == self.choice and cell.worth else "")
            )
        lines += ["", f"recommended: {self.reason}."]
        _, n, m = (taken := self.choice).sizes
        if taken.worth and n == max(cell.sizes.n for cell in self.cells if cell.sizes.m == m) > m:
            lines.append(f"no larger n than {n} was compared; --n compares others")
        if self.costs.timed_at is not None:
            lines.append(
                f"generation was timed at one size, {self.costs.timed_at:g} rollouts: larger sizes"
                " may be better than shown. `pods recommend --config FILE` times several"
            )
        if settings := [f"  {name}: {value}" for name, value in self.settings().items()]:
            lines += ["\nthe settings of TRL and podsrl for it:", *settings]
        return "\n".join(lines)

    def settings(self) -> dict[str, Any]:
        """What to write into a config: rows per device x accumulation x processes = prompts x m.

        Empty where there is nothing to choose by.
        """
        if not self.choice.worth:
            return {}
        sizes = self.choice.sizes
        batch = self.batch.of_rows(sizes.rows)
        rule = getattr(self.population, "rule", "max_variance")
        if sizes.m == 1:
            keeps: dict[str, Any] = _BEST if self.batch.spares else _CONTRAST
        elif sizes.n > sizes.m:  # where skip_zero_advantage is the default
            keeps = {"downsampling_rule": rule, "advantage_baseline": "kept"}
        else:
            keeps = {"skip_zero_advantage": True} if self.batch.spares else {}
        return {
            "num_rollouts": sizes.n,
            "num_generations": sizes.m,
            **keeps,
            "per_device_train_batch_size": batch.rows,
            "gradient_accumulation_steps": batch.accumulation,
        }

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values; what is learned per second is absolute."""
        choice = self.choice
        return {
            "rows": self.now.rows,
            "timed_at": self.costs.timed_at,
            "pays": asdict(self.pays) if self.pays else None,
            "recommended": choice.sizes._asdict()
            | {"reason": self.reason, "settings": self.settings()},
            "cells": [
                cell.sizes._asdict()
                | asdict(cell.signal)
                | {
                    "seconds": cell.seconds,
                    "phases": cell.phases,
                    "rows_passed": cell.passed,
                    "worth": cell.worth,
                    "learned_per_second": cell.per_second,
                }
                for cell in self.cells
            ],
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
    sizes = dict.fromkeys([*splits(now.rows, n, kept), *splits(now.rows, n, [now.m])])
    cells = grid(population, costs, sorted(sizes, key=lambda one: (one.m, one.n)), batch)
    plain = grid(population, costs, [now.plain], batch)[0]
    known = any(cell.worth for cell in cells)
    choice = best(cells) if known else grid(population, costs, [now], batch)[0]
    reason = why(cells, choice, plain, batch.grpo)
    return Advice(now, costs, cells, plain, choice, reason, batch, population)
