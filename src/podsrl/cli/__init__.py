"""The command `pods`: one verb per file, imported when it is asked for."""

import argparse
import importlib
import logging
import sys
import warnings
from collections.abc import Sequence

from podsrl import __version__
from podsrl.errors import PodsError

VERBS = ("demo", "train", "recommend", "compare", "evaluate", "report", "tasks", "select")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `pods VERB ...`; 0 when it went well, 2 for an error of the user's, with one line why."""
    parser = argparse.ArgumentParser(
        prog="pods",
        description="PODS: generate many rollouts, train on the few that teach.",
        epilog="`pods VERB --help` tells more of each.",
    )
    parser.add_argument("--version", action="version", version=f"podsrl {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    modules = {}
    for verb in VERBS:
        module = importlib.import_module(f"podsrl.cli.{verb}")
        modules[verb] = module
        sub = verbs.add_parser(verb, help=module.SUMMARY, description=module.SUMMARY)
        module.configure(sub)
    args, rest = parser.parse_known_args(argv)
    args.fields = rest
    if rest and not getattr(modules[args.verb], "TAKES_FIELDS", False):
        parser.error(f"unknown arguments for {args.verb}: {' '.join(rest)}")
    _quiet_dependencies()
    try:
        return int(modules[args.verb].run(args))
    except PodsError as error:
        print(f"pods {args.verb}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"pods {args.verb}: interrupted", file=sys.stderr)
        return 130


def _quiet_dependencies() -> None:
    """Our own messages on stderr; of our dependencies only what a user can act on."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("podsrl").setLevel(logging.INFO)
    for module in ("transformers", "trl", "torch", "accelerate", "peft"):
        warnings.filterwarnings("ignore", category=FutureWarning, module=module)
