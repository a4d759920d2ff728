"""What one update learns from the kept rollouts: their contrast, and the noise beside it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from podsrl.rules import downsample

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


def pushes(n: int) -> tuple[Floats, Floats]:
    """Of the best of n rollouts alone, for each number right: its advantage, and what it pushes.

    Both have shape (n + 1,). The push is the advantage times the reward's distance from the mean of
    all n, in the units of `contrasts`; docs/theory.md, "One right row alone".

    >>> pushes(2)[1].tolist()
    [0.0, 0.5, 0.0]
    """
    share_K = np.arange(1, n + 1) / n  # of right ones
    advantage_K = np.sqrt((1 - share_K) / share_K)
    return np.append(0.0, advantage_K), np.append(0.0, advantage_K * (1 - share_K))


@dataclass(frozen=True)
class Variances:
    """What a prompt's gradient has beside the direction that all prompts share, in units of it.

    Args:
        between: The variance between prompts, tau^2.
        within: The variance between a prompt's right rollouts, and between its wrong ones, sigma^2.
    """

    between: float
    within: float


#: Of the embedded model on sums of 2 to 7 columns: `python -m benchmarks.evidence.variances`.
MEASURED = Variances(between=18.0, within=23.0)


@dataclass(frozen=True)
class Signal:
    """What an update on m of n rollouts of each prompt sees, on average over prompts.

    Args:
        contrast: The expected standard deviation of the kept rewards: the length of the expected
            policy gradient in units of (mean score of right rollouts - mean score of wrong ones).
            With m = 1 the expected push of the best one, where the mean square of advantages is 1.
        chance: The share of groups whose rewards, kept or with m = 1 all, differ; only those move
            weights.
        m: The rollouts kept.
        square: The mean square of that of which contrast is the mean.
    """

    contrast: float
    chance: float
    m: int
    square: float

    @classmethod
    def of_best(cls, advantages: Floats, pushes: Floats, weights: Floats | None = None) -> "Signal":
        """With m = 1, of groups with these advantages and pushes of their best rollout."""
        chance = float(np.average(advantages > 0, weights=weights))
        unit = np.average(advantages**2, weights=weights) / (chance or 1.0) or 1.0
        contrast = np.average(pushes, weights=weights) / np.sqrt(unit)
        square = np.average(pushes**2, weights=weights) / unit
        return cls(contrast=float(contrast), chance=chance, m=1, square=float(square))

    def worth(self, prompts: float, variances: Variances = MEASURED) -> float:
        r"""The share of a step's expected squared gradient that all prompts share, 0..1.

        .. math:: C^2 / (C^2 + ((1 + \tau^2) E[s^2] - C^2) / P + \sigma^2 V / (m P))

        What a step teaches at the learning rate that suits it is proportional to it, whatever the
        optimiser; docs/theory.md derives that. With ever more prompts, P, it goes to 1.
        """
        shared = self.contrast**2
        of_prompts = (1 + variances.between) * self.square - shared
        noise = of_prompts + variances.within * self.chance / self.m
        return shared / (shared + noise / prompts) if shared else 0.0
