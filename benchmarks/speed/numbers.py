"""Timings in turns, their medians and ratios, and tables with the limits they have to keep."""

import gc
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.markdown import table
from podsrl.rollout_log.files import write_whole

#: The seconds of each round, by what was measured.
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
    order: list[str] = []
    for number in range(rounds):
        first = number % len(names)
        order += [*names[first:], *names[:first]]
    return order


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
    return Spread(median=float(median), low=float(low), high=float(high))


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """The ratio of two measures, round by round: what slowed down one round cancels out.

    >>> ratio([2.0, 4.0, 9.0], [1.0, 2.0, 3.0])
    Spread(median=2.0, low=2.0, high=2.5)
    """
    return spread([upper / lower for upper, lower in zip(over, under, strict=True)])


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of the line through the logarithms: 1 where values grow as sizes do.

    >>> round(slope([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


class Limit(NamedTuple):
    """A number that must be at most `most`."""

    what: str
    found: Spread
    most: float

    @property
    def kept(self) -> bool:
        """Whether the median is at most the limit."""
        return self.found.median <= self.most


def write_as_measured(pages: Iterable[str], path: Path | None) -> None:
    """Write each page over the one before, and print the last one.

    So what is measured stays, also where the rest is stopped.

    Args:
        pages: The page after each part of the measurements.
        path: The file; None writes none.
    """
    text = ""
    for text in pages:
        if path is not None:
            write_whole(path, text.encode())
    print(text)


def section(
    title: str,
    note: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    limits: Sequence[Limit] = (),
) -> str:
    """A table in Markdown, below what it means, and the limits that its numbers have to keep."""
    lines = [f"## {title}", "", note, "", *table(heads, rows, align_right=True), ""]

    if limits:
        judged = []
        for limit in limits:
            verdict = "kept" if limit.kept else "**missed**"
            judged.append([limit.what, str(limit.found), f"{limit.most:g}", verdict])
        heads_of_limits = ["", "measured (quartiles)", "at most", ""]
        lines += [*table(heads_of_limits, judged, align_right=True), ""]
    return "\n".join(lines)
