"""`pods recommend`: which prompts, n and m, by a short measured run, a saved one or given costs."""

import argparse
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from podslab.checks import number, refuse_unwritable
from podsrl.errors import InvalidInputError, needed
from podsrl.rollout_log.files import write_json

if TYPE_CHECKING:
    from podslab.recommend.advice import Advice
    from podslab.recommend.measured_run import Measured
    from podslab.recommend.populations import Population
    from podsrl.rollout_log.run_folder import RunFolder

SUMMARY = "which prompts, n and m teach most per second, on your model and hardware"
TAKES_FIELDS = True
_ROWS = 16  # where only costs are given


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb; with --config every other --field is one of the config's."""
    parser.usage = (
        "pods recommend (RUN... | --config FILE [--any_field value ...] |"
        " --costs ... --pass_rates ...) [--rows 16] [--n 4,8,16] [--m 2,4] [--out FOLDER]"
    )
    parser.epilog = "docs/theory.md derives what is predicted, and says what is left out."

    # What is known of the setting: runs, a config to measure, or numbers.
    runs = "saved runs, or folders of runs, of one setting"
    parser.add_argument("runs", nargs="*", metavar="RUN", help=runs)
    config = "measure now: a YAML file, or the name of a shipped config"
    parser.add_argument("--config", help=config)
    costs = "in seconds per rollout (also: score=S), instead of measured ones"
    parser.add_argument("--costs", metavar="generate=S,update=S", help=costs)
    rates = "0.1,0.5,0.9 or beta:0.5,0.5: how often prompts are answered right"
    parser.add_argument("--pass_rates", metavar="RATES", help=f"{rates}, instead of measured ones")

    # What is compared.
    rows = "of the update per step, prompts x m, where costs are given (%(default)s)"
    parser.add_argument("--rows", type=number(int, 2), default=_ROWS, help=rows)
    every = "the trainer makes a pass over every row, as verl and slime do"
    parser.add_argument("--every_row", action="store_true", help=every)
    parser.add_argument("--n", type=_sizes, default=[], help="n to compare (m to 16m)")
    m = "m to compare (1, which is the best one, all even ones that fit, and rows)"
    parser.add_argument("--m", type=_sizes, default=[], help=m)

    out = "where to write (default: recommendation in the first RUN, else here)"
    parser.add_argument("--out", type=_folder, metavar="FOLDER", help=out)


def run(args: argparse.Namespace) -> int:
    """Measure if need be, predict, and print the table with the recommendation."""
    given = bool(args.costs and args.pass_rates)
    if (args.runs and args.config) or not (args.runs or args.config or given):
        raise InvalidInputError(
            "give a run's folder, or --config FILE to measure now, or both --costs and --pass_rates"
        )
    if args.fields and not args.config:
        raise InvalidInputError(f"unknown arguments: {' '.join(args.fields)}")
    args.out = args.out or Path(*args.runs[:1], "recommendation")
    refuse_unwritable(args.out)
    advice, source = _advise(args)
    print(f"{source}\n\n{advice.table()}\n")
    path = args.out / "recommendation.json"
    write_json(path, {"source": source, **advice.as_json()})
    print(f"wrote {path}")
    return 0


def _advise(args: argparse.Namespace) -> "tuple[Advice, str]":
    from podslab.recommend.advice import advise
    from podslab.recommend.costs import Batch, Costs, Sizes
    from podslab.recommend.populations import parse_pass_rates
    from podslab.report.curves import Clock

    clock = Clock.parse(args.costs) if args.costs else None
    if clock is not None and not (clock.generate and clock.update):
        raise InvalidInputError(
            "--costs needs both generate and update, such as generate=0.05,update=0.42; got"
            f" {args.costs!r}"
        )
    rates = parse_pass_rates(args.pass_rates) if args.pass_rates else None
    costs = Costs.of_rollouts(clock.generate, clock.update, clock.score) if clock else None
    sources = [f"costs       given: {clock} per rollout, and nothing for a step"] if clock else []
    sources += [f"pass rates  given: {args.pass_rates}"] if rates else []
    if costs and rates and not (args.runs or args.config):
        m = _ROWS if args.rows % _ROWS == 0 else args.rows
        now = Sizes(args.rows // m, max(4 * _ROWS, m), m)
        batch = Batch(args.rows, spares=not args.every_row)
        return advise(rates, costs, now, args.n, args.m, batch), "\n".join(sources)
    found, where = _measured(args, rates)
    if costs is None:
        sizes = ", ".join(f"{size:g}" for size in found.rollouts)
        sources.append(f"costs       {where}: {found.generations} generations of {sizes} rollouts")
    if rates is None:
        sources.append(
            f"rewards     {where}: {len(found.rewards_G)} groups, mean reward"
            f" {found.mean_reward:.3f}"
        )
    population, costs = rates or found.population, costs or found.costs
    batch = found.batch._replace(spares=found.batch.spares and not args.every_row)
    advice = advise(population, costs, found.now, args.n, args.m, batch)
    return advice, "\n".join(sources)


def _measured(args: argparse.Namespace, rates: "Population | None") -> "tuple[Measured, str]":
    """What the runs measured, or a short run of the config does now; and where that was."""
    from podslab.recommend.measured_run import read_measured
    from podsrl.rollout_log.run_folder import find_runs

    runs = [run for folder in args.runs for run in find_runs(folder)] or [_measure(args)]
    where = str(runs[0].path) if len(runs) == 1 else f"{len(runs)} runs"
    return read_measured(*runs, population=rates), where


def _measure(args: argparse.Namespace) -> "RunFolder":
    """The short run of a config, announced before it starts."""
    folder = args.out / "run"
    if (folder / "config.yaml").is_file():
        raise InvalidInputError(
            f"{folder} holds what was measured before: use it by `pods recommend {folder}`, or"
            " choose another --out"
        )
    with needed("trl"):
        from podslab.cli import run_output
        from podslab.recommend.short_run import short_run
        from podslab.training.config_file import read_config

    config, say = read_config(args.config), partial(print, flush=True)
    with run_output.TrainingBar() as bar:
        return short_run(config, args.fields, str(folder), say, [bar], run_output.bar)


def _folder(text: str) -> Path:
    return Path(os.path.expanduser(text))


def _sizes(text: str) -> list[int]:
    sizes = text.split(",")
    if not all(size.isdecimal() and int(size) for size in sizes):
        raise argparse.ArgumentTypeError(f"give whole numbers such as 2,4,8; got {text!r}")
    return [int(size) for size in sizes]
