"""What one update learns from the kept rollouts: their contrast, and the noise beside it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from podsrl.errors import InvalidInputError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def kept_right(n: int, m: int) -> Integers:
    r"""Right rollouts among the m kept by max_variance, for each number right among n.

    .. math:: j(K) = \mathrm{clip}(\lfloor m/2 \rfloor,\ m - (n - K),\ K), \quad K = 0..n

    The reward variance of j right and m - j wrong ones grows as j nears m/2; there are K right ones
    and n - K wrong ones to take them from. For odd m, (m - 1)/2 and (m + 1)/2 are equally good,
    and `max_variance` takes the first where it can.

    Args:
        n: rollouts generated.
        m: rollouts kept, 1 <= m <= n.

    Returns:
        j, shape (n + 1,).

    >>> kept_right(6, 4).tolist()
    [0, 1, 2, 2, 2, 3, 4]
    """
    if not 1 <= m <= n:
        raise InvalidInputError(
            f"m = {m} rollouts can't be kept of n = {n}; allowed is 1 <= m <= n"
        )
    right = np.arange(n + 1)
    return np.maximum(m - (n - right), np.minimum(m // 2, right))


def contrasts(n: int, m: int) -> Floats:
    """Standard deviation of the kept 0/1 rewards, for each number right among n; shape (n + 1,).

    sqrt(q (1 - q)) with q = j / m; at most 1/2.

    >>> contrasts(4, 2).tolist()
    [0.0, 0.5, 0.5, 0.5, 0.0]
    """
    share = kept_right(n, m) / m
    return np.sqrt(share * (1 - share))


@dataclass(frozen=True)
class Signal:
    """What an update on m of n rollouts of each prompt learns, on average over prompts.

    contrast: expected standard deviation of the kept rewards: the length of the expected policy
        gradient in units of (mean score of right rollouts - mean score of wrong ones).
    chance: share of groups whose kept rewards differ at all; only those move the weights.
    m: rollouts kept.
    square: expected variance of the kept rewards: the mean square where contrast is the mean.
    """

    contrast: float
    chance: float
    m: int
    square: float

    @property
    def drift(self) -> float:
        """Expected progress of a step along the signal at a fixed step size: C."""
        return self.contrast

    @property
    def noise(self) -> float:
        """Squared signal-to-noise ratio of a step, up to a constant: C^2 m / P(contrast)."""
        return self.contrast**2 * self.m / self.chance if self.chance else 0.0

    @property
    def adam(self) -> float:
        """Progress of a step of fixed length in which noise dominates: C sqrt(m / P(contrast))."""
        return float(np.sqrt(self.noise))

    @property
    def aligned(self) -> float:
        """Progress of a step of fixed length whose rollouts push alike: C / sqrt(E[variance])."""
        return self.contrast / float(np.sqrt(self.square)) if self.square else 0.0


#: By which n is chosen: its learning rate stays as it is.
DEFAULT_MEASURE = "adam"
#: How much a step is worth, by what limits learning; docs/signal.md discusses which holds when.
MEASURES: dict[str, Callable[[Signal], float]] = {
    "noise": lambda signal: signal.noise,
    "adam": lambda signal: signal.adam,
    "aligned": lambda signal: signal.aligned,
    "drift": lambda signal: signal.drift,
}
