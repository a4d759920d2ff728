"""`pods inspect`: one page to look into the rollouts of runs."""

import argparse
import os
from pathlib import Path

from podsrl.errors import InvalidInputError, needed
from podsrl.rollout_log.files import damage_as_notes, write_whole

SUMMARY = "write a page to look into the rollouts of a run"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `pods inspect`."""
    runs = "runs, or folders of runs"
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help=runs)
    page = "the page to write (default: rollouts.html in the first FOLDER)"
    parser.add_argument("--output", type=Path, metavar="PAGE", help=page)
    most = "rollouts on the page at most (default: %(default)s)"
    parser.add_argument("--rollouts", type=int, default=100_000, metavar="N", help=most)


def run(args: argparse.Namespace) -> int:
    """Pack the rollouts into a page, and say where it is."""
    with needed("rollouts"):
        from podsrl.rollout_log.inspector import pack_rollouts, render_page
        from podsrl.rollout_log.run_folder import RunFolder, find_runs

    if args.rollouts < 1:
        raise InvalidInputError(f"--rollouts must be at least 1; got {args.rollouts}")
    output = args.output or args.folders[0] / "rollouts.html"
    runs: list[RunFolder] = []
    for folder in args.folders:  # one with rollouts/ is a run, whatever else it holds
        runs += [RunFolder(folder)] if (folder / "rollouts").is_dir() else find_runs(folder)
    notes: list[str] = []
    with needed("rollouts"), damage_as_notes(notes):
        paths = [run.path.resolve() for run in runs]
        common = os.path.commonpath([path.parent for path in paths])
        names = [str(path.relative_to(common)) for path in paths]  # as much as tells them apart
        packed = pack_rollouts(list(zip(names, runs, strict=True)), args.rollouts)
    if not packed.chunks:
        raise InvalidInputError(" ".join(["no rollouts in", *map(str, args.folders), *notes]))
    title = ", ".join(folder.resolve().name for folder in args.folders)
    write_whole(output, render_page(title, packed, notes).encode())
    print(f"wrote {output} (open it in a browser)")
    return 0
