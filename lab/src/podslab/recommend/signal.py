"""What one update learns from the kept rollouts: their contrast, and the noise beside it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def kept_right(n: int, m: int) -> Integers:
    r"""Right rollouts among the m kept by max_variance, for each number right among n.

    .. math:: j(K) = \mathrm{clip}(\lfloor m/2 \rfloor,\ m - (n - K),\ K), \quad K = 0..n

    Shape (n + 1,). For odd m, (m - 1)/2 and (m + 1)/2 are equally good, and the rule takes the
    first where it can.

    >>> kept_right(6, 4).tolist()
    [0, 1, 2, 2, 2, 3, 4]
    """
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
class Variances:
    """What a prompt's gradient has beside the direction that all prompts share, in units of it.

    between: variance between prompts, tau^2. within: variance between a prompt's right rollouts,
        and between its wrong ones, sigma^2.
    """

    between: float
    within: float


#: Of the embedded model on sums of 2 to 7 columns: `python -m benchmarks.evidence.variances`.
MEASURED = Variances(between=18.0, within=23.0)


@dataclass(frozen=True)
class Signal:
    """What an update on m of n rollouts of each prompt sees, on average over prompts.

    Across the batch a prompt that has w times m rows counts w times.

    contrast: expected standard deviation of the kept rewards: the length of the expected policy
        gradient in units of (mean score of right rollouts - mean score of wrong ones).
    chance: share of groups whose kept rewards differ at all; only those move the weights.
    m: rollouts kept.
    square: expected variance of the kept rewards: the mean square where contrast is the mean.
    spread: variance of a batch's mean deviation, times its prompts: square - contrast^2, but less
        across the batch, where prompts compete for its rows.
    """

    contrast: float
    chance: float
    m: int
    square: float
    spread: float

    def worth(self, prompts: float, variances: Variances = MEASURED) -> float:
        r"""The share of a step's expected squared gradient that all prompts share, 0..1.

        .. math:: C^2 / (C^2 + ((1 + \tau^2) E[s^2] - C^2) / P + \sigma^2 V / (m P))

        What a step teaches at the learning rate that suits it is proportional to it, whatever the
        optimiser; docs/signal.md derives that. With ever more prompts, P, it goes to 1.
        """
        shared = self.contrast**2
        return shared / (shared + self.noise(variances) / prompts) if shared else 0.0

    def noise(self, variances: Variances) -> float:
        """What a step of one prompt has beside the square of what all share, on average."""
        of_prompts = self.spread + variances.between * self.square
        return of_prompts + variances.within * self.chance / self.m
