"""The seconds that choosing rollouts takes: group rules beside plain Python, and the batch rule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from benchmarks.speed.numbers import Limit, ratio, spread, table, time_in_turns
from podslab.durations import duration
from podsrl import downsample, downsample_batch

#: Seconds that `max_contrast` may take for 1,024 prompts of 8 rollouts.
MOST_SECONDS = 0.05


@dataclass(frozen=True)
class Size:
    """What is measured: m, groups x n of the group rule, prompts x n and rows of the batch rule."""

    m: int = 16
    groups: tuple[tuple[int, int], ...] = ((1, 64), (64, 64), (4096, 64), (4096, 1024))
    batches: tuple[tuple[int, int, int], ...] = (
        (1024, 8, 1024),
        (1024, 8, 4096),
        (4096, 64, 4096),
    )
    rounds: int = 7


QUICK = Size(m=4, groups=((1, 16), (64, 16)), batches=((64, 8, 64),), rounds=2)


def measure(size: Size) -> list[str]:
    """A table of the group rule max_variance, and one of the batch rule max_contrast."""
    draw = np.random.default_rng(0)
    return [_groups(size, draw), _batches(size, draw)]


def scan(rewards_P_N: Sequence[Sequence[float]], m: int) -> list[list[int]]:
    """Algorithm 2 of arXiv 2504.13818 as it stands there: sort, then scan m + 1 candidates.

    Prefix sums of rewards and of their squares give each candidate's variance in constant time.
    """
    return [_scan_group(rewards_N, m) for rewards_N in rewards_P_N]


def _scan_group(rewards_N: Sequence[float], m: int) -> list[int]:
    n = len(rewards_N)
    order = sorted(range(n), key=rewards_N.__getitem__)
    total, squares = [0.0], [0.0]
    for i in order:
        total.append(total[-1] + rewards_N[i])
        squares.append(squares[-1] + rewards_N[i] ** 2)
    best, best_high = -1.0, 0
    for high in range(m + 1):
        low = m - high
        mean = (total[low] + total[n] - total[n - high]) / m
        variance = (squares[low] + squares[n] - squares[n - high]) / m - mean * mean
        if variance > best:
            best, best_high = variance, high
    return order[: m - best_high] + order[n - best_high :]


def check_agreement(rewards_P_N: np.ndarray, m: int) -> None:
    """The rule on numpy, on torch, and the plain scan keep sets of the same variance.

    Raises:
        AssertionError: they do not.
    """
    tensor = torch.from_numpy(rewards_P_N)
    found = [
        np.var(np.take_along_axis(rewards_P_N, np.asarray(kept), axis=-1), axis=-1)
        for kept in (
            downsample(rewards_P_N, m),
            downsample(tensor, m),
            scan(rewards_P_N.tolist(), m),
        )
    ]
    for variance_P in found[1:]:
        np.testing.assert_allclose(variance_P, found[0], rtol=1e-9)


def _groups(size: Size, draw: np.random.Generator) -> str:
    rows = []
    for groups, n in size.groups:
        rewards = draw.normal(size=(groups, n))
        check_agreement(rewards, size.m)
        tensor, lists = torch.from_numpy(rewards), rewards.tolist()
        functions: dict[str, Callable[[], object]] = {
            "numpy": partial(downsample, rewards, size.m),
            "torch": partial(downsample, tensor, size.m),
            "scan": partial(scan, lists, size.m),
        }
        seconds = time_in_turns(functions, size.rounds)
        medians = [duration(spread(seconds[name]).median) for name in functions]
        times = str(ratio(seconds["scan"], seconds["numpy"]))
        rows.append([f"{groups:,} x {n:,}", *medians, times])
    return table(
        f"Selection within prompts: max_variance, m = {size.m}",
        "Median seconds of one call for all groups. All versions keep sets of the same variance.",
        ["groups x n", "numpy", "torch", "Algorithm 2 in plain Python", "plain / numpy"],
        rows,
    )


def _batches(size: Size, draw: np.random.Generator) -> str:
    cells, limits = [], []
    for prompts, n, rows in size.batches:
        kinds = {
            "0 or 1": (draw.random((prompts, n)) < draw.random((prompts, 1))).astype(float),
            "0, 0.1, ... 1": draw.integers(0, 11, (prompts, n)) / 10,
            "normal": draw.normal(size=(prompts, n)),
        }
        functions = {
            kind: lambda given=rewards, rows=rows: downsample_batch(given, rows=rows, seed=0)
            for kind, rewards in kinds.items()
        }
        seconds = time_in_turns(functions, size.rounds)
        found = {kind: spread(seconds[kind]) for kind in kinds}
        what = f"{prompts:,} x {n}, {rows:,} rows"
        cells.append([what, *(duration(found[kind].median) for kind in kinds)])
        if (prompts, n, rows) == (1024, 8, 1024):
            limits += [Limit(f"{what}, {kind}: s", found[kind], MOST_SECONDS) for kind in kinds]
    return table(
        "Selection across prompts: max_contrast",
        "Median seconds of one call, with a seed for ties; pass rates of rewards of 0 or 1 are"
        " spread evenly.",
        ["prompts x n", "rewards 0 or 1", "rewards 0, 0.1, ... 1", "normal rewards"],
        cells,
        limits,
    )
