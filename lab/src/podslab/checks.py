"""Checks of what a user gives, before hours of work."""

import argparse
import math
import tempfile
from collections.abc import Sequence
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


def check_gpus(option: str, names: Sequence[str]) -> None:
    """Raise `InvalidInputError` for a GPU that this machine does not have.

    Args:
        option: The option that names them.
        names: Their numbers.
    """
    import torch

    there = torch.cuda.device_count()
    for name in names:
        if not name.isdecimal() or int(name) >= there:
            has = (
                "no GPU" if not there else "one GPU, 0," if there == 1 else f"GPUs 0 to {there - 1}"
            )
            raise InvalidInputError(f"{option} {name}: this machine has {has} that torch can use")


def refuse_unwritable(path: Path) -> None:
    """Raise `InvalidInputError` if a folder can't be made and written to; leave nothing behind."""
    path_and_parents = (path.absolute(), *path.absolute().parents)
    nearest = next(folder for folder in path_and_parents if folder.exists())
    try:
        tempfile.TemporaryDirectory(prefix=".podsrl-", dir=nearest).cleanup()
    except OSError as error:
        raise InvalidInputError(f"can't write to {path}: {nearest}: {error.strerror}") from error
