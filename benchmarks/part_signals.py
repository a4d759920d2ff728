"""Rewards of several parts: how strongly an update pushes each of them. docs/reward-parts.md."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from podsrl.advantages import group_advantages
from podsrl.downsampling import Rule, downsample
from podsrl.errors import InvalidInputError
from podslab.recommend.signal import Floats, Integers

_MOST_COUNTS = 2_000_000  # of rollouts by level, that a sum may run over
_EPS = 1e-4  # TRL's, added to the standard deviation


@dataclass(frozen=True)
class PartSignals:
    """What an update on m of n rollouts pushes.

    signal_F: expected covariance of the advantages with each part, over the kept rollouts.
    without_outcome: chance that the kept rewards of a group differ, but the first part does not.
    signal_without_outcome_F: what of `signal_F` comes from such groups.
    """

    signal_F: Floats
    without_outcome: float
    signal_without_outcome_F: Floats


@dataclass(frozen=True)
class Mixture:
    """Independent rollouts of a few kinds.

    parts_T_F: the parts of the reward of each kind, the outcome first; what is only watched has
        weight 0. chances_T: probability of each kind.
    """

    parts_T_F: Floats
    chances_T: Floats

    def __post_init__(self) -> None:
        parts, chances = np.asarray(self.parts_T_F), np.asarray(self.chances_T)
        if parts.ndim != 2 or chances.shape != parts.shape[:1]:
            raise InvalidInputError(
                f"parts (kinds, parts) and chances (kinds,) must agree; got {parts.shape} and"
                f" {chances.shape}"
            )
        if (chances < 0).any() or not np.isclose(chances.sum(), 1.0):
            raise InvalidInputError(f"chances must be >= 0 and sum to 1; got {chances.tolist()}")


def mixture_signals(
    mixture: Mixture,
    n: int,
    m: int,
    weights: Sequence[float],
    selection_weights: Sequence[float] | None = None,
    rule: str | Rule = "max_variance",
) -> PartSignals:
    """The signal of each part, by an exact sum over the numbers of rollouts of each kind.

    Args:
        mixture: kinds of rollouts.
        n, m: generated and kept.
        weights: of each part in the reward.
        selection_weights: of each part in what the rule sees; default: `weights`. Ties in it are
            broken at random, so the kept rollouts of a level are any of that level.
        rule: as in `downsample`; it must look at rewards only.

    Raises:
        InvalidInputError: too many kinds for a sum; resample measured groups then.

    >>> half_right = Mixture(np.array([[0.0], [1.0]]), np.array([0.5, 0.5]))
    >>> mixture_signals(half_right, 64, 16, [1.0]).signal_F.round(3).tolist()
    [0.484]
    """
    parts, chances = np.asarray(mixture.parts_T_F, float), np.asarray(mixture.chances_T, float)
    reward_T = parts @ np.asarray(weights, float)
    seen_T = parts @ np.asarray(weights if selection_weights is None else selection_weights, float)
    level_L, level_of_T = np.unique(np.round(seen_T, 12), return_inverse=True)
    chance_L = np.bincount(level_of_T, weights=chances)
    if rule == "random":
        n = m  # m of n independent rollouts are m independent rollouts
    found: list[tuple[float, Integers]] = []
    for chance, kept_L in _kept_levels(level_L, chance_L, n, m, rule):
        of_levels = [
            list(_compositions(kept, chances * (level_of_T == level)))
            for level, kept in enumerate(kept_L)
        ]
        for choice in product(*of_levels):
            together = chance * float(np.prod([p for p, _ in choice]))
            found.append((together, np.sum([counts for _, counts in choice], axis=0)))
    weight_C, count_C_T = np.array([c for c, _ in found]), np.array([k for _, k in found])
    return _summarise(weight_C, count_C_T, reward_T, parts)


def _summarise(
    weight_C: Floats, count_C_T: Integers, reward_T: Floats, parts: Floats
) -> PartSignals:
    """Sums over kept groups, given by how many of each kind they hold."""
    m = int(count_C_T[0].sum())
    mean = count_C_T @ reward_T / m
    away = reward_T - mean[:, None]
    variance = (count_C_T * away**2).sum(axis=1) / max(1, m - 1)
    advantage = away / (np.sqrt(variance) + _EPS)[:, None]
    signal_C_F = (count_C_T * advantage) @ parts / m
    there = count_C_T[:, :, None] > 0
    outcome = np.where(there[..., 0], parts[:, 0], np.nan)
    alone = (np.nanmax(outcome, axis=1) == np.nanmin(outcome, axis=1)) & (variance > 1e-18)
    return PartSignals(
        weight_C @ signal_C_F,
        float(weight_C @ alone),
        (weight_C * alone) @ signal_C_F,
    )


def _kept_levels(
    level_L: Floats, chance_L: npt.NDArray[Any], n: int, m: int, rule: str | Rule
) -> Iterator[tuple[float, Integers]]:
    """How many the rule keeps of each level, with its probability."""
    levels = len(level_L)
    if comb(n + levels - 1, levels - 1) > _MOST_COUNTS:
        raise InvalidInputError(
            f"{n} rollouts of {levels} different rewards are too many cases for an exact sum; use"
            " resampled_signals with groups of rewards"
        )
    bars = np.array(list(combinations(range(n + levels - 1), levels - 1)), dtype=np.int64)
    bars = bars.reshape(-1, levels - 1)
    edges = np.concatenate([np.full((len(bars), 1), -1), bars], axis=1)
    ends = np.concatenate([bars, np.full((len(bars), 1), n + levels - 1)], axis=1)
    count_C_L = ends - edges - 1
    chance_C = stats.multinomial.pmf(count_C_L, n, chance_L)
    likely = chance_C > 1e-15
    count_C_L, chance_C = count_C_L[likely], chance_C[likely]
    which_C_N = (np.arange(n) >= count_C_L.cumsum(axis=1)[:, :, None]).sum(axis=1)
    kept_C_M = np.take_along_axis(which_C_N, downsample(level_L[which_C_N], m, rule), axis=1)
    kept_C_L = (kept_C_M[:, :, None] == np.arange(levels)).sum(axis=1)
    different, place = np.unique(kept_C_L, axis=0, return_inverse=True)
    total = np.bincount(place.reshape(-1), weights=chance_C)
    yield from zip(total.tolist(), different, strict=True)


def _compositions(count: int, chance_T: Floats) -> Iterator[tuple[float, Integers]]:
    """All numbers of each kind among `count` independent rollouts of one level."""
    kinds = np.flatnonzero(chance_T > 0)
    if not len(kinds) or count == 0:
        yield 1.0, np.zeros(len(chance_T), dtype=np.int64)
        return
    share = chance_T[kinds] / chance_T[kinds].sum()
    for split in product(range(count + 1), repeat=len(kinds) - 1):
        if sum(split) <= count:
            counts = np.zeros(len(chance_T), dtype=np.int64)
            counts[kinds] = [*split, count - sum(split)]
            yield float(stats.multinomial.pmf(counts[kinds], count, share)), counts


def resampled_signals(
    parts_G: Sequence[Floats],
    n: int,
    m: int,
    weights: Sequence[float],
    selection_weights: Sequence[float] | None = None,
    rule: str | Rule = "max_variance",
    draws: int = 64,
    seed: int = 0,
) -> PartSignals:
    """The signal of each part, from measured groups: n of each are drawn, again and again.

    Unbiased for any distribution of prompts as long as no group is smaller than n.

    Args:
        parts_G: for each group an array (rollouts, parts), the outcome first.
        n, m, weights, selection_weights, rule: as in `mixture_signals`.
        draws: of each group. seed: of the draws and of ties.

    Raises:
        InvalidInputError: a group of fewer than n rollouts.
    """
    smallest = min(len(parts) for parts in parts_G)
    if smallest < n:
        raise InvalidInputError(
            f"n = {n} rollouts can't be drawn of a group of {smallest}; allowed is n <= {smallest}"
        )
    random = np.random.default_rng(seed)
    drawn = np.concatenate(
        [
            parts[random.permuted(np.tile(np.arange(len(parts)), (draws, 1)), axis=1)[:, :n]]
            for parts in map(np.asarray, parts_G)
        ]
    )
    seen = drawn @ np.asarray(weights if selection_weights is None else selection_weights, float)
    rewards = drawn @ np.asarray(weights, float)
    kept = downsample(seen, m, rule, seed=[seed, n, m])
    advantages = group_advantages(rewards, kept, eps=_EPS)
    kept_parts = np.take_along_axis(drawn, kept[..., None], axis=1)
    signal_D_F = np.einsum("dm,dmf->df", advantages, kept_parts) / m
    varies = np.ptp(np.take_along_axis(rewards, kept, axis=1), axis=1) > 1e-9
    alone = varies & (np.ptp(kept_parts[..., 0], axis=1) == 0)
    return PartSignals(
        signal_D_F.mean(axis=0),
        float(alone.mean()),
        (signal_D_F * alone[:, None]).mean(axis=0),
    )


def answer_and_form(right: float, formed: float, paid: str = "every") -> Mixture:
    """Three parts: the answer, the form as it is paid for, and being well formed (only watched).

    Args:
        right: share of right answers. formed: share of well-formed rollouts, whatever the answer.
        paid: "every": every well-formed rollout; "wrong": those with a wrong answer.
    """
    if paid not in ("every", "wrong"):
        raise InvalidInputError(f"paid={paid!r}; allowed: every, wrong")
    kinds = [(answer, form) for answer in (0.0, 1.0) for form in (0.0, 1.0)]
    return Mixture(
        np.array([(a, f if paid == "every" else f * (1 - a), f) for a, f in kinds]),
        np.array([(right if a else 1 - right) * (formed if f else 1 - formed) for a, f in kinds]),
    )
