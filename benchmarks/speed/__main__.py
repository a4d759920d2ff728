"""`python -m benchmarks.speed`: the seconds of selecting, and of a training step by phase, here.

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


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the tables; 0 whether or not the limits are kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small: just to see that it works")
    parser.add_argument("--logs", type=Path, default=Path("runs/bench"), help="(runs/bench)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to a page")
    args = parser.parse_args(argv)
    page = [_head(args.quick)]
    page += selection.measure(selection.QUICK if args.quick else selection.Size())
    print("\n".join(page), flush=True)
    size = step.QUICK if args.quick else step.Size()
    print("steps: four arms take turns, " + ", ".join(size.variants), flush=True)
    steps = step.measure(size, str(get_model(size.model)), args.logs)
    print("\n" + "\n".join(steps))
    if args.markdown:
        text = "\n".join(page + steps)
        if args.markdown.is_file():  # what people wrote above the tables stays
            lead, _, _ = args.markdown.read_text(encoding="utf-8").partition("\n`python")
            text = lead + text[text.index("\n`python") :]
        write_whole(args.markdown, text.encode())
        print(f"page        {args.markdown}")
    return 0


def _head(quick: bool) -> str:
    """The page's first lines: the machine, the versions, the commit, the date."""
    made = describe_environment()
    git = made["git"]
    commit = f"commit {git['commit'][:12]}{' with changes' * git['dirty']}" if git else "no commit"
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    return (
        "# Performance\n\n"
        f"`python -m benchmarks.speed`{' --quick, which means little' * quick},"
        f" {datetime.now(UTC).date()}, {commit}; {made['cpu']}, {made['cores']} cores, torch used"
        f" {torch.get_num_threads()} threads; Python {made['python']}, {versions}. What else runs"
        " on the machine is measured, too.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
