"""`pods select`: down-sample rollouts in a file, without any trainer."""

import argparse
from pathlib import Path

from podsrl.cli.bounds import COUNT, Bounds, number

SUMMARY = "keep the rollouts in a file that a rule chooses"


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument(
        "rollouts",
        help="a JSONL or parquet file with one rollout per line or row, or a run's folder",
    )
    parser.add_argument(
        "--keep",
        type=number(int, COUNT),
        required=True,
        metavar="M",
        help="rollouts per group; with a rule across groups, in the whole file",
    )
    parser.add_argument(
        "--rule",
        default="max_variance",
        help="which to keep: max_variance (default), or across groups max_contrast;"
        " or file.py:function",
    )
    parser.add_argument(
        "--group_by",
        metavar="FIELD",
        help="field that says which group a rollout is of (prompt; of a run its step and group)",
    )
    parser.add_argument(
        "--reward", default="reward", metavar="FIELD", help="field with the reward (reward)"
    )
    parser.add_argument(
        "--seed", type=number(int, Bounds()), help="breaks ties at random; default: lowest index"
    )
    parser.add_argument(
        "--output", help="file to write, of the kind that is read; must not exist (JSONL: stdout)"
    )


def run(args: argparse.Namespace) -> int:
    """Read, select, write the kept rollouts as they were."""
    import sys

    from podsrl.cli.needs import needed
    from podsrl.downsampling import is_batch_rule, resolve_rule
    from podsrl.errors import InvalidInputError
    from podsrl.rollout_log.files import refuse_unwritable
    from podsrl.rollout_log.offline import read_rollouts, select_rollouts

    output = Path(args.output) if args.output else None
    if output and output.exists():
        raise InvalidInputError(f"{output} exists; choose another --output or remove it")
    if output:
        refuse_unwritable(output.parent)
    across_groups = is_batch_rule(resolve_rule(args.rule))
    with needed("rollouts"):
        rollouts = read_rollouts(Path(args.rollouts))
    kept, groups = select_rollouts(
        rollouts,
        keep=args.keep,
        rule=args.rule,
        group_field=args.group_by,
        reward_field=args.reward,
        seed=args.seed,
    )
    if output:
        rollouts.write(output, kept)
    elif (text := rollouts.text(kept)) is not None:
        sys.stdout.write(text)
    else:
        raise InvalidInputError("parquet can't be printed; say where to write it with --output")
    what = f"kept {len(kept)} of {len(rollouts.rows)} rollouts in {groups} groups"
    across = f", {args.keep} rows across groups" if across_groups else ""
    print(what + across, file=sys.stderr)
    return 0
