"""Checks of what a user gives, before hours of work."""

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

from podsrl.errors import InvalidInputError


def number(kind: type[int] | type[float], least: float = 0) -> Any:
    """A converter for argparse that refuses text, NaN, infinity and what is less than `least`."""
    what = "a whole number" if kind is int else "a number"

    def convert(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan  # refused below

        if not least <= value < math.inf:
            raise argparse.ArgumentTypeError(f"must be {what} of at least {least}; got {text!r}")
        return value

    return convert


def refuse_unwritable(path: Path) -> None:
    """Raise `InvalidInputError` if a folder can't be made and written to; leave nothing behind."""
    path_and_parents = (path.absolute(), *path.absolute().parents)
    nearest = next(folder for folder in path_and_parents if folder.exists())
    try:
        tempfile.TemporaryDirectory(prefix=".podsrl-", dir=nearest).cleanup()
    except OSError as error:
        raise InvalidInputError(f"can't write to {path}: {nearest}: {error.strerror}") from error
