"""The command `pods`: one verb per module, imported when it is asked for.

The library has `select` and `inspect`. Other packages add verbs by the entry point group
`podsrl.verbs`: each is a module with SUMMARY, configure(parser) and run(args). With
TAKES_FIELDS = True it gets options that its parser does not know as words in `args.fields`.
"""

import argparse
import importlib
import logging
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, NoReturn

from podsrl import __version__
from podsrl.errors import InvalidInputError, MissingDependencyError, PodsError, suggestion

_OWN_VERBS = {"select": "podsrl.cli.select", "inspect": "podsrl.cli.inspect"}
#: The verbs of the laboratory, in the order in which they are listed where it is installed.
_LAB_VERBS = ("demo", "train", "recommend", "compare", "evaluate", "report", "tasks")


def find_verbs() -> dict[str, str]:
    """The module of every verb that is installed, by the verb's name."""
    found = {point.name: point.value for point in metadata.entry_points(group="podsrl.verbs")}
    order = dict.fromkeys(name for name in (*_LAB_VERBS, *sorted(found)) if name in found)
    return {name: found[name] for name in order} | _OWN_VERBS


def main(argv: Sequence[str] | None = None) -> int:
    """Run `pods VERB ...`; 0, or 2 for a mistake of the user's, with one line why."""
    words = list(sys.argv[1:] if argv is None else argv)
    verbs = find_verbs()
    verb = words[0] if words and words[0] in verbs else None
    try:
        try:
            return _run(words, verb, verbs)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # as in `pods VERB | head`
        return 141
    except PodsError as error:
        said, status = " ".join(str(error).split()), 2
    except OSError as error:
        if error.filename is None:
            raise
        said, status = f"{error.filename}: {error.strerror}", 2
    except KeyboardInterrupt:
        said, status = "interrupted", 130
    print(f"pods {verb}: {said}" if verb else f"pods: {said}", file=sys.stderr)
    return status


def _run(words: list[str], verb: str | None, verbs: dict[str, str]) -> int:
    if verb is None and words and words[0] in _LAB_VERBS:
        raise MissingDependencyError(
            f"{words[0]} belongs to the laboratory: in a checkout pip install -e . -e lab"
        )
    modules = {name: importlib.import_module(verbs[name]) for name in ([verb] if verb else verbs)}
    parser, own = _parser(modules)
    words, fields = _without_fields(words, own)
    if fields and verb is not None and not getattr(modules[verb], "TAKES_FIELDS", False):
        name = fields[0].partition("=")[0]
        near = suggestion(name, own, "the command's --help lists the options")
        raise InvalidInputError(f"unknown option {name}; {near}")
    args = parser.parse_args(words)
    args.fields = fields
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("podsrl").setLevel(logging.INFO)
    for module in ("transformers", "trl", "torch", "accelerate", "peft"):  # no user can act on it
        warnings.filterwarnings("ignore", category=FutureWarning, module=module)
    return int(modules[args.verb].run(args))


def _parser(modules: Mapping[str, Any]) -> tuple[argparse.ArgumentParser, list[str]]:
    """The parser of the command, with those of the verbs in it; and all options, as "--config"."""
    parser = _Parser(
        prog="pods",
        description="PODS: generate many rollouts, train on the few that teach.",
        epilog="`pods VERB --help` tells more of each.",
        allow_abbrev=False,
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"podsrl {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, module in modules.items():
        verb = verbs.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        verb.allow_abbrev, verb.formatter_class = False, argparse.RawDescriptionHelpFormatter
        module.configure(verb)
    parsers = [parser]
    for one in parsers:  # it grows: verbs, and those below them, as of `pods tasks check`
        actions = (a for a in one._actions if isinstance(a, argparse._SubParsersAction))
        parsers += [below for action in actions for below in action.choices.values()]
    options = {option for one in parsers for option in one._option_string_actions}
    return parser, sorted(option for option in options if option.startswith("--"))


class _Help(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)
        self._action_max_length = 16  # argparse forgets that verbs are indented


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidInputError(f"{message} (`{self.prog} --help` tells more)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(
                action, f"unknown {value!r}; {suggestion(value, map(str, action.choices))}"
            )


def _without_fields(words: list[str], own: Sequence[str]) -> tuple[list[str], list[str]]:
    """A command's own words, and every other --name with the words that follow it."""
    kept: list[str] = []
    fields: list[str] = []
    target = kept
    for word in words:
        if word.startswith("--"):
            target = kept if word.partition("=")[0] in own else fields
        elif word.startswith("-") and not word[1:2].isdigit():
            target = kept
        target.append(word)
    return kept, fields
