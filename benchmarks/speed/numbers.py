"""Timings in turns, their medians and ratios, and tables with the limits they have to keep."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

Seconds = dict[str, list[float]]


class Spread(NamedTuple):
    """A median with its quartiles."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


def in_turns(names: Sequence[str], rounds: int) -> list[str]:
    """The order of measuring: each name once per round, and another one first in each round.

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
    """The seconds of each function in each round, after one call of each that does not count.

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
    """The median and the quartiles.

    >>> spread([4.0, 1.0, 2.0, 3.0, 5.0])
    Spread(median=3.0, low=2.0, high=4.0)
    """
    low, median, high = np.quantile(np.asarray(values, dtype=np.float64), (0.25, 0.5, 0.75))
    return Spread(float(median), float(low), float(high))


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """The ratio of two measures, round by round: what slowed down one round cancels out.

    >>> ratio([2.0, 4.0, 9.0], [1.0, 2.0, 3.0])
    Spread(median=2.0, low=2.0, high=2.5)
    """
    return spread([a / b for a, b in zip(over, under, strict=True)])


class Limit(NamedTuple):
    """A number that must be at most `most`."""

    what: str
    found: Spread
    most: float

    @property
    def kept(self) -> bool:
        """Whether the median is at most the limit."""
        return self.found.median <= self.most


def table(
    title: str,
    note: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    limits: Sequence[Limit] = (),
) -> str:
    """Text cells in Markdown, below what they mean, and the limits that they have to keep."""
    parts = [f"## {title}\n", f"{note}\n", _pipes(head, rows)]
    judged = [
        [one.what, str(one.found), f"{one.most:g}", "kept" if one.kept else "**missed**"]
        for one in limits
    ]
    if judged:
        parts.append("\n" + _pipes(["", "measured (quartiles)", "at most", ""], judged))
    return "\n".join(parts) + "\n"


def _pipes(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
