"""`pods inspect`: a local app, or a page for sharing, to look into the rollouts of runs."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from podsrl.errors import InvalidInputError, fields_named, needed
from podsrl.rollout_log.output import OutputFile, is_own_page

if TYPE_CHECKING:
    from podsrl.inspector.app import InspectorServer
    from podsrl.inspector.dataset import Dataset

SUMMARY = "look into the rollouts of runs in a browser, while they train or afterwards"

_LOCAL = "127.0.0.1"
#: Tried first, so that an address for a tunnel can be kept.
_USUAL_PORT = 8765


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `pods inspect`."""
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="runs, folders of runs, verl's rollout_data_dir, slime's debug rollout data, or a"
        " JSONL or parquet file with prompt, completion and reward",
    )
    parser.add_argument(
        "--keep",
        type=int,
        metavar="M",
        help="rollouts of each prompt that max_variance would keep, where nothing says what was"
        " kept, 2 or more (default: a quarter)",
    )

    # Where the app is.
    parser.add_argument(
        "--port",
        type=int,
        metavar="P",
        help=f"port of the app (default: {_USUAL_PORT}, or any that is free)",
    )
    parser.add_argument(
        "--host",
        default=_LOCAL,
        help="address to listen at (default: %(default)s, this machine alone); whoever can reach"
        " another one needs only the link, as there is no password",
    )

    # A page in place of the app.
    parser.add_argument(
        "--export",
        type=Path,
        metavar="FILE.html",
        help="write one page of at most 20 MB instead, that works offline",
    )
    parser.add_argument(
        "--steps",
        nargs="+",
        type=int,
        default=[],
        metavar="K",
        help="steps on that page (default: evenly spaced ones)",
    )
    parser.add_argument(
        "--prompts",
        nargs="+",
        type=int,
        default=[],
        metavar="K",
        help="prompts of each step on that page, by number from 0 (default: all that fit)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted, or write the page."""
    with needed("inspect"):
        from podsrl.inspector.conversion import Keep
        from podsrl.inspector.dataset import Dataset
        from podsrl.inspector.sources import find_sources

    with fields_named({"num_kept": "--keep"}):
        keep = Keep(args.keep)
    if (args.steps or args.prompts) and not args.export:
        raise InvalidInputError("--steps and --prompts are for the page that --export writes")

    output = None
    if args.export:
        output = OutputFile(args.export, "--export", (".html", ".htm"), args.paths, is_own_page)
        output.check()  # before all rollouts are read

    dataset = Dataset(lambda: find_sources(args.paths, keep))
    if output is not None:
        _export(dataset, args, output)
    else:
        _serve(dataset, args)
    return 0


def _export(dataset: "Dataset", args: argparse.Namespace, output: OutputFile) -> None:
    with needed("inspect"):
        from podsrl.inspector.export import export_page

    try:
        page = export_page(dataset, args.steps, args.prompts)
    finally:
        dataset.close()
    output.write(page.encode())
    print(f"wrote {output.path} (open it in a browser)")


def _serve(dataset: "Dataset", args: argparse.Namespace) -> None:
    with needed("inspect"):
        from podsrl.inspector.app import InspectorServer

    try:
        server = _server(InspectorServer, dataset, args)
    except InvalidInputError:
        dataset.close()
        raise

    def announce() -> None:
        if args.host != _LOCAL:
            print(
                f"warning: whoever can reach {args.host} and has this address can read all"
                " rollouts: there is no password beside the token in it, and the connection is not"
                " encrypted",
                file=sys.stderr,
            )
        print(server.address, flush=True)
        tunnel = f"ssh -L {server.port}:{_LOCAL}:{server.port} MACHINE"
        print(f"open it in a browser (elsewhere after {tunnel}); Ctrl-C ends it", flush=True)

    server.serve(announce)


def _server(
    make: "type[InspectorServer]", dataset: "Dataset", args: argparse.Namespace
) -> "InspectorServer":
    """At the port that was asked for; at the usual one or, if it is taken, at a free one."""
    if args.port is not None:
        return make(dataset, args.host, args.port)
    try:
        return make(dataset, args.host, _USUAL_PORT)
    except InvalidInputError:
        return make(dataset, args.host, 0)
