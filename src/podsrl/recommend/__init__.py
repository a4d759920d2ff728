"""Which prompts, n and m teach most per second: models of signal and cost, and the choice by both.

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
    splits,
)
from podsrl.recommend.costs import Costs, Curve, Sizes, Timing
from podsrl.recommend.populations import (
    BetaRates,
    KnownRates,
    MeasuredRates,
    Population,
    ResampledRewards,
    measured,
    parse_pass_rates,
)
from podsrl.recommend.signal import (
    MEASURED,
    Signal,
    Variances,
    contrasts,
    kept_right,
)

__all__ = [
    "MEASURED",
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
    "Sizes",
    "Timing",
    "Variances",
    "candidates",
    "contrasts",
    "grid",
    "kept_right",
    "measured",
    "measuring_schedule",
    "parse_pass_rates",
    "recommend",
    "speedup",
    "splits",
]
