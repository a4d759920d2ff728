"""Prompts to train on, as far as the signal cares: how many rollouts of a group are right."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from podslab.recommend.signal import Floats, Signal, contrasts, pushes
from podsrl.errors import InvalidInputError
from podsrl.rules import Rule, downsample, resolve_rule
from podsrl.rules.prompt_rules import max_variance

# The prior of a fitted Beta: log a and log b are normal around 0 with this deviation. Without it a
# few groups that are all right or all wrong would send the fit to infinity.
_PRIOR_DEVIATION = 1.5
_DRAWS = 4096  # resampled groups of an estimate
_MOST_GROUPS = 512


class _Counted(ABC):
    """Binary rewards and max_variance: all that matters is the number right among n.

    With m = 1 the best one is kept, by max_reward with advantages of all n.
    """

    @abstractmethod
    def counts(self, n: int) -> Floats:
        """Probability of K right among n rollouts of a random prompt, K = 0..n."""

    def signal(self, n: int, m: int) -> Signal:
        """What an update on m of n rollouts per prompt sees: the exact sum over K."""
        counts = self.counts(n)
        if m == 1:
            return Signal.of_best(*pushes(n), counts)
        contrast_K = contrasts(n, m)
        return Signal(
            contrast=float(counts @ contrast_K),
            chance=float(counts @ (contrast_K > 0)),
            m=m,
            square=float(counts @ contrast_K**2),
        )


@dataclass(frozen=True)
class KnownRates(_Counted):
    """Prompts with these pass rates, equally many of each."""

    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.rates or not all(0 <= rate <= 1 for rate in self.rates):
            raise InvalidInputError(f"pass rates must be numbers in 0..1; got {self.rates!r}")

    def counts(self, n: int) -> Floats:
        """A mixture of binomials."""
        rates = np.array(self.rates)[:, None]
        rates = np.where(rates < 1e-15, 0.0, rates)  # scipy overflows at rates such as 1e-300
        right = np.arange(n + 1)
        return np.asarray(stats.binom.pmf(right, n, rates).mean(axis=0))


@dataclass(frozen=True)
class BetaRates(_Counted):
    """Prompts whose pass rates follow a Beta distribution."""

    a: float
    b: float

    def __post_init__(self) -> None:
        if not (0 < self.a < np.inf and 0 < self.b < np.inf):
            raise InvalidInputError(
                f"the parameters of a Beta distribution are above 0; got {self.a}, {self.b}"
            )

    def counts(self, n: int) -> Floats:
        """A beta-binomial."""
        return np.asarray(stats.betabinom.pmf(np.arange(n + 1), n, self.a, self.b))

    @classmethod
    def fit(cls, right_G: Sequence[int], rollouts_G: Sequence[int]) -> "BetaRates":
        """The likeliest Beta for groups with these numbers right and in all, under a weak prior."""
        right = np.asarray(right_G)
        wrong = np.asarray(rollouts_G) - right

        def loss(log_ab: Floats) -> float:
            a, b = np.exp(log_ab)
            likelihood = special.betaln(a + right, b + wrong) - special.betaln(a, b)
            prior = -0.5 * float(np.sum((log_ab / _PRIOR_DEVIATION) ** 2))
            return -float(np.sum(likelihood)) - prior

        best = optimize.minimize(loss, np.zeros(2), bounds=[(-7.0, 7.0)] * 2, method="L-BFGS-B")
        a, b = np.exp(best.x)
        return cls(float(a), float(b))


@dataclass(frozen=True)
class MeasuredRates(_Counted):
    """Prompts of which only this is known: how many rollouts there were, and how many were right.

    For n <= the rollouts of a group its n are drawn from those (hypergeometric), without bias. For
    larger n the group is extended by what a Beta, fitted to all groups, predicts (beta-binomial).
    """

    right_G: tuple[int, ...]
    rollouts_G: tuple[int, ...]

    @cached_property
    def fitted(self) -> BetaRates:
        """The Beta that extends groups."""
        return BetaRates.fit(self.right_G, self.rollouts_G)

    def counts(self, n: int) -> Floats:
        """The mean over groups."""
        pairs = np.stack([self.right_G, self.rollouts_G], axis=1)
        kinds, times = np.unique(pairs, axis=0, return_counts=True)
        total = np.zeros(n + 1)
        for (right, rollouts), weight in zip(kinds.tolist(), times, strict=True):
            if n <= rollouts:
                of_group = stats.hypergeom.pmf(np.arange(n + 1), rollouts, right, n)
            else:
                a = self.fitted.a + right
                b = self.fitted.b + rollouts - right
                of_group = stats.betabinom.pmf(np.arange(n + 1) - right, n - rollouts, a, b)
            total += weight * of_group
        return total / len(pairs)


class ResampledRewards:
    """Prompts of which only rewards were seen, of any kind, under any rule: by simulation.

    Groups of n are drawn from the measured ones, without replacement; what a group lacks is drawn
    from it again, so beyond the measured size rewards that were never seen are missing. NaN could
    not be scored. The draws are the same for every n and m. Contrast is in units of the range.
    """

    def __init__(
        self, rewards_G: Sequence[Sequence[float]], rule: str | Rule = "max_variance"
    ) -> None:
        step = -(-len(rewards_G) // _MOST_GROUPS)
        groups = [np.asarray(rewards, float) for rewards in rewards_G[::step]]
        seen = np.concatenate(groups)
        # As rewards of 0 and 1: advantages have no unit, and the model's variances are of these.
        range_ = np.fmax.reduce(seen) - np.fmin.reduce(seen)
        self.rewards_G = [rewards / (range_ if range_ > 0 else 1.0) for rewards in groups]
        self.rule = rule

    def signal(self, n: int, m: int) -> Signal:
        """What an update on m of n rollouts per prompt sees."""
        rewards_D_N = self._drawn(n)
        least = 1e-9 * np.abs(rewards_D_N).max()  # what counts as a difference
        if m == 1:
            return self._signal_of_best(rewards_D_N, least)

        known_D_N = rewards_D_N.filled(np.nan)
        kept_D_M = downsample(known_D_N, m, self.rule, seed=[0, n, m])
        kept_rewards = np.ma.masked_invalid(np.take_along_axis(known_D_N, kept_D_M, axis=-1))
        deviation_D = kept_rewards.std(axis=-1).filled(0.0)
        return Signal(
            contrast=float(deviation_D.mean()),
            chance=float((deviation_D > least).mean()),
            m=m,
            square=float((deviation_D**2).mean()),
        )

    def _drawn(self, n: int) -> Any:
        """Rewards of n rollouts, by draw; masked where one could not be scored."""
        random = np.random.default_rng([0, n])
        draws = max(8, _DRAWS // len(self.rewards_G))
        drawn = [_draw(random, rewards, n, draws) for rewards in self.rewards_G]
        return np.ma.masked_invalid(np.concatenate(drawn))

    @staticmethod
    def _signal_of_best(rewards_D_N: Any, least: float) -> Signal:
        above_D = (rewards_D_N.max(axis=-1) - rewards_D_N.mean(axis=-1)).filled(0.0)
        deviation_D = rewards_D_N.std(axis=-1).filled(0.0)
        differ_D = deviation_D > least
        advantages_D = np.divide(above_D, deviation_D, np.zeros_like(above_D), where=differ_D)
        return Signal.of_best(advantages_D, advantages_D * above_D)


#: A distribution of prompts.
Population = _Counted | ResampledRewards


def _draw(random: np.random.Generator, rewards: Floats, n: int, draws: int) -> Floats:
    """So many groups of n, of one measured group."""
    drawn = np.broadcast_to(rewards, (draws, len(rewards)))
    if n < len(rewards):
        return random.permuted(drawn, axis=-1)[:, :n]
    return np.concatenate([drawn, random.choice(rewards, (draws, n - len(rewards)))], axis=-1)


def measured(
    rewards_G: Sequence[Sequence[float]], rule: str | Rule = "max_variance"
) -> MeasuredRates | ResampledRewards:
    """The population that groups of rewards come from; those without any scored reward don't count.

    Exact sums where rewards take two values at most and the rule is max_variance, simulation for
    all else. The contrast of binary rewards other than 0 and 1 is in units of their difference.
    NaN could not be scored.

    Raises:
        InvalidInputError: no reward at all.
    """
    groups = []
    for rewards in rewards_G:
        all_of_group = np.asarray(rewards, float)
        scored = all_of_group[~np.isnan(all_of_group)]
        if len(scored):
            groups.append(scored)
    if not groups:
        raise InvalidInputError("no rollout has a reward: there is nothing to choose n and m by")

    values = np.unique(np.concatenate(groups))
    if resolve_rule(rule) is not max_variance or len(values) > 2:
        return ResampledRewards([scored.tolist() for scored in groups], rule)

    # Of one value only it makes no difference to the contrast whether it means right or wrong.
    high = values[-1] if len(values) == 2 else np.inf
    right_G = tuple(int((scored == high).sum()) for scored in groups)
    rollouts_G = tuple(len(scored) for scored in groups)
    return MeasuredRates(right_G, rollouts_G)


def parse_pass_rates(text: str) -> KnownRates | BetaRates:
    """Read "0.1,0.5,0.9" (equally many prompts of each) or "beta:0.5,0.5"."""
    kind, _, numbers = text.rpartition(":")
    try:
        values = tuple(float(number) for number in numbers.split(","))
    except ValueError:
        values = ()
    if kind == "" and values:
        return KnownRates(values)
    if kind == "beta" and len(values) == 2:
        return BetaRates(*values)
    raise InvalidInputError(
        f"pass rates {text!r} are not understood; give numbers in 0..1 such as 0.1,0.5,0.9, or a"
        " Beta distribution of them such as beta:0.5,0.5"
    )
