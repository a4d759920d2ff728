"""Ranges of numbers, for fields of a config and for arguments of commands."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bounds:
    """Numbers from `least` to `most`, or above `least` where it is `open`."""

    least: float = 0
    most: float = math.inf
    open: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.least if self.open else value >= self.least
        return above and value <= self.most and math.isfinite(value)

    def words(self, kind: str) -> str:
        """The range of numbers of a kind, "int" or "float", in words.

        >>> SHARE.words("float"), COUNT.words("int")
        ('a number of at least 0 and at most 1', 'a whole number of at least 1')
        """
        what = "a whole number" if kind == "int" else "a number"
        start = f" above {self.least:g}" if self.open else f" of at least {self.least:g}"
        end = f" and at most {self.most:g}" if self.most < math.inf else ""
        return f"{what}{start}{end}"


SHARE, POSITIVE, COUNT = Bounds(0, 1), Bounds(open=True), Bounds(1)


def number(kind: type[int] | type[float], bounds: Bounds) -> Any:
    """A converter for argparse that refuses text, NaN and what is out of range.

    Raises:
        argparse.ArgumentTypeError: by the converter.
    """
    import argparse

    def convert(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = float("nan")
        if value not in bounds:
            raise argparse.ArgumentTypeError(f"must be {bounds.words(kind.__name__)}; got {text!r}")
        return value

    return convert
