"""`pods select`: down-sample rollouts in a file, without any trainer."""

import argparse
import sys
from pathlib import Path

SUMMARY = "keep the rollouts in a file that a rule chooses"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `pods select`."""
    what = "a JSONL or parquet file with one rollout per line or row, or a run's folder"
    parser.add_argument("rollouts", type=Path, help=what)
    number = "rollouts per group; with a rule across groups, on average"
    parser.add_argument("--keep", type=int, required=True, metavar="M", help=number)
    parser.add_argument(
        "--rule",
        default="max_variance",
        help="which to keep: max_variance (default), or across groups max_contrast;"
        " or file.py:function",
    )
    group = "field that says which group a rollout is of (prompt; of a run its step and group)"
    parser.add_argument("--group_by", metavar="FIELD", help=group)
    reward = "field with the reward (reward)"
    parser.add_argument("--reward", default="reward", metavar="FIELD", help=reward)
    parser.add_argument("--seed", type=int, help="breaks ties at random; default: lowest index")
    output = "file to write, of the kind that is read; must not exist (JSONL: stdout)"
    parser.add_argument("--output", type=Path, help=output)


def run(args: argparse.Namespace) -> int:
    """Read, select, write the kept rollouts as they were.

    Groups may differ in size; a group rule keeps one of `--keep` rollouts or fewer whole.
    """
    from podsrl.cli.needs import needed
    from podsrl.errors import InvalidInputError
    from podsrl.rollout_log.offline import read_rollouts
    from podsrl.selection import Selection

    if args.output and args.output.exists():
        raise InvalidInputError(f"{args.output} exists; choose another --output or remove it")
    with needed("rollouts"):
        rollouts = read_rollouts(args.rollouts)
    groups = rollouts.grouped(args.group_by, args.reward)
    selection = Selection(
        num_rollouts=max(2, args.keep, *map(len, groups)),
        num_kept=args.keep,
        rule=args.rule,
        seed=args.seed,
        names={
            "num_rollouts": "of a group",
            "num_kept": "--keep",
            "rule": "--rule",
            "seed": "--seed",
        },
    )
    places = selection.select([list(group.values()) for group in groups])
    kept = sorted(
        list(group)[i] for group, chosen in zip(groups, places, strict=True) for i in chosen
    )
    rollouts.write(args.output, kept)
    said = f"kept {len(kept)} of {len(rollouts.rows)} rollouts in {len(groups)} groups"
    print(said, file=sys.stderr)
    return 0
