"""argparse's parser with one-line errors that suggest what was meant."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from podsrl.errors import InvalidInputError


class VerbParser(argparse.ArgumentParser):
    """A parser that knows its options by name, and raises `InvalidInputError` for a mistake."""

    def __init__(self, **settings: Any) -> None:
        self.own_options: list[str] = []
        self.below: Any = None  # of verbs below this one, as of `pods tasks check`
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**{**settings, "allow_abbrev": False})

    def add_argument(self, *names: Any, **settings: Any) -> Any:
        """argparse's; remembers the names of options."""
        self.own_options += [name for name in names if name.startswith("--")]
        return super().add_argument(*names, **settings)

    def add_subparsers(self, **settings: Any) -> Any:
        """argparse's; remembers the parsers of the verbs below."""
        self.below = super().add_subparsers(**settings)
        return self.below

    def options(self) -> Iterator[str]:
        """The names of all options, with those of the verbs below."""
        yield from self.own_options
        if self.below is not None:
            for parser in self.below.choices.values():
                yield from parser.options()

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and exiting."""
        raise InvalidInputError(f"{message} (`{self.prog} --help` tells more)")


def list_of_verbs(summaries: dict[str, str], version: str) -> VerbParser:
    """The parser of `pods` alone: what its verbs are for."""
    width = max(map(len, summaries)) + 2
    verbs = "\n".join(f"    {name:{width}}{summary}" for name, summary in summaries.items())
    parser = VerbParser(
        prog="pods",
        usage="pods VERB ...",
        description=f"PODS: generate many rollouts, train on the few that teach.\n\n{verbs}",
        epilog="`pods VERB --help` explains a verb.",
    )
    parser.add_argument("verb", metavar="VERB", help="one of the verbs above")
    parser.add_argument("--version", action="version", version=f"podsrl {version}")
    return parser


def without_fields(words: Sequence[str], options: Sequence[str]) -> tuple[list[str], list[str]]:
    """A verb's own words, and every other --name with the words that follow it.

    A field of a config may take several values, and a verb may take words of its own, so each word
    goes to the option before it.

    >>> without_fields(["RUN", "--rows", "8", "--betas", "-0.9", "0.99"], ["--rows"])
    (['RUN', '--rows', '8'], ['--betas', '-0.9', '0.99'])
    """
    own: list[str] = []
    fields: list[str] = []
    target = own
    for word in words:
        if word.startswith("--"):
            target = own if word.partition("=")[0] in options else fields
        elif word.startswith("-") and not word[1:2].isdigit():  # -h, and not -0.9
            target = own
        target.append(word)
    return own, fields
