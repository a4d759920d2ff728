"""What is known of each prompt of a dataset from its scored rollouts: counts that forget."""

from dataclasses import dataclass
from typing import Any

import numpy as np

Numbers = np.ndarray  # float32 or int32, of shape (D,)

#: Pseudo-rollouts with which every prompt begins: one right, one wrong.
_PRIOR = 2.0
#: Groups whose rewards differ by less than this share of the range teach nothing.
_FLAT = 1e-9


@dataclass
class PromptHistory:
    r"""Counts of D prompts, and the posterior of their pass rates.

    A prompt that is visited forgets a part of what it had: with s right answers of n its Beta
    posterior goes from (a, b) to

    .. math:: a' = \lambda a + (1-\lambda) a_0 + s, \quad b' = \lambda b + (1-\lambda) b_0 + n - s

    (MoPPS, arXiv 2507.04632), with a_0 = b_0 = 1. Graded rewards count by their place between the
    lowest and the highest reward so far, and their spread is known from the sums of squares. It
    takes 24 bytes per prompt.
    """

    count_D: Numbers  # rollouts that were scored, so far as they are not forgotten
    total_D: Numbers  # the sum of their rewards, less `origin`
    squares_D: Numbers  # the sum of the squares of these
    visits_D: Numbers  # how often the prompt was visited
    flat_D: Numbers  # how many of its last visits in a row found all rewards equal
    seen_D: Numbers  # the generation of its last visit, from 0; -1 if there was none
    step: int = 0  # the number of generations so far
    origin: float | None = None  # the first reward
    low: float = 0.0  # the lowest reward so far, less `origin`
    high: float = 0.0  # the highest, less `origin`
    graded: bool = False  # whether there were others than these two

    @classmethod
    def of(cls, prompts: int) -> "PromptHistory":
        """The history of prompts that were never visited."""
        count, total, squares = (np.zeros(prompts, dtype=np.float32) for _ in range(3))
        visits, flat, seen = (np.full(prompts, one, dtype=np.int32) for one in (0, 0, -1))
        return cls(count, total, squares, visits, flat, seen)

    def update(self, chosen_P: Any, rewards_P_N: Any, forget: float = 0.3) -> None:
        """Count the rewards of a generation; NaN where a rollout could not be scored.

        The prompts are visited once each, and forget the share 1 - lambda of what was known. Of one
        without any reward nothing is learned.
        """
        rewards, chosen = np.asarray(rewards_P_N, dtype=np.float64), np.asarray(chosen_P)
        scored_P_N = ~np.isnan(rewards)
        any_P = scored_P_N.any(axis=1)
        if self.origin is None and any_P.any():
            self.origin = float(rewards[scored_P_N][0])
        rewards = np.where(scored_P_N, rewards - (self.origin or 0.0), np.nan)
        known = [0.0, self.low, self.high]
        self.graded = self.graded or len({*known, *rewards[scored_P_N].tolist()}) > 2
        lowest_P, highest_P = np.fmin.reduce(rewards, axis=1), np.fmax.reduce(rewards, axis=1)
        self.low = float(np.fmin.reduce(lowest_P, initial=self.low))
        self.high = float(np.fmax.reduce(highest_P, initial=self.high))
        new = (scored_P_N.sum(axis=1), np.nansum(rewards, axis=1), np.nansum(rewards**2, axis=1))
        for sums_D, more_P in zip((self.count_D, self.total_D, self.squares_D), new, strict=True):
            sums_D[chosen] = np.where(any_P, 1 - forget, 1.0) * sums_D[chosen] + more_P
        differ_P = highest_P - lowest_P > _FLAT * self._range
        self.flat_D[chosen] = np.where(differ_P, 0, self.flat_D[chosen] + any_P)
        self.visits_D[chosen] += 1
        self.seen_D[chosen] = self.step
        self.step += 1

    def posterior(self) -> tuple[Numbers, Numbers]:
        """The parameters a and b of the Beta posterior of each prompt's pass rate, shape (D,).

        >>> history = PromptHistory.of(2)
        >>> history.update([1], [[1.0, 1.0, 0.0]])
        >>> history.posterior()
        (array([1., 3.], dtype=float32), array([1., 2.], dtype=float32))
        """
        right_D = (self.total_D - self.low * self.count_D) / self._range
        return _PRIOR / 2 + right_D, _PRIOR / 2 + self.count_D - right_D

    def rates(self) -> Numbers:
        """The mean of the posterior, shape (D,)."""
        a_D, b_D = self.posterior()
        return a_D / (a_D + b_D)

    def expected_rewards(self) -> Numbers:
        """The rewards of which `rates` says where they lie between the lowest and the highest."""
        return (self.origin or 0.0) + self.low + self.rates() * self._range

    def spread(self) -> Numbers:
        """The variance of a prompt's rewards as a share of what its mean allows, shape (D,).

        It is 1 for rewards of two values, and goes to 0 for graded ones that are all alike.
        """
        if not self.graded:
            return np.ones_like(self.count_D)
        squares_D = self.squares_D - self.low * (2 * self.total_D - self.low * self.count_D)
        mean_D, all_D = self.rates(), self.count_D + _PRIOR
        variance_D = (_PRIOR / 2 + squares_D / self._range**2) / all_D - mean_D**2
        return np.clip(variance_D / np.maximum(mean_D * (1 - mean_D), _FLAT), 0.0, 1.0)

    def table(self) -> dict[str, Any]:
        """What is known of each prompt that was visited, as columns."""
        columns = {"prompt": np.arange(len(self.visits_D)), "visits": self.visits_D}
        columns |= {"flat_visits": self.flat_D, "last_seen": self.seen_D}
        columns |= {"pass_rate": self.rates(), "spread": self.spread()}
        return {name: values_D[self.visits_D > 0] for name, values_D in columns.items()}

    @property
    def _range(self) -> float:
        """Of the rewards so far; 1 while all are equal."""
        return self.high - self.low if self.high > self.low else 1.0
