"""The errors podsrl raises. Each is a `PodsError` and also the standard error that it refines."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from string import Template
from typing import Any


class PodsError(Exception):
    """Base of every error raised on purpose by podsrl."""


class InvalidInputError(PodsError, ValueError):
    """An argument, a config value or a data file is not allowed; the message says what is."""


class FieldError(InvalidInputError):
    """A field has a value that is not allowed; each host names fields as its users know them.

    Args:
        template: The message, with `$name` for a field, and for each of the values.
        values: What was given, and other words that the message quotes.
    """

    def __init__(self, template: str, **values: Any) -> None:
        self.template = template
        self.values = values
        super().__init__(self.named({}))

    def named(self, names: Mapping[str, str]) -> str:
        """The message with these names of fields in place of their own.

        >>> FieldError("$num_kept=$given is too large", given=9).named({"num_kept": "m"})
        'm=9 is too large'
        """
        own = {name: name for name in Template(self.template).get_identifiers()}
        return Template(self.template).substitute({**own, **names, **self.values})


@contextmanager
def fields_named(names: Mapping[str, str]) -> Iterator[None]:
    """Turn a `FieldError` into an `InvalidInputError` that names fields as a host's users do."""
    try:
        yield
    except FieldError as error:
        raise InvalidInputError(error.named(names)) from error


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


class RecordError(PodsError, RuntimeError):
    """A record of a run could not be written; the message says why."""


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Turn a failed import into one line that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(("podsrl", "podslab")):
            raise
        raise MissingDependencyError(
            f"this needs {error.name}, which is not installed: {how_to_install(extra)}"
        ) from error


def how_to_install(extra: str) -> str:
    """The command that installs what an extra of podsrl needs, for this installation.

    It names the packages themselves. podsrl may be on no package index, and whoever took its name
    there would be installed.
    """
    try:
        required = metadata.requires("podsrl") or []
    except metadata.PackageNotFoundError:  # run from its sources
        required = []
    marked = f'extra == "{extra}"'
    wanted = [
        requirement.partition(";")[0].strip()
        for requirement in required
        if marked in requirement.replace("'", '"')
    ]
    packages = " ".join(f"'{one}'" for one in wanted if not one.startswith("podsrl"))
    return f"pip install {packages}" if packages else f"install podsrl with its extra {extra!r}"


def suggestion(name: object, known: Iterable[str], otherwise: str = "") -> str:
    """Suggest the known name nearest to an unknown one, else say `otherwise`, or list all.

    >>> suggestion("max_varience", ["max_variance", "max_reward"])
    "did you mean 'max_variance'?"
    >>> suggestion("best", ["max_variance", "max_reward"])
    'allowed: max_variance, max_reward'
    """
    names = list(known)
    if near := difflib.get_close_matches(str(name), names, n=1):
        return f"did you mean {near[0]!r}?"
    return otherwise or f"allowed: {', '.join(names)}"


#: So many differences are read in a message; of more, the first ones say what kind they are.
_MOST_LISTED = 6


def listed(differences: Sequence[str]) -> str:
    """Differences for a message: the first ones, and how many more there are.

    >>> listed(["a: 1 -> 2", "b: 1 -> 2"]), listed([str(i) for i in range(60)])
    ('a: 1 -> 2; b: 1 -> 2', '0; 1; 2; 3; 4; 5; and 54 more')
    """
    more = len(differences) - _MOST_LISTED
    shown = [*differences[:_MOST_LISTED], f"and {more} more"] if more > 0 else differences
    return "; ".join(shown)
