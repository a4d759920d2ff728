"""Whether to drop rows, to choose prompts by their history, both or neither."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from podslab.recommend.choice import WITHIN, Cell, grid
from podslab.recommend.costs import Batch, Costs, Line
from podslab.recommend.populations import BetaRates, KnownRates, MeasuredRates, Population

#: A choice by history generates for this share of the prompts, and one time in eight for any.
_SHARE, _RATES = 4, 100
#: What may turn the advice: seconds that a rollout adds over those that a row adds.
_RATIOS = np.geomspace(0.02, 20, 31)


@dataclass(frozen=True)
class WhatPays:
    """Times as much learned per second as the best GRPO, in the way of `over`, of random prompts.

    ratio: g/u. drop, choose, both: rows dropped, prompts chosen by history, both; of these two NaN
        where rewards are graded. turns_at: the g/u from which on dropping adds nothing to choosing,
        were each rollout dearer or cheaper; None if that does not turn.
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
        ways = {"neither": 1.0, "choose prompts": self.choose, "drop rows": self.drop}
        ways["drop rows and choose prompts"] = self.both
        most = np.nanmax(list(ways.values()))
        return next(way for way, gain in ways.items() if gain >= (1 - WITHIN) * most)

    def __str__(self) -> str:
        """For people, the most important first."""
        known = f"choose prompts by their history {self.choose:.2f}, both {self.both:.2f}"
        if np.isnan(self.both):
            known = "choosing prompts is not predicted for graded rewards"
        turn = f" Dropping adds nothing to choosing from g/u = {self.turns_at or 0:.2g} on."
        return (
            f"g/u = {self.ratio:.2g}: the time of generating a rollout over that of updating on a"
            f" row.\nTimes the best {self.over}, predicted: drop rows"
            f" {self.drop:.2f}, {known}.\nBest by this: {self.way}.{turn if self.turns_at else ''}"
            "\nprompt_selection='thompson' chooses them, from a second visit on. Below: random."
        )


def what_pays(population: Population, costs: Costs, cells: list[Cell], batch: Batch) -> WhatPays:
    """What each way gains at these costs; pass rates count as known where prompts are chosen."""
    known = by_history(population)
    chosen = [] if known is None else grid(known, costs, [cell.sizes for cell in cells], batch)

    def gains(at: Costs) -> list[float]:
        """Of dropping, of choosing, of both, over the best GRPO of random prompts."""
        whole = [[c for c in of if c.sizes.n == c.sizes.m] or of for of in (cells, chosen)]
        best = [
            max((c.worth / sum(at.phases(c.sizes, c.passed).values()) for c in of), default=np.nan)
            for of in (whole[0], cells, whole[1], chosen)
        ]
        return [one / (best[0] or np.nan) for one in best[1:]]

    rows, turns = cells[0].sizes.rows, None
    for one in _RATIOS if chosen else ():
        each = Line(costs.generate.fixed, float(one) * costs.update.each)
        _, choose, both = gains(dearer := replace(costs, generate=each))
        if both <= choose * (1 + WITHIN):
            turns = dearer.ratio(rows) if one > _RATIOS[0] else None  # it never adds anything
            break
    drop, choose, both = gains(costs)
    return WhatPays(batch.grpo, costs.ratio(rows), drop, choose, both, turns)


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
    most = rates[np.argsort(-rates * (1 - rates), kind="stable")][: -(-len(rates) // _SHARE)]
    both = np.repeat(most, 7 * len(rates)), np.repeat(rates, len(most))
    return KnownRates(tuple(np.concatenate(both).tolist()))
