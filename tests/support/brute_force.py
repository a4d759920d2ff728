"""What the rules must find, by trying every subset."""

import itertools
from collections.abc import Sequence

import numpy as np


def highest_variance(rewards: Sequence[float], m: int) -> float:
    """The highest variance that any m of the rewards of one prompt have."""
    return max(float(np.var(subset)) for subset in itertools.combinations(rewards, m))
