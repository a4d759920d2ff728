"""`pods select`: down-sample rollouts in a file, without any trainer."""

import argparse

SUMMARY = "keep m rollouts of each group in a JSONL file, by a rule"


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("rollouts", help="JSONL file, one rollout per line")
    parser.add_argument("--keep", type=int, required=True, metavar="M", help="rollouts per group")
    parser.add_argument("--rule", default="max_variance", help="(max_variance)")
    parser.add_argument("--group_by", default="prompt", metavar="FIELD", help="(prompt)")
    parser.add_argument("--reward", default="reward", metavar="FIELD", help="(reward)")
    parser.add_argument("--seed", type=int, help="breaks ties at random; default: lowest index")
    parser.add_argument("--output", help="file to write (stdout); must not exist")


def run(args: argparse.Namespace) -> int:
    """Read, select, write the kept lines as they were."""
    import sys
    from pathlib import Path

    from podsrl.errors import InvalidInputError
    from podsrl.experiments.offline import select_lines

    if args.output and Path(args.output).exists():
        raise InvalidInputError(f"{args.output} exists; choose another --output or remove it")
    kept, groups, total = select_lines(
        Path(args.rollouts), args.keep, args.rule, args.group_by, args.reward, args.seed
    )
    text = "".join(line + "\n" for line in kept)
    if args.output:
        Path(args.output).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    print(f"kept {len(kept)} of {total} rollouts in {groups} groups", file=sys.stderr)
    return 0
