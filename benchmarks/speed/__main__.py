"""`python -m benchmarks.speed`: the seconds of selecting, and of a training step by phase, here.

What selecting adds to a step by rollouts and processes is measured by `benchmarks.speed.cost`. Both
need Linux, which says how much memory a process has had.

python -m benchmarks.speed --quick                  # a minute: to see that it works
python -m benchmarks.speed --markdown bench.md      # about 6 minutes on two free cores
"""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

from benchmarks.speed import selection, step
from podslab.models.tiny import get_model
from podsrl.rollout_log.environment import describe_environment
from podsrl.rollout_log.files import write_whole

#: How the measured part of the page begins.
_COMMAND = "`python -m benchmarks.speed"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the tables; 0 whether or not the limits are kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small: just to see that it works")
    parser.add_argument("--logs", type=Path, default=Path("runs/bench"), help="(runs/bench)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to a page")
    args = parser.parse_args(argv)

    selecting = [_head(args.quick)]
    selecting.append(selection.measure(selection.QUICK if args.quick else selection.Size()))
    print("\n".join(selecting), flush=True)

    size = step.QUICK if args.quick else step.Size()
    print("steps: four arms take turns, " + ", ".join(size.variants), flush=True)
    steps = step.measure(size, str(get_model(size.model)), args.logs)
    print("\n" + "\n".join(steps))

    if args.markdown:
        _write_page(args.markdown, "\n".join(selecting + steps))
        print(f"page        {args.markdown}")
    return 0


def _head(quick: bool) -> str:
    """The page's first lines: the machine, the versions, the commit, the date."""
    environment = describe_environment()
    command = f"{_COMMAND} --quick`, which means little" if quick else f"{_COMMAND}`"

    commit = "no commit"
    if git := environment["git"]:
        commit = f"commit {git['commit'][:12]}"
        if git["dirty"]:
            commit += " with changes"

    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    return (
        "# Performance\n\n"
        f"{command}, {datetime.now(UTC).date()}, {commit}; {environment['cpu']},"
        f" {environment['cores']} cores, torch used {torch.get_num_threads()} threads; Python"
        f" {environment['python']}, {versions}. What else runs on the machine is measured, too.\n"
    )


def _write_page(path: Path, text: str) -> None:
    """Write the page; what people wrote above the tables of an earlier one stays."""
    if path.is_file():
        by_hand, _, _ = path.read_text(encoding="utf-8").partition(f"\n{_COMMAND}")
        measured = text[text.index(f"\n{_COMMAND}") :]
        text = by_hand + measured
    write_whole(path, text.encode())


if __name__ == "__main__":
    sys.exit(main())
