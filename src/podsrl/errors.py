"""The errors podsrl raises. Each is a `PodsError` and also the standard error that it refines."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class PodsError(Exception):
    """Base of every error raised on purpose by podsrl."""


class InvalidInputError(PodsError, ValueError):
    """An argument, a config value or a data file is not allowed; the message says what is."""


class UnknownNameError(PodsError, KeyError):
    """A rule, task or arm of that name does not exist; the message lists those that do."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0]) if self.args else ""


class UnsupportedError(PodsError, RuntimeError):
    """A combination of features that podsrl refuses rather than run wrongly."""


class MissingDependencyError(PodsError, ImportError):
    """An optional package is needed; the message says how to install it."""


class RewardError(PodsError, RuntimeError):
    """A reward function raised, or returned something that is no reward."""


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Turn a failed import into one line that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(("podsrl", "podslab")):
            raise
        raise MissingDependencyError(
            f"this needs {error.name}, which is not installed: pip install 'podsrl[{extra}]'"
        ) from error


def suggestion(given: object, known: Iterable[str], otherwise: str = "") -> str:
    """What to say of an unknown name: the one nearest to it, else `otherwise` or a list of all.

    >>> suggestion("max_varience", ["max_variance", "max_reward"])
    "did you mean 'max_variance'?"
    >>> suggestion("best", ["max_variance", "max_reward"])
    'allowed: max_variance, max_reward'
    """
    names = list(known)
    if near := difflib.get_close_matches(str(given), names, n=1):
        return f"did you mean {near[0]!r}?"
    return otherwise or f"allowed: {', '.join(names)}"
