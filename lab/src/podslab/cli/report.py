"""`pods report`: figures, a table and one page, from saved runs."""

import argparse
from pathlib import Path

from podslab.checks import refuse_unwritable
from podslab.evaluation.records import ACCURACIES
from podsrl.errors import InvalidInputError, needed

SUMMARY = "draw figures and write a page that compares saved runs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `pods report`."""
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="runs, or folders of runs")
    out = "folder to write to (report, in the first FOLDER)"
    parser.add_argument("--out", metavar="FOLDER", help=out)
    arm = "arm to compare the others with; repeat it for several (grpo, grpo_ga)"
    parser.add_argument("--reference", action="append", default=[], metavar="ARM", help=arm)
    measure = "the accuracy to compare (%(default)s)"
    parser.add_argument("--measure", default="answer_accuracy", choices=ACCURACIES, help=measure)
    clock = (
        "draw the curves over computed time: S seconds for each generated rollout and for each pass"
        " over a row; score=S adds seconds for each scored rollout"
    )
    parser.add_argument("--clock", metavar="generate=S,update=S", help=clock)
    partial = "leave out unfinished runs, and seeds that not every arm has"
    parser.add_argument("--partial", action="store_true", help=partial)


def run(args: argparse.Namespace) -> int:
    """Write the report and print its table."""
    for folder in args.folders:
        if not folder or Path(folder).is_file():
            raise InvalidInputError(f"{folder!r} is no folder; give a trainer's output_dir")
    out = Path(args.out or Path(args.folders[0], "report"))
    refuse_unwritable(out)
    with needed("report"):
        from podslab.report.load_runs import Choices, load_comparison
        from podslab.report.write_report import write_report
        from podslab.statistics.curves import Clock

    clock = Clock.parse(args.clock) if args.clock else None
    choices = Choices(args.reference, args.measure, clock, args.partial)
    comparison = load_comparison(args.folders, choices)
    report = write_report([comparison], out, "PODS: comparison of runs")
    print(report.text)
    print(f"wrote {report.page} (open it in a browser), figures and summary beside it")
    return 0
