"""Ranges of numbers, for arguments of commands."""

import argparse
import math
from typing import Any


def number(kind: type[int] | type[float], least: float = 0) -> Any:
    """A converter for argparse that refuses text, NaN, infinity and what is less than `least`."""
    what = "a whole number" if kind is int else "a number"

    def convert(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = float("nan")
        if not least <= value < math.inf:
            raise argparse.ArgumentTypeError(f"must be {what} of at least {least}; got {text!r}")
        return value

    return convert
