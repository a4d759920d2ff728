"""Which n and m teach most per second: a model of the signal, of the cost, and the choice by both.

Pure: numpy and scipy only, no torch, no trainer. docs/signal.md derives the model.
"""

from podsrl.recommend.choice import (
    Cell,
    Choice,
    candidates,
    grid,
    measuring_schedule,
    recommend,
    speedup,
)
from podsrl.recommend.costs import Costs, Curve, Timing
from podsrl.recommend.populations import (
    BetaRates,
    KnownRates,
    MeasuredRates,
    Population,
    ResampledRewards,
    measured,
    parse_pass_rates,
)
from podsrl.recommend.signal import MEASURES, Signal, contrasts, kept_right

__all__ = [
    "MEASURES",
    "BetaRates",
    "Cell",
    "Choice",
    "Costs",
    "Curve",
    "KnownRates",
    "MeasuredRates",
    "Population",
    "ResampledRewards",
    "Signal",
    "Timing",
    "candidates",
    "contrasts",
    "grid",
    "kept_right",
    "measured",
    "measuring_schedule",
    "parse_pass_rates",
    "recommend",
    "speedup",
]
