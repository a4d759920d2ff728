"""Which prompts, n and m teach most per second: models of signal and cost, and the choice by both.

Pure: numpy and scipy only, no torch, no trainer. docs/signal.md derives the model.
"""

from podsrl.recommend.choice import (
    Cell,
    Choice,
    grid,
    recommend,
    splits,
)
from podsrl.recommend.costs import Costs, Line, Sizes, Timing
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
)

__all__ = [
    "MEASURED",
    "BetaRates",
    "Cell",
    "Choice",
    "Costs",
    "KnownRates",
    "Line",
    "MeasuredRates",
    "Population",
    "ResampledRewards",
    "Signal",
    "Sizes",
    "Timing",
    "Variances",
    "grid",
    "measured",
    "parse_pass_rates",
    "recommend",
    "splits",
]
