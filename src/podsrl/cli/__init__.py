"""The command `pods`: one verb per module, imported when it is asked for.

The library has `select` and `inspect`. Other packages add verbs by the entry point group
`podsrl.verbs`: each is a module with SUMMARY, configure(parser) and run(args). With
TAKES_FIELDS = True it gets options that its parser does not know as words in `args.fields`.
"""

import importlib
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from podsrl import __version__
from podsrl.cli.parser import VerbParser, list_of_verbs, without_fields
from podsrl.errors import InvalidInputError, MissingDependencyError, PodsError, suggestion

_OWN_VERBS = {"select": "podsrl.cli.select", "inspect": "podsrl.cli.inspect"}
#: The verbs of the laboratory, in the order in which they are listed where it is installed.
_LAB_VERBS = ("demo", "train", "recommend", "compare", "evaluate", "report", "tasks")

#: Packages whose announcements no user of the command can act on.
_QUIET = ("transformers", "trl", "torch", "accelerate", "peft")


def find_verbs() -> dict[str, str]:
    """The module of every verb that is installed, by the verb's name."""
    modules = {point.name: point.value for point in metadata.entry_points(group="podsrl.verbs")}
    first = [name for name in _LAB_VERBS if name in modules]
    others = [name for name in sorted(modules) if name not in first]
    return {name: modules[name] for name in (*first, *others)} | _OWN_VERBS


def main(argv: Sequence[str] | None = None) -> int:
    """Run `pods VERB ...`; 0, or 2 for a mistake of the user's, with one line why."""
    words = list(sys.argv[1:] if argv is None else argv)
    verbs = find_verbs()
    verb = words[0] if words and words[0] in verbs else None
    who = f"pods {verb}" if verb else "pods"
    try:
        try:
            return _run(words, verb, verbs)
        finally:
            sys.stdout.flush()

    except BrokenPipeError:
        # As in `pods VERB | head`: Python would fail once more where it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except PodsError as error:
        return _fail(who, " ".join(str(error).split()), status=2)
    except OSError as error:
        if error.filename is None:
            raise
        return _fail(who, f"{error.filename}: {error.strerror}", status=2)
    except KeyboardInterrupt:
        return _fail(who, "interrupted", status=130)


def _fail(who: str, message: str, status: int) -> int:
    print(f"{who}: {message}", file=sys.stderr)
    return status


def _run(words: list[str], verb: str | None, verbs: dict[str, str]) -> int:
    if verb is None:
        return _without_verb(words, verbs)

    module = importlib.import_module(verbs[verb])
    parser = VerbParser(prog=f"pods {verb}", description=module.SUMMARY)
    module.configure(parser)

    own_words = words[1:]
    command: list[str] = []
    if "--" in own_words and getattr(module, "TAKES_COMMAND", False):
        place = own_words.index("--")
        command = own_words[place + 1 :]
        own_words = own_words[:place]

    options = ["--help", *parser.options()]
    own_words, fields = without_fields(own_words, options)
    if fields and not getattr(module, "TAKES_FIELDS", False):
        name = fields[0].partition("=")[0]
        near = suggestion(name, options, "the command's --help lists the options")
        raise InvalidInputError(f"unknown option {name}; {near}")

    _refuse_other_spellings(fields, options)
    args = parser.parse_args(own_words)
    args.fields = fields
    args.command = command
    _show_messages()
    return int(module.run(args))


def _refuse_other_spellings(words: Sequence[str], options: Sequence[str]) -> None:
    """Refuse --dryrun and --dry_run, which are no field of a config, but --dry-run."""

    def letters(option: str) -> str:
        return option.partition("=")[0].replace("-", "").replace("_", "")

    meant = {letters(option): option for option in options}
    for word in words:
        if word.startswith("--") and letters(word) in meant:
            name = word.partition("=")[0]
            raise InvalidInputError(
                f"unknown option {name}; did you mean {meant[letters(word)]!r}?"
            )


def _without_verb(words: list[str], verbs: dict[str, str]) -> int:
    """`pods --help`, `pods --version`, or a mistake."""
    verb = next((word for word in words if not word.startswith("-")), None)
    if verb in _LAB_VERBS:
        raise MissingDependencyError(
            f"{verb} belongs to the laboratory. Install it in a checkout of podsrl:"
            " pip install -e . -e lab"
        )
    if verb is not None:
        raise InvalidInputError(
            f"unknown verb {verb!r}; {suggestion(verb, verbs)} (`pods --help` tells more)"
        )
    modules: dict[str, Any] = {name: importlib.import_module(verbs[name]) for name in verbs}
    summaries = {name: module.SUMMARY for name, module in modules.items()}
    list_of_verbs(summaries, __version__).parse_args(words)
    return 0  # not reached: it needs a verb


def _show_messages() -> None:
    """Show podsrl's messages on stderr, and not what other packages announce to developers."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("podsrl").setLevel(logging.INFO)
    for package in _QUIET:
        warnings.filterwarnings("ignore", category=FutureWarning, module=package)
