"""What one update learns from the kept rollouts: their contrast, and the noise beside it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from podsrl.downsampling import downsample

Floats = npt.NDArray[np.float64]


def contrasts(n: int, m: int) -> Floats:
    """Standard deviation of the 0/1 rewards that max_variance keeps, for each number right among n.

    Shape (n + 1,); at most 1/2.

    >>> contrasts(4, 2).tolist()
    [0.0, 0.5, 0.5, 0.5, 0.0]
    """
    rewards_K_N = (np.arange(n) < np.arange(n + 1)[:, None]).astype(float)
    kept_K_M = np.take_along_axis(rewards_K_N, downsample(rewards_K_N, m), axis=-1)
    return np.asarray(kept_K_M.std(axis=-1))


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
        optimiser; docs/theory.md derives that. With ever more prompts, P, it goes to 1.
        """
        shared = self.contrast**2
        of_prompts = self.spread + variances.between * self.square
        noise = of_prompts + variances.within * self.chance / self.m
        return shared / (shared + noise / prompts) if shared else 0.0
