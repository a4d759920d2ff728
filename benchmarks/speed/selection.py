"""The seconds that choosing rollouts takes: the group rule beside plain Python."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.speed.numbers import ratio, section, spread, time_in_turns
from podslab.durations import duration
from podsrl import downsample


class Groups(NamedTuple):
    """So many prompts with n rollouts each, of which m are kept."""

    prompts: int
    n: int
    m: int


@dataclass(frozen=True)
class Size:
    """The sizes of the group rule that are measured, and the number of rounds."""

    groups: tuple[Groups, ...] = (
        Groups(1, n=64, m=16),
        Groups(64, n=64, m=16),
        Groups(4096, n=64, m=16),
        Groups(4096, n=1024, m=16),
    )
    rounds: int = 7


QUICK = Size(
    groups=(Groups(1, n=16, m=4), Groups(64, n=16, m=4)),
    rounds=2,
)


def scan(rewards_P_N: Sequence[Sequence[float]], m: int) -> list[list[int]]:
    """Algorithm 2 of arXiv 2504.13818 as it stands there: sort, then scan m + 1 candidates.

    Prefix sums of rewards and of their squares give each candidate's variance in constant time.
    """
    return [_scan_group(rewards_N, m) for rewards_N in rewards_P_N]


def _scan_group(rewards_N: Sequence[float], m: int) -> list[int]:
    n = len(rewards_N)
    order = sorted(range(n), key=rewards_N.__getitem__)

    total = [0.0]
    squares = [0.0]
    for place in order:
        total.append(total[-1] + rewards_N[place])
        squares.append(squares[-1] + rewards_N[place] ** 2)

    # Every candidate has the `high` highest rewards and the m - `high` lowest.
    best_variance = -1.0
    best_high = 0
    for high in range(m + 1):
        low = m - high
        mean = (total[low] + total[n] - total[n - high]) / m
        variance = (squares[low] + squares[n] - squares[n - high]) / m - mean * mean
        if variance > best_variance:
            best_variance = variance
            best_high = high
    return order[: m - best_high] + order[n - best_high :]


def check_agreement(rewards_P_N: np.ndarray, m: int) -> None:
    """The rule on numpy, on torch, and the plain scan keep sets of the same variance.

    Raises:
        AssertionError: they do not.
    """
    on_numpy = _variances(rewards_P_N, downsample(rewards_P_N, m))
    on_torch = _variances(rewards_P_N, downsample(torch.from_numpy(rewards_P_N), m))
    scanned = _variances(rewards_P_N, scan(rewards_P_N.tolist(), m))
    np.testing.assert_allclose(on_torch, on_numpy, rtol=1e-9)
    np.testing.assert_allclose(scanned, on_numpy, rtol=1e-9)


def _variances(rewards_P_N: np.ndarray, kept_P_M: Any) -> np.ndarray:
    """The variance of each group's kept rewards, shape (P,)."""
    kept_rewards_P_M = np.take_along_axis(rewards_P_N, np.asarray(kept_P_M), axis=-1)
    return np.asarray(np.var(kept_rewards_P_M, axis=-1))


def measure(size: Size) -> str:
    """A table of the group rule max_variance."""
    draw = np.random.default_rng(0)
    rows = []
    for groups in size.groups:
        rewards_P_N = draw.normal(size=(groups.prompts, groups.n))
        check_agreement(rewards_P_N, groups.m)

        functions: dict[str, Callable[[], object]] = {
            "numpy": partial(downsample, rewards_P_N, groups.m),
            "torch": partial(downsample, torch.from_numpy(rewards_P_N), groups.m),
            "scan": partial(scan, rewards_P_N.tolist(), groups.m),
        }
        seconds = time_in_turns(functions, size.rounds)

        medians = [duration(spread(seconds[name]).median) for name in functions]
        times_as_long = str(ratio(seconds["scan"], seconds["numpy"]))
        rows.append([f"{groups.prompts:,} x {groups.n:,}", *medians, times_as_long])

    return section(
        title=f"Selection within prompts: max_variance, m = {size.groups[0].m}",
        note="Median seconds of one call for all groups. All versions keep sets of the same"
        " variance.",
        heads=["groups x n", "numpy", "torch", "Algorithm 2 in plain Python", "plain / numpy"],
        rows=rows,
    )
