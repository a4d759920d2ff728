"""`pods recommend`: what was measured in a folder, and what other steps would take."""

import argparse
from pathlib import Path

from podslab.checks import number
from podsrl.errors import needed

SUMMARY = "what runs of yours measured, what other steps would take, and what is advised"


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument(
        "folders", nargs="+", metavar="FOLDER", help="a run, a comparison, or folders of runs"
    )
    parser.add_argument(
        "--seconds", type=number(float), help="that a step may take: says how many rollouts fit"
    )
    parser.add_argument(
        "--memory",
        type=number(float),
        metavar="GIB",
        help="of a device: says how many rows of a pass fit, by runs with passes of several sizes",
    )


def run(args: argparse.Namespace) -> int:
    """Print what was measured first, then what the costs say."""
    with needed("report"):
        from podslab.recommend.costs_in_words import costs_in_words
        from podslab.recommend.costs_of_runs import read_costs
        from podslab.recommend.memory_of_passes import memory_in_words
        from podsrl.rollout_log.run_folder import find_runs

    runs = []
    for folder in args.folders:
        if measured := _measured(Path(folder)):
            print(f"Measured in {folder}, which counts more than any line below:\n\n{measured}\n")
        runs += find_runs(folder)
    print(costs_in_words(read_costs(runs), args.seconds))
    if args.memory is not None:
        print(memory_in_words(runs, args.memory * 2**30))
    return 0


def _measured(folder: Path) -> str:
    """The answer of a comparison in a folder; "" where it holds none that is finished."""
    from podslab.own_script.run_plan import ANSWER, PLAN
    from podslab.report.arms_in_words import arms_in_words, table
    from podslab.report.load_runs import Choices, load_comparison
    from podsrl.errors import InvalidInputError

    answer = folder / ANSWER
    if answer.is_file():
        return answer.read_text(encoding="utf-8").rstrip()

    if (folder / PLAN).is_file():
        return "nothing yet: the comparison is not finished; the same pods compare goes on with it"

    if not (folder / "comparison.yaml").is_file():
        return ""

    try:
        comparison = load_comparison([folder], Choices(partial=True))
    except InvalidInputError as error:  # such as one that has only begun
        return f"nothing yet: {error}"

    arms = arms_in_words(comparison)
    seconds = max(run.evaluations[-1].training_seconds for run in comparison.runs)
    return table(arms, round(seconds))
