"""`pods inspect`: a local app, a page for sharing, or an answer in the terminal."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from podsrl.cli.field_options import add_field_options, fields_of, numbers_of
from podsrl.errors import InvalidInputError, fields_named, needed
from podsrl.rollout_log.output import OutputFile, is_own_page

if TYPE_CHECKING:
    from podsrl.inspector.app import InspectorServer
    from podsrl.inspector.index import Index
    from podsrl.inspector.sources import Options

SUMMARY = "show the rollouts of runs in a browser or terminal, while they train or later"

_LOCAL = "127.0.0.1"
#: Tried first, so that an address for a tunnel can be kept.
_USUAL_PORT = 8765
_TELL_SECONDS = 2.0  # between two lines that say how far an export is


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `pods inspect`."""
    parser.usage = "pods inspect PATH [PATH ...] [options]"
    parser.add_argument(
        "paths",
        nargs="*",  # without one, `run` says why there is none
        type=Path,
        metavar="PATH",
        help="runs or folders of runs; files of TRL, verl, slime, prime-rl, ms-swift, NeMo-RL,"
        " TorchTitan, Trackio, verifiers or Inspect; or a JSONL or parquet file with prompt,"
        " completion and reward",
    )
    add_field_options(parser, numbers=True)
    parser.add_argument(
        "--keep",
        type=int,
        metavar="M",
        help="show what PODS would keep, if the file does not say what was kept: M rollouts of each"
        " prompt, at least 2 (a quarter)",
    )
    parser.add_argument(
        "--rule",
        default="max_variance",
        help="the rule by which PODS would keep them (max_variance)",
    )
    parser.add_argument(
        "--check",
        metavar="FILE.py:NAME",
        help="your own function of one rollout (a dictionary); its result becomes a column",
    )

    # An answer in the terminal.
    parser.add_argument(
        "--text",
        action="store_true",
        help="print the steps of the run; with --step the prompts of a step, with --prompt the"
        " rollouts of a prompt",
    )
    parser.add_argument(
        "--worst",
        type=int,
        metavar="K",
        help="print the K rollouts with the lowest rewards of --step, or of the newest step",
    )
    parser.add_argument(
        "--search", metavar="WORDS", help="print the newest rollouts that contain these words"
    )
    parser.add_argument(
        "--pattern", metavar="REGEX", help="print the newest rollouts that match (RE2)"
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=10,
        metavar="K",
        help="with --search or --pattern: print at most K rollouts (10)",
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")

    # Where the app is.
    parser.add_argument(
        "--port",
        type=int,
        metavar="P",
        help=f"port of the app ({_USUAL_PORT}, or another free one)",
    )
    parser.add_argument(
        "--host",
        default=_LOCAL,
        help="address to listen at (%(default)s: this machine only). At another address everybody"
        " who has the link can read the rollouts: there is no password",
    )

    # A page in place of the app.
    parser.add_argument(
        "--export",
        type=Path,
        metavar="FILE.html",
        help="write a page of at most 20 MB that works offline; --step and --prompt choose what is"
        " on it",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted, or write the page, or print an answer."""
    if not args.paths:
        raise InvalidInputError(
            "PATH is missing. Give it first, since --step and --prompt take every word that"
            " follows them: pods inspect out --step 5"
        )
    with needed("inspect"):
        from podsrl.inspector.checks import Check
        from podsrl.inspector.index import Index
        from podsrl.inspector.keeping import Keep
        from podsrl.inspector.sources import Options, find_sources

    with fields_named({"num_kept": "--keep"}):
        options = Options(fields_of(args), Keep(args.keep, args.rule))
    steps, prompts = numbers_of(args.step), numbers_of(args.prompt)
    is_text = bool(args.text or args.json or args.worst is not None or args.search or args.pattern)
    if args.export and is_text:
        raise InvalidInputError(
            "--export writes a page, and --text, --json, --worst, --search and --pattern print an"
            " answer: give one of the two"
        )

    output = None
    if args.export:
        output = OutputFile(args.export, "--export", (".html", ".htm"), args.paths, is_own_page)
        output.check()  # before all rollouts are read

    check = Check(args.check) if args.check else None
    index = Index(lambda: find_sources(args.paths, options), check)
    _check_named_fields(index, options)
    if output is not None:
        _export(index, output, steps, prompts)
    elif is_text or steps or prompts:
        _print(index, args, steps, prompts)
    else:
        _serve(index, args)
    return 0


def _check_named_fields(index: "Index", options: "Options") -> None:
    """Refuse the name of a field, such as of `--step x`, that is in no file or means nothing."""
    from podsrl.inspector.sources.trained_run import TrainedRun

    named = {name: value for name, value in vars(options.fields).items() if value is not None}
    if not named:
        return
    try:
        for run in index.runs:
            run.source.check()
    except InvalidInputError:
        index.close()
        raise
    if not all(isinstance(run.source, TrainedRun) for run in index.runs):
        return

    index.close()
    name, value = next(iter(named.items()))
    chosen = f", or give a number: --{name} 3" if name in ("step", "prompt") else ""
    raise InvalidInputError(
        f"--{name} {value} names a field of a file. {index.runs[0].source.name} is a run of podsrl,"
        f" and its fields have fixed names: leave the option out{chosen}"
    )


def _print(
    index: "Index", args: argparse.Namespace, steps: Sequence[int], prompts: Sequence[int]
) -> None:
    with needed("inspect"):
        from podsrl.inspector.search import Query
        from podsrl.inspector.text import Question, as_lines, ask

    query = None
    if args.search or args.pattern:
        bounds = {"step_min": min(steps), "step_max": max(steps)} if steps else {}
        query = Query(text=args.search, pattern=args.pattern, **bounds)
    elif len(steps) > 1:
        raise InvalidInputError("--step: give one step; only --export and --search take several")
    if args.limit < 1 or (args.worst is not None and args.worst < 1):
        raise InvalidInputError("--limit and --worst must be 1 or more")

    step = steps[0] if steps else None
    question = Question(step, tuple(prompts), args.worst, query, args.limit)
    try:
        answer = ask(index, question)
    finally:
        index.close()
    if args.json:
        print(json.dumps(answer, ensure_ascii=False, allow_nan=False))
    else:
        print("\n".join(as_lines(answer)))


def _export(
    index: "Index", output: OutputFile, steps: Sequence[int], prompts: Sequence[int]
) -> None:
    with needed("inspect"):
        from podsrl.inspector.export import export_page

    told = time.monotonic()

    def tell(message: str) -> None:
        nonlocal told
        if time.monotonic() - told > _TELL_SECONDS:
            told = time.monotonic()
            print(message, file=sys.stderr, flush=True)

    try:
        page = export_page(index, steps, prompts, tell=tell)
    finally:
        index.close()
    output.write(page.encode())
    print(f"wrote {output.path} (open it in a browser)")


def _serve(index: "Index", args: argparse.Namespace) -> None:
    with needed("inspect"):
        from podsrl.inspector.app import InspectorServer

    try:
        server = _server(InspectorServer, index, args)
    except InvalidInputError:
        index.close()
        raise

    for why in _unreadable(index):
        print(f"warning: {why}", file=sys.stderr)

    def announce() -> None:
        if args.host != _LOCAL:
            print(
                f"warning: everybody who can reach {args.host} and has this address can read all"
                " rollouts and write notes. The token in the address is the only protection, and"
                " the connection is not encrypted",
                file=sys.stderr,
            )
        print(server.address, flush=True)
        tunnel = f"ssh -L {server.port}:{_LOCAL}:{server.port} MACHINE"
        print(f"Open it in a browser. From another machine, first run {tunnel}", flush=True)
        print("Ctrl-C stops it", flush=True)

    server.serve(announce)


def _unreadable(index: "Index") -> list[str]:
    """The problems of reading the runs, by the beginning of one file of each."""
    problems = []
    for run in index.runs:
        try:
            run.source.check()
        except InvalidInputError as error:
            problems.append(str(error))
    return problems


def _server(
    make: "type[InspectorServer]", index: "Index", args: argparse.Namespace
) -> "InspectorServer":
    """At the port that was asked for; at the usual one or, if it is taken, at a free one."""
    if args.port is not None:
        return make(index, args.host, args.port, rule_at_start=args.rule)
    try:
        return make(index, args.host, _USUAL_PORT, rule_at_start=args.rule)
    except InvalidInputError:
        return make(index, args.host, 0, rule_at_start=args.rule)
