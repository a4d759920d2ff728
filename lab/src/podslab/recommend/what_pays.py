"""Whether to drop rows, to choose prompts by their history, both or neither."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from podslab.recommend.choice import WITHIN, Cell, grid
from podslab.recommend.costs import Batch, Costs, Line
from podslab.recommend.populations import BetaRates, KnownRates, MeasuredRates, Population

#: A choice by history generates for one in so many prompts, and one time in eight for any.
_SHARE = 4
#: How many pass rates stand for a Beta distribution.
_RATES = 100
#: What may turn the advice: seconds that a rollout adds over those that a row adds.
_RATIOS = np.geomspace(0.02, 20, 31)


@dataclass(frozen=True)
class WhatPays:
    """Times as much learned per second as the best GRPO, in the way of `over`, of random prompts.

    Args:
        over: The GRPO that it is compared with, in words.
        ratio: g/u, the time of generating a rollout over that of updating on a row.
        drop: What dropping rows gains.
        choose, both: What choosing prompts by their history gains, and both; NaN where rewards are
            graded.
        turns_at: The g/u from which on dropping adds nothing to choosing, were each rollout more or
            less expensive; None if that does not turn.
    """

    over: str
    ratio: float
    drop: float
    choose: float
    both: float
    turns_at: float | None

    @property
    def way(self) -> str:
        """The simplest of those that are nearly the best."""
        ways = {
            "neither": 1.0,
            "choose prompts": self.choose,
            "drop rows": self.drop,
            "drop rows and choose prompts": self.both,
        }
        most = np.nanmax(list(ways.values()))
        return next(way for way, gain in ways.items() if gain >= (1 - WITHIN) * most)

    def __str__(self) -> str:
        """For people, the most important first."""
        history = f"choose prompts by their history {self.choose:.2f}, both {self.both:.2f}"
        if np.isnan(self.both):
            history = "choosing prompts is not predicted for graded rewards"
        turn = ""
        if self.turns_at:
            turn = f" Dropping adds nothing to choosing from g/u = {self.turns_at:.2g} on."
        return (
            f"g/u = {self.ratio:.2g}: the time of generating a rollout over that of updating on a"
            f" row.\nTimes the best {self.over}, predicted: drop rows {self.drop:.2f}, {history}.\n"
            f"Best by this: {self.way}.{turn}\nBelow: prompts drawn at random."
        )


def what_pays(population: Population, costs: Costs, cells: list[Cell], batch: Batch) -> WhatPays:
    """What each way gains at these costs; pass rates count as known where prompts are chosen."""
    known = by_history(population)
    chosen = [] if known is None else grid(known, costs, [cell.sizes for cell in cells], batch)

    def best_of(cells: list[Cell], at: Costs) -> float:
        learned = [cell.worth / sum(at.phases(cell.sizes, cell.passed).values()) for cell in cells]
        return max(learned, default=np.nan)

    def gains(at: Costs) -> tuple[float, float, float]:
        """Of dropping, of choosing, of both, over the best GRPO of random prompts."""
        grpo = best_of(_keeping_all(cells), at) or np.nan
        return (
            best_of(cells, at) / grpo,
            best_of(_keeping_all(chosen), at) / grpo,
            best_of(chosen, at) / grpo,
        )

    rows = cells[0].sizes.rows
    turns_at = None
    for ratio in _RATIOS if chosen else ():
        generate = Line(costs.generate.fixed, float(ratio) * costs.update.each)
        at_ratio = replace(costs, generate=generate)
        _, choose, both = gains(at_ratio)
        if both <= choose * (1 + WITHIN):
            if ratio > _RATIOS[0]:  # else it never adds anything
                turns_at = at_ratio.ratio(rows)
            break

    drop, choose, both = gains(costs)
    return WhatPays(
        over=batch.grpo,
        ratio=costs.ratio(rows),
        drop=drop,
        choose=choose,
        both=both,
        turns_at=turns_at,
    )


def _keeping_all(cells: list[Cell]) -> list[Cell]:
    """Those with n = m, which are GRPO; all, if there is none such."""
    return [cell for cell in cells if cell.sizes.n == cell.sizes.m] or cells


def by_history(population: Population) -> KnownRates | None:
    """The prompts that a choice by history generates for; None of graded rewards.

    Those are the quarter with the most contrast, and one time in eight any prompt.
    """
    if isinstance(population, MeasuredRates):
        population = population.fitted
    if isinstance(population, BetaRates):
        shares = (np.arange(_RATES) + 0.5) / _RATES
        rates = np.asarray(stats.beta.ppf(shares, population.a, population.b))
    elif isinstance(population, KnownRates):
        rates = np.array(population.rates)
    else:
        return None

    by_contrast = rates[np.argsort(-rates * (1 - rates), kind="stable")]
    chosen = by_contrast[: -(-len(rates) // _SHARE)]  # rounded up

    # Repeated so that there are seven of the chosen ones for one of all.
    seven_of_eight = np.repeat(chosen, 7 * len(rates))
    one_of_eight = np.repeat(rates, len(chosen))
    return KnownRates(tuple(np.concatenate([seven_of_eight, one_of_eight]).tolist()))
