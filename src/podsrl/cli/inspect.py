"""`pods inspect`: one page to look into the rollouts of runs."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from podsrl.errors import InvalidInputError, needed
from podsrl.rollout_log.files import damage_as_notes, write_whole

if TYPE_CHECKING:
    from podsrl.rollout_log.run_folder import RunFolder

SUMMARY = "write a page to look into the rollouts of a run"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `pods inspect`."""
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="FOLDER", help="runs, or folders of runs"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="PAGE",
        help="the page to write (default: rollouts.html in the first FOLDER)",
    )
    parser.add_argument(
        "--rollouts",
        type=int,
        default=100_000,
        metavar="N",
        help="rollouts on the page at most (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Pack the rollouts into a page, and say where it is."""
    with needed("rollouts"):
        from podsrl.rollout_log.inspector import pack_rollouts, render_page

    if args.rollouts < 1:
        raise InvalidInputError(f"--rollouts must be at least 1; got {args.rollouts}")

    runs = _runs(args.folders)
    notes: list[str] = []
    with needed("rollouts"), damage_as_notes(notes):
        packed = pack_rollouts(list(zip(_names(runs), runs, strict=True)), args.rollouts)
    if not packed.chunks:
        raise InvalidInputError(" ".join(["no rollouts in", *map(str, args.folders), *notes]))

    title = ", ".join(folder.resolve().name for folder in args.folders)
    output = args.output or args.folders[0] / "rollouts.html"
    write_whole(output, render_page(title, packed, notes).encode())
    print(f"wrote {output} (open it in a browser)")
    return 0


def _runs(folders: Sequence[Path]) -> "list[RunFolder]":
    """The runs in these folders; one with rollouts/ is a run, whatever else it holds."""
    with needed("rollouts"):
        from podsrl.rollout_log.run_folder import RunFolder, find_runs

    runs: list[RunFolder] = []
    for folder in folders:
        if (folder / "rollouts").is_dir():
            runs.append(RunFolder(folder))
        else:
            runs.extend(find_runs(folder))
    return runs


def _names(runs: "Sequence[RunFolder]") -> list[str]:
    """As much of each run's path as tells the runs apart."""
    paths = [run.path.resolve() for run in runs]
    common = os.path.commonpath([path.parent for path in paths])
    return [str(path.relative_to(common)) for path in paths]
