"""`pods compare`: methods on a training script of one's own, or arms x seeds from a YAML file."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podslab.checks import check_gpus, number
from podslab.durations import duration
from podsrl.errors import InvalidInputError, needed

if TYPE_CHECKING:
    from podslab.comparison.comparison import ComparisonSpec
    from podslab.training.spec import Spec

SUMMARY = "train your script with several methods for equal time, and say which pays"
#: What stands after "--" starts the script.
TAKES_COMMAND = True
#: Options that only one of the two has, by what it has in place of them.
_OF_A_SCRIPT = ("hours", "methods", "questions", "answers", "gpus")
_OF_A_CONFIG = ("model", "shard")


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.epilog = (
        "Put a launcher after --, such as -- accelerate launch --num_processes 2.\n"
        "You can stop the command at any time; the same command continues it."
    )

    # A script, and how it is compared.
    parser.add_argument(
        "script",
        nargs="?",
        help="your script with TRL's GRPOTrainer or PODSTrainer, unchanged; with arguments in"
        " quotes: 'train.py --size 3'",
    )
    hours = "hours to plan for (2). Each method gets at least two seeds, even if that takes longer"
    parser.add_argument("--hours", type=number(float, 0.001), help=hours)
    parser.add_argument(
        "--methods",
        help="methods to compare (grpo,grpo-minibatches,pods,max_contrast and the script's own)",
    )
    parser.add_argument(
        "--questions", type=number(int, 16), help="held-out questions to evaluate, at most (128)"
    )
    parser.add_argument(
        "--answers", type=number(int, 1), help="sampled answers to each question (4)"
    )
    parser.add_argument("--gpus", help="GPUs, such as 0,1; each trains one run at a time")

    # Or a comparison from a file.
    parser.add_argument(
        "--config", help="in place of a script: a YAML file, or the name of a shipped config"
    )
    parser.add_argument(
        "--model", help="with --config: train this model, such as tiny, smollm2 or a folder"
    )
    parser.add_argument("--shard", metavar="i/k", help="with --config: run only part i of k (1/1)")

    # Both.
    parser.add_argument(
        "--output_dir", help="folder of the runs (pods-compare, or as the config says)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop")


def run(args: argparse.Namespace) -> int:
    """Run what is not finished; 0 if then all is."""
    if (args.script is None) == (args.config is None):
        raise InvalidInputError(
            "give either a training script (pods compare train.py) or a YAML file by --config"
        )
    if args.config is None:
        _refuse_foreign(args, _OF_A_CONFIG, "is for --config, not for a script")
        return _compare_script(args)

    _refuse_foreign(args, _OF_A_SCRIPT, "is for a script; with --config the file says it")
    if args.command:
        raise InvalidInputError("a launcher after -- is for a script: leave it out here")
    return _compare_config(args)


def _refuse_foreign(args: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """An option that would be without effect is a mistake."""
    for name in names:
        if getattr(args, name) is not None:
            raise InvalidInputError(f"--{name} {why}: leave it out")


def _compare_script(args: argparse.Namespace) -> int:
    """Look at the script, say the plan, carry it out, and answer."""
    with needed("trl"):
        from podslab.own_script.plan import described
        from podslab.own_script.run_plan import CompareOptions, RunningComparison, make_plan

    script, *arguments = _words_of(args.script)
    if Path(script).suffix in (".yaml", ".yml"):
        raise InvalidInputError(f"{script} is no script: run pods compare --config {script}")
    gpus = _listed("gpus", args.gpus)
    check_gpus("--gpus", gpus)
    options = CompareOptions(
        script=script,
        arguments=tuple(arguments),
        folder=Path(args.output_dir or "pods-compare"),
        hours=CompareOptions.hours if args.hours is None else args.hours,
        methods=_listed("methods", args.methods),
        questions=args.questions or CompareOptions.questions,
        answers=args.answers or CompareOptions.answers,
        gpus=gpus,
        launch=tuple(args.command),
    )

    plan, probe, costs = make_plan(options, _say)
    print(described(plan, probe, costs), flush=True)
    if args.dry_run:
        return 0

    print(flush=True)
    comparison = RunningComparison(plan, costs, options.folder, options.gpus, _say)
    try:
        answer = comparison.run()
    except KeyboardInterrupt:
        _say("stopped; the same command continues it")
        raise
    print(answer)
    if answer.by_seed:
        answer.draw(options.folder / "answer.png")
        print(f"curves      {options.folder / 'answer.png'}")
    return 0


def _listed(option: str, text: str | None) -> tuple[str, ...]:
    """The names in an option, which are parted by commas; () where it was not given."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise InvalidInputError(
            f"--{option} {text!r} has an empty name: put one comma between two names"
        )
    return names


def _words_of(command: str) -> list[str]:
    """The script and its own arguments; an `InvalidInputError` where a quote is not closed."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidInputError(f"{command!r} is no command: {error}") from error
    if not words:
        raise InvalidInputError("the name of the script is empty: give a file such as train.py")
    return words


def _compare_config(args: argparse.Namespace) -> int:
    with needed("trl"):
        from podslab.comparison.comparison import Shard, open_comparison, refuse_foreign
        from podslab.comparison.comparison_config import parse_comparison
        from podslab.comparison.decision import decide
        from podslab.comparison.run_comparison import Progress, compare, failures
        from podslab.training.config_file import read_config

    shard = Shard.parse(args.shard or "1/1")
    config = read_config(args.config)
    _put_options(config, args)
    spec = parse_comparison(config, args.config.rpartition("/")[2].removesuffix(".yaml"))
    if args.dry_run:
        print(_preview(spec))
        refuse_foreign(spec.folder)  # a start does so, too
        return 0

    spec = open_comparison(spec)
    print(_heading(spec), flush=True)
    progress = Progress(len(spec.runs()) + len(spec.tuning_runs()), _say)
    outcome = compare(spec, shard, progress)
    for line in failures(outcome.failed):
        print(line, file=sys.stderr)
    if outcome.failed:
        print(
            f"pods compare: {len(outcome.failed)} runs failed; the same command runs the unfinished"
        )
        return 1

    print(f"{outcome.done} runs finished in {spec.folder}")
    decision = None
    if outcome.is_whole:
        decision = decide(spec, outcome.looked.seeds, outcome.looked.level)
    if decision is not None:
        decision.write(spec.folder)
        print("\n".join(["", *decision.lines(), ""]))
    print(f"report      pods report {spec.folder} --out {spec.folder / 'report'}")
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _put_options(config: dict[str, Any], args: argparse.Namespace) -> None:
    """Put the command's options into the mapping of the file; wrong ones are told when parsed."""
    if args.output_dir:
        config["output_dir"] = args.output_dir
    settings = config.get("settings") or {}
    if not isinstance(settings, dict):
        return
    if args.model:
        settings = {**settings, "model_name_or_path": args.model}
    if args.dry_run:  # it must not need the runs' GPUs
        settings = {**settings, "use_cpu": True}
    config["settings"] = settings


def _heading(spec: "ComparisonSpec") -> str:
    unit = spec.unit
    if spec.prices is not None:
        unit = f"price ({spec.prices.rollout:g} a rollout, {spec.prices.row:g} a row)"
    tuning = ""
    if spec.tuning is not None:
        rates = ", ".join(f"{rate:g}" for rate in spec.tuning.rates)
        tuning = f", learning rates {rates} tried with {len(spec.tuning.seeds)} seeds each"
    return (
        f"{', '.join(spec.arms)} x {len(spec.seeds)} seeds, {spec.amount:g} {unit} each,"
        f" {spec.evaluations} evaluations{tuning}, in {spec.folder}"
    )


def _all_fields(spec: "Spec") -> dict[str, Any]:
    """All fields of an arm, with the name of the method that its fields are."""
    from podsrl.methods import method_of

    fields = spec.flat()
    return {**fields, "method": fields["method"] or method_of(spec.training.selection())}


def _preview(spec: "ComparisonSpec") -> str:
    from podslab.comparison.comparison import RunKey
    from podslab.comparison.field_table import departures, table_of_differences
    from podslab.training.preview import Preview

    parts = [_heading(spec)]
    run_specs = {arm: spec.run_spec(RunKey(arm, spec.seeds[0])) for arm in spec.arms}
    for arm, run_spec in run_specs.items():
        parts.append(f"\n{arm}\n{Preview.of(run_spec).describe(run_spec)}")

    settings = {arm: _all_fields(run_spec) for arm, run_spec in run_specs.items()}
    if len(settings) > 1:
        parts.append(f"\nFields in which arms differ:\n{table_of_differences(settings)}")
    for arm, run_spec in run_specs.items():
        if departed := departures(settings[arm], run_spec.training.selection()):
            parts.append(f"{arm} differs from its method: {'; '.join(departed)}")

    if spec.unit == "training_seconds":
        runs = len(spec.runs()) + len(spec.tuning_runs())
        parts.append(f"\n{runs} runs, {duration(runs * spec.amount)} of training time in all")
    return "\n".join(parts)
