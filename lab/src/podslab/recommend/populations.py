"""Prompts to train on, as far as the signal cares: how many rollouts of a group are right."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from podslab.recommend.signal import Floats, Signal, contrasts
from podsrl.downsampling import Rule, downsample, downsample_batch, resolve_rule
from podsrl.downsampling.group_rules import max_variance
from podsrl.errors import InvalidInputError

# The prior of a fitted Beta: log a and log b are normal around 0 with this deviation. Without it a
# few groups that are all right or all wrong would send the fit to infinity.
_PRIOR_DEVIATION = 1.5
_DRAWS = 4096  # resampled groups of an estimate
_MOST_GROUPS = 512


class _Counted(ABC):
    """Binary rewards and max_variance: all that matters is the number right among n.

    With m = 1 rows are chosen across the batch, by max_contrast.
    """

    @abstractmethod
    def counts(self, n: int) -> Floats:
        """Probability of K right among n rollouts of a random prompt, K = 0..n."""

    def signal(self, n: int, m: int, prompts: int = 1) -> Signal:
        """What an update on m of n rollouts per prompt sees: the exact sum over K.

        Across batches of so many prompts, as for m = 1, by simulation.
        """
        if m == 1:
            shares, random = self.counts(n), np.random.default_rng(n)
            right_D = random.choice(n + 1, _batches(prompts) * prompts, p=shares / shares.sum())
            return _signal_across((np.arange(n) < right_D[:, None]).astype(float), prompts)
        of_count, counts = contrasts(n, m), self.counts(n)
        differ, square = counts @ (of_count > 0), counts @ of_count**2
        contrast = float(counts @ of_count)
        return Signal(contrast, float(differ), m, float(square), float(square) - contrast**2)


@dataclass(frozen=True)
class KnownRates(_Counted):
    """Prompts with these pass rates, equally many of each."""

    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.rates or not all(0 <= rate <= 1 for rate in self.rates):
            raise InvalidInputError(f"pass rates must be numbers in 0..1; got {self.rates!r}")

    def counts(self, n: int) -> Floats:
        """A mixture of binomials."""
        rates, right = np.array(self.rates)[:, None], np.arange(n + 1)
        rates = np.where(rates < 1e-15, 0.0, rates)  # scipy overflows at rates such as 1e-300
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
        right, wrong = np.asarray(right_G), np.asarray(rollouts_G) - np.asarray(right_G)

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
                a, b = self.fitted.a + right, self.fitted.b + rollouts - right
                of_group = stats.betabinom.pmf(np.arange(n + 1) - right, n - rollouts, a, b)
            total += weight * of_group
        return total / len(pairs)


class ResampledRewards:
    """Prompts of which only rewards were seen, of any kind, under any rule: by simulation.

    Groups of n are drawn from the measured ones, without replacement; what a group lacks is drawn
    from it again, so beyond the measured size rewards that were never seen are missing. NaN could
    not be scored. The draws are the same for every n and m.
    """

    def __init__(
        self, rewards_G: Sequence[Sequence[float]], rule: str | Rule = "max_variance"
    ) -> None:
        step = -(-len(rewards_G) // _MOST_GROUPS)
        self.rewards_G = [np.asarray(rewards, float) for rewards in rewards_G[::step]]
        self.rule = rule

    def signal(self, n: int, m: int, prompts: int = 1) -> Signal:
        """Mean and share above zero of the kept rewards' standard deviation."""
        random = np.random.default_rng([0, n])
        least = _batches(prompts) * prompts if m == 1 else 0
        draws = max(8, _DRAWS // len(self.rewards_G), -(-least // len(self.rewards_G)))
        drawn = [_draw(random, rewards, n, draws) for rewards in self.rewards_G]
        rewards_D_N = np.concatenate(drawn)
        if m == 1:
            return _signal_across(random.permutation(rewards_D_N)[:least], prompts)
        kept = downsample(rewards_D_N, m, self.rule, seed=[0, n, m])
        mask_D_N = np.zeros(rewards_D_N.shape, dtype=bool)
        np.put_along_axis(mask_D_N, kept, True, axis=-1)
        return _signal_of(rewards_D_N, mask_D_N, m)


#: A distribution of prompts.
Population = _Counted | ResampledRewards


def _batches(prompts: int) -> int:
    """Simulated: 8 to 256, of half the groups of other estimates, as each takes a choice."""
    return max(8, min(256, _DRAWS // 2 // prompts))


def _signal_across(rewards_D_N: Floats, prompts: int) -> Signal:
    """Of batches of so many prompts, and as many rows, which `downsample_batch` chooses."""
    whole = rewards_D_N[: len(rewards_D_N) // prompts * prompts]
    batches = whole.reshape(-1, prompts, rewards_D_N.shape[1])
    kept = np.concatenate([downsample_batch(batch, prompts, seed=0) for batch in batches])
    return _signal_of(np.concatenate(batches), kept, 1, prompts)


def _signal_of(rewards_D_N: Floats, kept_D_N: Any, m: int, prompts: int = 1) -> Signal:
    """What the kept rollouts teach; a prompt counts by how many times m rows it has."""
    kept_rewards = np.ma.masked_invalid(np.where(kept_D_N, rewards_D_N, np.nan))
    deviation = kept_rewards.std(axis=-1).filled(0.0)
    differ = deviation > 1e-9 * np.abs(rewards_D_N[np.isfinite(rewards_D_N)]).max(initial=1e-9)
    weight = kept_D_N.sum(axis=-1) / m
    taught = weight * deviation
    spread = prompts * taught.reshape(-1, prompts).mean(axis=1).var()
    means = (taught.mean(), (weight * differ).mean(), (taught**2).mean(), spread)
    contrast, chance, square, spread = map(float, means)
    return Signal(contrast, chance, m, square, spread)


def _draw(random: np.random.Generator, rewards: Floats, n: int, draws: int) -> Floats:
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
    groups = [np.asarray(rewards, float) for rewards in rewards_G]
    groups = [rewards[~np.isnan(rewards)] for rewards in groups]
    groups = [rewards for rewards in groups if len(rewards)]
    if not groups:
        raise InvalidInputError("no rollout has a reward: there is nothing to choose n and m by")
    values = np.unique(np.concatenate(groups))
    if resolve_rule(rule) is not max_variance or len(values) > 2:
        return ResampledRewards([rewards.tolist() for rewards in groups], rule)
    # one value only: whether it means right or wrong makes no difference to the contrast
    high = values[-1] if len(values) == 2 else np.inf
    right = tuple(int((rewards == high).sum()) for rewards in groups)
    return MeasuredRates(right, tuple(len(rewards) for rewards in groups))


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
