"""The comparison: `python -m benchmarks.comparison run|status|page|one`.

    python -m benchmarks.comparison run --jobs 2 --minutes 60    # goes on with what is missing
    python -m benchmarks.comparison status                       # what is done, and hours left
    python -m benchmarks.comparison page                         # the page, from the raw files
    python -m benchmarks.comparison one pods easy 101            # repeats one reported run

results/comparison/protocol.md says what is run, and how it is judged.
"""

import argparse
import os
import sys

from benchmarks.comparison.page import progress, write_page, write_protocol_page
from benchmarks.comparison.protocol import (
    ON_GPU,
    PlannedRun,
    check_name,
    read_protocol,
)
from benchmarks.comparison.records import Records, Reported
from podsrl.errors import PodsError
from podsrl.rollout_log.environment import describe_environment


def main(words: list[str] | None = None) -> int:
    """Exit status: 0, or 2 where a message says what to do."""
    args = _parser().parse_args(words)
    try:
        args.call(args)
    except PodsError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.comparison",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    protocol = read_protocol()

    run = commands.add_parser("run", help="make the runs that are missing")
    run.add_argument("--set", choices=protocol.sets, help="one set alone")
    run.add_argument(
        "--stage", choices=[*protocol.stages, ON_GPU], help="one alone; gpu only by its name"
    )
    run.add_argument("--jobs", type=int, default=1, help="runs side by side, of one thread each")
    run.add_argument("--minutes", type=float, help="begin no run after these")
    run.add_argument("--commit", default="", help="of the code, in a copy without its history")
    run.set_defaults(call=_run)

    status = commands.add_parser("status", help="what is done, and hours left")
    status.set_defaults(call=_status)

    page = commands.add_parser("page", help="write the page from the raw files")
    page.set_defaults(call=_page)

    one = commands.add_parser("one", help="repeat one run, beside what is reported of it")
    one.add_argument("arm")
    one.add_argument("set")
    one.add_argument("seed", type=int)
    stages = [name for name in (*protocol.stages, ON_GPU) if not protocol.is_tuning(name)]
    one.add_argument("--stage", choices=stages, default="reported")
    one.add_argument("--rate", type=float, help="instead of the one that tuning chose")
    one.add_argument("--seconds", type=float, help="of training, for a trial")
    one.set_defaults(call=_one)
    return parser


def _run(args: argparse.Namespace) -> None:
    from benchmarks.comparison import running

    protocol = read_protocol()
    ended = running.run(
        Records(protocol),
        stages=[args.stage] if args.stage else protocol.stages,
        sets=[args.set] if args.set else list(protocol.sets),
        jobs=args.jobs,
        minutes=args.minutes,
        commit=args.commit,
    )
    print(f"{ended} runs ended")


def _status(args: argparse.Namespace) -> None:
    protocol = read_protocol()
    reported = Reported(protocol, Records(protocol).attempts())
    print("\n".join(progress(reported)))

    hours = 0.0
    for run in reported.missing(str(describe_environment()["cpu"]), protocol.stages):
        factor = protocol.values["cost"]["times_training"][run.stage]
        hours += protocol.stage(run.stage)["seconds"] * factor / 3600
    print(f"about {hours:.1f} core hours are left on this kind of machine")


def _page(args: argparse.Namespace) -> None:
    records = Records(read_protocol())
    print(write_page(records))
    print(write_protocol_page(records))


def _one(args: argparse.Namespace) -> None:
    import torch

    from benchmarks.comparison import running

    torch.set_num_threads(1)
    protocol = read_protocol()
    check_name("arm", args.arm, protocol.arms)
    check_name("set", args.set, protocol.sets)
    planned = protocol.named(PlannedRun(args.stage, args.set, args.arm, args.seed).name)
    reported = Reported(protocol, Records(protocol).attempts())
    rate = args.rate or reported.rate_of(planned)
    if rate is None:
        sys.exit("tuning has not chosen the rate of this arm yet: give one with --rate")

    result = running.make(protocol, planned, rate, args.seconds)
    for point in result["measured"]:
        print(_in_words(point))
    print(f"mean over the run: {result['mean_over_run']:.1%}")
    for name in ("steps", "phases", "g_over_u", "teaching_prompts", "cpu_seconds", "wall_seconds"):
        print(f"{name}: {result[name]}")
    before = reported.result(planned)
    if before is not None:
        print(
            f"reported: {before['mean_over_run']:.1%} over the run, on {before['machine']['cpu']}"
        )


def _in_words(point: dict[str, object]) -> str:
    words = [f"{point['seconds']} s, {point['rollouts']} rollouts:"]
    greedy = str(point.get("greedy", ""))
    if greedy:
        words.append(f"greedy {greedy.count('1') / len(greedy):.1%}")
    right = point.get("right")
    if isinstance(right, list):
        words.append(f"pass@k {sum(count > 0 for count in right) / len(right):.1%}")
    return " ".join(words)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
