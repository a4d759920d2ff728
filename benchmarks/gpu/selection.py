"""Selection on the GPU: the same rollouts as on the CPU, and how long it takes."""

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from podsrl import RULES, downsample

_MOST_SECONDS = 1.5  # of each timing
KINDS = ("binary", "normal", "levels", "equal", "unscorable")
#: The group rules; a batch rule works on the CPU, wherever the rewards are.
GROUP_RULES = ("max_variance", "max_reward", "random", "percentile")
assert set(GROUP_RULES) <= set(RULES)


def rewards_of(kind: str, groups: int, n: int) -> np.ndarray:
    """Rewards with many ties, with none, of a few levels, equal, or some of them unscorable."""
    draw = np.random.default_rng([groups, n])
    if kind == "normal":
        return draw.standard_normal((groups, n))
    if kind == "levels":
        return draw.integers(0, 4, (groups, n)) / 3
    if kind == "equal":
        return np.full((groups, n), 0.1)
    binary = (draw.random((groups, n)) < draw.random((groups, 1))).astype(float)
    if kind == "unscorable":
        binary[draw.random((groups, n)) < 0.3] = np.nan
    return binary


def differences(device: str, groups: Sequence[int], sizes: Sequence[int]) -> dict[str, Any]:
    """How many selections on the device are not those of numpy on the CPU, of how many compared."""
    compared, different = 0, []
    for count in groups:
        for n in sizes:
            for kind in KINDS:
                rewards = rewards_of(kind, min(count, 256), n).astype(np.float32)
                on_device = torch.tensor(rewards, device=device)
                for rule in GROUP_RULES:
                    for seed in (None, 3) if rule != "random" else (3,):
                        expected = downsample(rewards, kept_of(n), rule, seed)
                        got = downsample(on_device, kept_of(n), rule, seed)
                        compared += len(rewards)
                        wrong = int((got.cpu().numpy() != expected).any(axis=-1).sum())
                        if wrong or got.device != on_device.device:
                            what = f"{rule}, seed {seed}, {kind}, {len(rewards)} x {n}"
                            different.append(f"{what}: {wrong} groups on {got.device}")
    return {"groups_compared": compared, "different": different}


def timings(
    device: str, groups: Sequence[int], sizes: Sequence[int], repeats: int
) -> list[dict[str, Any]]:
    """Median milliseconds of `downsample` by max_variance, with waiting for the result.

    device: without a seed. seeded: with ties broken at random, as the trainer does it. numpy: on a
    CPU.
    """
    rows = []
    for count in groups:
        for n in sizes:
            rewards, m = rewards_of("binary", count, n), kept_of(n)
            on_device = torch.tensor(rewards, dtype=torch.float32, device=device)
            row: dict[str, Any] = {"groups": count, "n": n, "m": m}
            row["device"] = _time(partial(downsample, on_device, m), device, repeats)
            row["seeded"] = _time(partial(downsample, on_device, m, seed=3), device, repeats)
            row["numpy"] = _time(partial(downsample, rewards, m), "cpu", repeats)
            rows.append(row)
    return rows


def kept_of(n: int) -> int:
    """16, but no more than a quarter of the group."""
    return min(16, n // 4)


def _time(call: Callable[[], Any], device: str, repeats: int) -> float:
    """The median milliseconds of a call."""
    wall, began = [], time.perf_counter()
    for attempt in range(repeats + 2):
        started = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        if attempt >= min(2, repeats - 1):  # the first ones load kernels
            wall.append(1e3 * (time.perf_counter() - started))
        if wall and time.perf_counter() - began > _MOST_SECONDS:
            break
    return statistics.median(wall)
