"""`pods demo`: the paper's comparison on a CPU, in minutes, at equal training time."""

import argparse
import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podslab.comparison.comparison import ComparisonSpec
    from podslab.report.arm_rows import ArmRow
    from podslab.statistics.curves import ArmCurves

SUMMARY = "compare GRPO, GRPO-GA, PODS and max_contrast on a CPU, in three minutes"


@dataclass(frozen=True)
class Demo:
    """A comparison that is shipped, and what there is to say of it.

    config: as for `pods compare --config`. setting: what is trained. minutes: for each seed, where
    two runs are trained side by side on two cores, without what is made once.
    """

    config: str
    setting: str
    minutes: int


#: By the name of the model.
DEMOS = {
    "tiny": Demo(
        "demo",
        "A model of 0.8 million parameters adds two numbers of 2 to 7 digits, and slips in every"
        " second digit. Answers are short; updating on a row takes longer than generating it.",
        minutes=3,
    ),
    "smollm2": Demo(
        "demo-smollm2",
        "SmolLM2-135M-Instruct is asked which of two numbers is larger. An answer is right if the"
        " right number is the only number in it. All arms have the same learning rate, which was"
        " tuned for none of them.",
        minutes=25,
    ),
}
#: What the two numbers of a step mean.
PAYS = (
    "A method pays if its step is worth more than it costs. Worth depends on the method and the"
    " task, and cost on the machine: pods recommend train.py measures the cost on yours."
)
#: What an arm does with its rollouts, after their numbers. `of_each`: the rows of one prompt.
_HOW = {
    "grpo": "trains on all",
    "grpo_ga": "trains on all, by gradient accumulation",
    "pods": "trains on the {of_each} whose rewards vary most: the paper's method",
    "max_contrast": "trains on {trained}, chosen across prompts",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.epilog = (
        "You can stop it at any time; the same command continues it. The same comparison without\n"
        "the demo's texts: pods compare --config demo (or demo-smollm2)"
    )
    which = "tiny (default), or smollm2, which takes 25 minutes and needs two more packages"
    parser.add_argument("--model", choices=DEMOS, default="tiny", help=which)
    seeds = "runs of each arm, with different random numbers (1)"
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help=seeds)
    folder = "folder of the runs (runs/demo, or runs/demo-smollm2)"
    parser.add_argument("--output_dir", "--output-dir", help=folder)


def run(args: argparse.Namespace) -> int:
    """Train the four arms, tell what came of it, and write what there is to look at."""
    from podsrl.errors import InvalidInputError, needed

    with needed("trl"):
        from podslab.comparison.comparison import Shard, open_comparison
        from podslab.comparison.comparison_config import parse_comparison
        from podslab.comparison.live import Live
        from podslab.comparison.run_comparison import compare, failures
        from podslab.report.arm_rows import arm_rows
        from podslab.report.load_runs import Choices, load_comparison
        from podslab.report.write_report import write_report
        from podslab.training.config_file import read_config

    if args.seeds < 1:
        raise InvalidInputError(f"--seeds must be at least 1; got {args.seeds}")
    demo = DEMOS[args.model]
    config = {**read_config(demo.config), "seeds": args.seeds}
    config["output_dir"] = args.output_dir or f"runs/{Path(demo.config).stem}"
    spec = _in_a_folder(parse_comparison(config, "demo"))
    at_once = min(2, os.cpu_count() or 1)

    print(_introduction(spec, demo, at_once), flush=True)
    _make_model(spec)
    spec = open_comparison(spec)
    try:
        outcome = compare(spec, Shard(), Live(spec, _labels(spec)), at_once)
    except KeyboardInterrupt:
        print("\nstopped; the same command continues it", file=sys.stderr)
        raise
    for line in failures(outcome.failed):
        print(line, file=sys.stderr)
    if outcome.failed:
        print("pods demo: not all runs finished; the same command runs the rest", file=sys.stderr)
        return 1

    # A seed or two decide nothing, so there is a table with sentences, without intervals.
    comparison = load_comparison([spec.folder], Choices())
    curves = {arm.name: arm.curves for arm in comparison.arms}
    print(f"\n{summary(arm_rows(comparison, _labels(spec)), spec.amount, curves)}\n")
    report = write_report([comparison], spec.folder, "PODS: the demo")
    print(f"curves      {spec.folder / 'figures' / 'accuracy.png'}")
    print(f"report      {report.page}")
    _show_rollouts(spec)
    return 0


def summary(arms: Sequence["ArmRow"], seconds: float, curves: Mapping[str, "ArmCurves"]) -> str:
    """The table of the arms, and what it says, in words.

    Args:
        arms: What the table shows.
        seconds: The training time of each run.
        curves: The learning curves of the arms, by their names.
    """
    from podslab.report.arm_rows import meaning_of_level, table, verdict, worth_sentence
    from podslab.statistics.worth import step_value

    early = verdict(arms, f"After {seconds / 4:g} s", {arm.label: arm.early for arm in arms})
    end = verdict(arms, f"After {seconds:g} s", {arm.label: arm.end for arm in arms})
    parts = [table(arms, seconds), "", early, end]
    if "level with" in early + end:
        parts.append(meaning_of_level(arms))
    value = step_value(curves["grpo"], curves["pods"])
    return "\n".join([*parts, worth_sentence(value), PAYS])


def _introduction(spec: "ComparisonSpec", demo: Demo, at_once: int) -> str:
    """The introduction: what will be done, and how long that takes."""
    from podslab.comparison.comparison import RunKey
    from podslab.training.preview import Preview

    lines = [demo.setting, ""]
    labels = _labels(spec)
    width = max(map(len, labels.values()))

    for arm in spec.arms:
        sizes = Preview.of(spec.run_spec(RunKey(arm, spec.seeds[0])))
        each = sizes.rollouts // sizes.prompts
        of = "a prompt" if sizes.prompts == 1 else f"each of {sizes.prompts} prompts"
        rows = sizes.rows // sizes.prompts
        of_each = str(rows) if sizes.prompts == 1 else f"{rows} of each"
        how = _HOW.get(arm, "trains on {trained}").format(trained=sizes.rows, of_each=of_each)
        lines.append(f"  {labels[arm]:<{width}}  {each} rollouts of {of}; {how}")

    seeds = f", {len(spec.seeds)} seeds" if len(spec.seeds) > 1 else ""
    minutes = demo.minutes * len(spec.seeds) * 2 // at_once
    lines += [
        "",
        f"Each trains for {spec.amount:g} s of processor time of one thread{seeds}, without the"
        f" evaluations. This takes about {minutes} minutes.",
    ]
    return "\n".join(lines)


def _labels(spec: "ComparisonSpec") -> dict[str, str]:
    from podslab.report.arm_rows import LABELS

    return {arm: LABELS.get(arm, arm) for arm in spec.arms}


def _in_a_folder(spec: "ComparisonSpec") -> "ComparisonSpec":
    """The comparison in its folder if that is new or holds an unfinished one, else beside it.

    Raises:
        InvalidInputError: The folder has no name of its own, as "." has none.
    """
    from podsrl.errors import InvalidInputError

    if spec.folder.name in ("", ".."):
        raise InvalidInputError(
            f"--output_dir {spec.folder} has no name of its own: give a new folder, such as demo"
        )
    for number in itertools.count(1):
        name = spec.folder.name if number == 1 else f"{spec.folder.name}-{number}"
        here = replace(spec, folder=spec.folder.with_name(name))
        if not here.folder.exists():
            if number > 1:
                print(f"{spec.folder} holds other files; this demo is written to {here.folder}\n")
            return here
        if _is_unfinished(here):
            print(f"The demo in {here.folder} is not finished; it continues.\n")
            return here
    raise AssertionError


def _is_unfinished(spec: "ComparisonSpec") -> bool:
    """Does the folder hold the same comparison, with runs that are still to be done?"""
    from podslab.comparison.comparison import read_comparison
    from podsrl.errors import InvalidInputError

    try:
        there = read_comparison(spec.folder)
    except InvalidInputError:
        return False
    same = all(
        getattr(there, name) == getattr(spec, name)
        for name in ("arms", "unit", "amount", "evaluations")
    )
    return same and any(spec.run_folder(run).finished() is None for run in spec.runs())


def _make_model(spec: "ComparisonSpec") -> None:
    """Make the model now, rather than in the first two runs, where nobody sees how far it is."""
    from podslab.cli import run_output
    from podslab.models import resolve

    first = spec.run_spec(spec.runs()[0])
    name = str(first.model.model_name_or_path)
    bar = run_output.bar("making the model, once")
    resolve(name, first.tiny_settings, bar)


def _show_rollouts(spec: "ComparisonSpec") -> None:
    """Write the page of PODS's rollouts, and open it where somebody can see it."""
    import webbrowser

    from podsrl.cli import main

    folder = spec.folder / "pods" / f"seed-{spec.seeds[0]}"
    page = folder / "rollouts.html"
    print(f"rollouts    pods inspect {folder}   what PODS kept and what it dropped:")
    main(["inspect", str(folder), "--export", str(page)])
    has_screen = sys.platform in ("darwin", "win32") or "DISPLAY" in os.environ
    if has_screen and sys.stdout.isatty():
        webbrowser.open(page.resolve().as_uri())
