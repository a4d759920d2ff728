"""`pods recommend`: what steps cost here, what they are worth, and how many rollouts pay most."""

import argparse
import shlex
import sys
from pathlib import Path

from podslab.checks import check_gpus, number
from podsrl.errors import InvalidInputError, needed

SUMMARY = "measure what a step costs with several n, and say which n pays"
#: What stands after "--" starts the script.
TAKES_COMMAND = True


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.epilog = (
        "It runs your script for a few steps of GRPO (n = m), of PODS with n = 2 m, 4 m, 8 m\n"
        "and 16 m, and of GRPO that trains on all of n = 4 m. Run it on the machine that you will\n"
        "train on. The worth of a step is that of your task, if `pods compare` has measured it,\n"
        "and else that of the authors' runs.\n"
        "Put a launcher after --, such as -- accelerate launch --num_processes 2."
    )

    parser.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="your script with TRL's GRPOTrainer or PODSTrainer, unchanged; with arguments in"
        " quotes: 'train.py --size 3'. Or finished runs: folders, a comparison, TRL's"
        " trainer_state.json, a log of verl",
    )

    parser.add_argument(
        "--steps", type=number(int, 1), help="with a script: steps to time at each n (3)"
    )
    parser.add_argument("--output_dir", help="with a script: folder for the costs (pods-compare)")
    parser.add_argument("--gpu", help="with a script: the GPU, such as 0")

    parser.add_argument(
        "--memory",
        type=number(float),
        metavar="GIB",
        help="memory of the GPU. With a script: print the largest n and the largest m that fit."
        " With runs of several batch sizes: print how many rows of a pass fit",
    )


def run(args: argparse.Namespace) -> int:
    """Measure or read costs, and say with the worths that are known what pays."""
    script = _script(args)
    if script is not None:
        return _of_script(args, script)
    for name in ("steps", "output_dir", "gpu"):
        if getattr(args, name) is not None:
            raise InvalidInputError(f"--{name} is for a script: leave it out")
    return _of_files(args, [Path(source) for source in args.sources])


def _script(args: argparse.Namespace) -> list[str] | None:
    """The words of a script and its arguments; None where files are given."""
    try:
        words = shlex.split(args.sources[0])
    except ValueError as error:
        raise InvalidInputError(f"{args.sources[0]!r} is no command: {error}") from error
    if not words or not words[0].endswith(".py"):
        return None
    if len(args.sources) > 1:
        raise InvalidInputError(
            "give one script, or finished runs. Put a script and its own arguments into quotes:"
            f" pods recommend '{words[0]} --size 3'"
        )
    return words


def _of_script(args: argparse.Namespace, words: list[str]) -> int:
    with needed("trl"):
        from podslab.own_script.measure_steps import StepsWanted, measure_steps
        from podslab.recommend.answer import answer
        from podslab.recommend.known_worth import known_worths, read_worths
        from podslab.recommend.memory_of_passes import rows_in_words
        from podslab.recommend.memory_of_rollouts import rollouts_in_words

    if args.gpu is not None:
        check_gpus("--gpu", args.gpu.split(","))
    wanted = StepsWanted(
        script=words[0],
        arguments=tuple(words[1:]),
        folder=Path(args.output_dir or StepsWanted.folder),
        steps=args.steps or StepsWanted.steps,
        launch=tuple(args.command),
        gpu=args.gpu,
        for_memory=args.memory is not None,
    )
    measured = measure_steps(wanted, lambda line: print(line, file=sys.stderr, flush=True))
    print(answer(measured, known_worths(read_worths(wanted.folder))))
    if args.memory is not None:
        print(rollouts_in_words(measured, args.memory * 2**30))
        print(rows_in_words(measured, args.memory * 2**30))
    return 0


def _of_files(args: argparse.Namespace, sources: list[Path]) -> int:
    """Print the answer of a comparison, then the costs of its runs, or of others."""
    with needed("report"):
        from podslab.recommend.answer import answer
        from podslab.recommend.known_worth import known_worths, read_worths
        from podslab.recommend.logs import read_logs
        from podslab.recommend.measured_steps import MeasuredSteps
        from podslab.recommend.memory_of_passes import memory_in_words
        from podsrl.rollout_log.run_folder import find_runs

    if args.command:
        raise InvalidInputError("a launcher after -- is for a script: leave it out here")
    worths = []
    for source in sources:
        if told := _measured(source):
            print(f"Measured in {source}; trust it more than the lines below:\n\n{told}\n")
        if source.is_dir():
            worths += read_worths(source)

    timed = [MeasuredSteps.read(source) for source in sources if source.is_dir()]
    measured = next((steps for steps in timed if steps is not None), None)
    print(answer(measured or read_logs(sources), known_worths(worths)))
    if args.memory is not None:
        runs = [run for source in sources if source.is_dir() for run in find_runs(source)]
        print(memory_in_words(runs, args.memory * 2**30))
    return 0


def _measured(folder: Path) -> str:
    """The answer of a comparison in a folder; "" where it holds none that is finished."""
    from podslab.engine.folder import ARMS_PLAN, SCRIPT_PLAN
    from podslab.own_script.run_plan import ANSWER
    from podslab.report.arm_rows import arm_rows, table
    from podslab.report.load_runs import Choices, load_comparison

    answer = folder / ANSWER
    if answer.is_file():
        return answer.read_text(encoding="utf-8").rstrip()

    if (folder / SCRIPT_PLAN).is_file():
        return "nothing yet: the comparison is not finished; the same `pods compare` continues it"

    if not (folder / ARMS_PLAN).is_file():
        return ""

    try:
        comparison = load_comparison([folder], Choices(partial=True))
    except InvalidInputError as error:  # such as one that has only begun
        return f"nothing yet: {error}"

    arms = arm_rows(comparison)
    seconds = max(run.evaluations[-1].training_seconds for run in comparison.runs)
    return table(arms, round(seconds))
