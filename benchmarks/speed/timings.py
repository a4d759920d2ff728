"""Interleaved timings, and medians and ratios of them with their spread."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import linregress

Seconds = dict[str, list[float]]


class Spread(NamedTuple):
    """A median, and the quartiles around it."""

    median: float
    low: float
    high: float


class Growth(NamedTuple):
    """The exponent b of y = a x^b, fitted on logarithms, and its standard error."""

    exponent: float
    error: float


def in_turns(names: Sequence[str], rounds: int) -> list[str]:
    """Who is measured when: everyone once a round, each round begun by the next one.

    What slows a machine down for a while then hits all alike, and nobody is always first.

    >>> in_turns(["a", "b", "c"], rounds=2)
    ['a', 'b', 'c', 'b', 'c', 'a']
    """
    return [names[(start + i) % len(names)] for start in range(rounds) for i in range(len(names))]


def time_in_turns(
    functions: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Seconds:
    """Seconds of each function in each round, after one call of each that does not count.

    The garbage collector waits meanwhile, as it does in `timeit`.
    """
    for function in functions.values():
        function()
    seconds: Seconds = {name: [] for name in functions}
    collects = gc.isenabled()
    gc.disable()
    try:
        for name in in_turns(list(functions), rounds):
            began = clock()
            functions[name]()
            seconds[name].append(clock() - began)
    finally:
        if collects:
            gc.enable()
    return seconds


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles.

    >>> spread([4.0, 1.0, 2.0, 3.0, 5.0])
    Spread(median=3.0, low=2.0, high=4.0)
    """
    low, median, high = np.quantile(np.asarray(values, dtype=np.float64), (0.25, 0.5, 0.75))
    return Spread(float(median), float(low), float(high))


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """The ratio of two measures, round by round: what one round's machine did cancels out.

    >>> ratio([2.0, 4.0, 9.0], [1.0, 2.0, 3.0])
    Spread(median=2.0, low=2.0, high=2.5)
    """
    return spread([a / b for a, b in zip(over, under, strict=True)])


def growth(x: Sequence[float], y: Sequence[float]) -> Growth:
    """Fit y = a x^b by least squares on logarithms.

    >>> growth([1, 2, 4], [3.0, 12.0, 48.0])
    Growth(exponent=2.0, error=0.0)
    """
    fit = linregress(np.log(x), np.log(y))
    return Growth(float(fit.slope), float(fit.stderr))
