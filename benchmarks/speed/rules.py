"""The seconds of the rules by size: max_variance of each prompt, max_contrast across prompts."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.speed.numbers import time_in_turns
from podsrl import downsample, downsample_batch

#: Prompts and rollouts of each; a quarter is kept.
SIZES = ((64, 64), (256, 64), (512, 64), (1024, 64), (4096, 64), (4096, 16))
KINDS = ("0 or 1", "0, 0.1, ... 1", "normal")
ROUNDS = 5


@dataclass(frozen=True)
class Measured:
    """The median seconds of one call for all prompts, of processor time of its thread.

    Args:
        prompts, n: How many there are, with n rollouts each; n / 4 are kept, on average.
        rewards: What kind of rewards: with many ties, with some, with none.
        max_variance, max_contrast: Seconds, by rule.
    """

    prompts: int
    n: int
    rewards: str
    max_variance: float
    max_contrast: float


def measure(sizes: Sequence[tuple[int, int]] = SIZES, rounds: int = ROUNDS) -> list[Measured]:
    """Both rules in turns, for each size and each kind of rewards."""
    draw = np.random.default_rng(0)
    measured = []
    for prompts, n in sizes:
        m = n // 4
        for kind in KINDS:
            rewards_P_N = _rewards(kind, prompts, n, draw)
            functions: dict[str, Callable[[], object]] = {
                "max_variance": partial(downsample, rewards_P_N, m),
                "max_contrast": partial(downsample_batch, rewards_P_N, rows=prompts * m, seed=0),
            }
            seconds = time_in_turns(functions, rounds, clock=time.thread_time)
            medians = {rule: statistics.median(of) for rule, of in seconds.items()}
            measured.append(Measured(prompts, n, kind, **medians))
    return measured


def _rewards(kind: str, prompts: int, n: int, draw: np.random.Generator) -> np.ndarray:
    """Rewards of a kind, shape (P, N); pass rates of rewards of 0 or 1 are spread evenly."""
    shape = (prompts, n)
    if kind == "0 or 1":
        return (draw.random(shape) < draw.random((prompts, 1))).astype(float)
    if kind == "normal":
        return draw.normal(size=shape)
    return draw.integers(0, 11, shape) / 10
