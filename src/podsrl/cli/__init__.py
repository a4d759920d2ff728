"""The command `pods`: one verb per file, imported when it is asked for."""

import argparse
import importlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from podsrl import __version__
from podsrl.errors import InvalidInputError, PodsError, suggestion

VERBS = ("demo", "train", "recommend", "compare", "evaluate", "report", "tasks", "select")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `pods VERB ...`; 0, or 2 for a mistake of the user's, with one line why.

    141 where the reader of its output went away, as in `pods VERB | head`; 130 where interrupted.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    who = f"pods {words[0]}" if words and words[0] in VERBS else "pods"
    try:
        try:
            return _run(words)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to print
        return 141
    except PodsError as error:
        print(f"{who}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.filename is None:
            raise
        print(f"{who}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{who}: interrupted", file=sys.stderr)
        return 130


def _run(words: list[str]) -> int:
    parser = _Parser(
        prog="pods",
        description="PODS: generate many rollouts, train on the few that teach.",
        epilog="`pods VERB --help` tells more of each.",
        allow_abbrev=False,
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"podsrl {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    modules, parsers = {}, {}
    known = bool(words) and words[0] in VERBS
    for verb in words[:1] if known else VERBS:
        module = importlib.import_module(f"podsrl.cli.{verb}")
        modules[verb] = module
        parsers[verb] = verbs.add_parser(
            verb,
            help=module.SUMMARY,
            description=module.SUMMARY,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(parsers[verb])
    fields: list[str] = []
    if known and not {"-h", "--help"} & set(words):
        own = sorted(set(_options(parsers[words[0]])))
        takes_fields = getattr(modules[words[0]], "TAKES_FIELDS", False)
        words, fields = _without_fields(words, own)
        _refuse_unknown(fields, own, takes_fields)
    args = parser.parse_args(words)
    args.fields = fields
    _quiet_dependencies()
    return int(modules[args.verb].run(args))


class _Help(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)
        self._action_max_length = 4 + max(map(len, VERBS))  # argparse forgets the indent


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, as for every other mistake."""
        raise InvalidInputError(f"{message} (`{self.prog} --help` tells more)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """The nearest choice in place of a list of all."""
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(
                action, f"unknown {value!r}; {suggestion(value, map(str, action.choices))}"
            )


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The options of a verb and of its own verbs, such as "--config"."""
    for action in parser._actions:
        yield from (option for option in action.option_strings if option.startswith("--"))
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _options(inner)


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


def _refuse_unknown(fields: Sequence[str], own: Sequence[str], takes_fields: bool) -> None:
    names = [word[2:].partition("=")[0] for word in fields if word.startswith("--")]
    if not names:
        return
    if not takes_fields:
        near = suggestion(f"--{names[0]}", own, "the command's --help lists the options")
        raise InvalidInputError(f"unknown option --{names[0]}; {near}")
    from podsrl.cli.needs import needed
    from podslab.training.fields import refuse_unknown

    with needed("trl"):
        refuse_unknown([], names, [one[2:] for one in own])


def _quiet_dependencies() -> None:
    """Our own messages on stderr; of our dependencies only what a user can act on."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("podsrl").setLevel(logging.INFO)
    for module in ("transformers", "trl", "torch", "accelerate", "peft"):
        warnings.filterwarnings("ignore", category=FutureWarning, module=module)
