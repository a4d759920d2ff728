"""Numbers as the cells of the page's tables have them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.comparison.intervals import Difference

#: What a table of `points` says of its intervals.
INTERVALS = "In brackets: 95 % by t over seeds; by the bootstrap over seeds and questions."
#: A p that is shown as smaller than this.
_LEAST_P = 0.001
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def points(difference: Difference | None) -> str:
    """A difference of shares in points, with both its intervals."""
    if difference is None:
        return ""
    wide = f"{100 * difference.wide_low:+.1f} to {100 * difference.wide_high:+.1f}"
    return f"{100 * difference.mean:+.1f} ({_by_t(difference)}; {wide})"


def points_by_t(difference: Difference) -> str:
    """A difference of shares in points, with its interval by t alone."""
    return f"{100 * difference.mean:+.1f} ({_by_t(difference)})"


def _by_t(difference: Difference) -> str:
    return f"{100 * difference.low:+.1f} to {100 * difference.high:+.1f}"


def made_on(results: Sequence[Mapping[str, Any]]) -> str:
    """The processors that runs were made on, with how many seeds of an arm.

    >>> made_on([{"machine": {"cpu": "A"}}, {"machine": {"cpu": "A"}}])
    'A (2 seeds)'
    """
    machines = Counter(str(result["machine"]["cpu"]) for result in results)
    return ", ".join(f"{cpu} ({seeds} seeds)" for cpu, seeds in machines.items())


def p_value(p: float | None) -> str:
    """A p with three digits."""
    if p is None:
        return ""
    return f"{p:.3f}" if p >= _LEAST_P else f"< {_LEAST_P}"


def as_word(number: int) -> str:
    """A count as a sentence has it: in letters up to ten.

    >>> as_word(4), as_word(32)
    ('four', '32')
    """
    return _WORDS[number] if number < len(_WORDS) else str(number)


def with_spread(values: Sequence[float], digits: int = 2) -> str:
    """A mean over seeds, with half the length of its 95 % interval by t."""
    from scipy import stats

    mean = float(np.mean(values))
    if len(values) < 2 or np.ptp(values) == 0:
        return f"{mean:.{digits}f}"
    half = stats.sem(values) * stats.t.ppf(0.975, len(values) - 1)
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def with_range(values: Sequence[float], digits: int = 0) -> str:
    """A median over seeds, with the smallest and the largest."""
    low, high = min(values), max(values)
    return f"{np.median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
