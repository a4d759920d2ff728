"""Evidence on where to spend the rows of an update: `python -m benchmarks.evidence.rows`.

Every arm trains on the same number of rows per step. They differ in how many prompts these come
from, in how many rollouts are generated for each, and in how they are chosen.

1. Each arm's learning rate is chosen, in each setting, on seeds that nothing else uses.
2. The arms are run with their rates, GRPO by its best split. Killed, they go on where they were.
3. results/rows.json, rows.md and the figures are written; a setting not run stays as it was.

    python -m benchmarks.evidence.rows --settings mixed-16 mixed-128
    python -m benchmarks.evidence.rows --only condense
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from benchmarks.evidence import tuning
from benchmarks.evidence.harness import (
    RESULTS,
    RUNS,
    compare,
    equally_long,
    figure,
    hardware,
    mean_accuracy,
)
from benchmarks.evidence.rows_page import page
from benchmarks.evidence.rows_settings import (
    ACROSS,
    ANSWERS,
    ARMS,
    AUTHORS,
    FAMILIES,
    GRPO,
    ROWS,
    SEEDS,
    SETTINGS,
    WORDS,
)
from podslab.recommend.costs import Sizes
from podslab.report import summary as words
from podslab.report.drawing import render
from podslab.report.figures import describe, draw
from podslab.report.load_runs import Choices, Comparison, load_comparison
from podslab.report.statistics import Speedup, speed_up
from podslab.report.summary import summarise
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.files import write_json, write_whole
from podsrl.rollout_log.run_folder import find_runs

#: Of the figure: title, the arms of which one was run, and the clock.
PANELS = (
    ("max_contrast", ACROSS, "measured"),
    ("the same at the authors' costs", ACROSS, "at_costs"),
    ("4 → 2", ("few",), "measured"),
    ("The paper's 64 → 16", ("pods",), "measured"),
)
_place = list(WORDS).index


def main() -> None:
    """Tune, run, condense."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("tune", "run", "condense"))
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (2)")
    parser.add_argument("--settings", nargs="*", default=ROWS, choices=ROWS)
    args = parser.parse_args()
    for name in args.settings:
        if args.only in (None, "tune"):
            arms = {arm: {"like": "pods"} | own for arm, own in ARMS.items()}
            tuning.tune("rows", name, arms, partial(tried, name), args.jobs)
        if args.only in (None, "run"):
            compare(f"rows-{name}", final(name), args.jobs)
    if args.only in (None, "condense"):
        condense(args.settings)


def tried(name: str) -> dict[str, dict[float, list[float]]]:
    """Of each arm, by learning rate: each run's accuracy, on average over its time."""
    return tuning.read_tried("rows", name, SETTINGS[name].measure)


def final(name: str) -> dict[str, Any]:
    """The arms at their best rates; of GRPO the split that did best, and 16 of each prompt."""
    found = tried(name)
    rate = {arm: tuning.best(of_arm) for arm, of_arm in found.items()}
    left_out = {arm for family in FAMILIES for arm in family} - {"grpo16"}
    for family in FAMILIES:
        left_out.discard(max(family, key=lambda arm: float(np.mean(found[arm][rate[arm]]))))
    arms = {
        arm: own | {"learning_rate": rate[arm]} for arm, own in ARMS.items() if arm not in left_out
    }
    return tuning.comparison(name, arms, SEEDS)


def _load(name: str, *references: str, **choices: Any) -> Comparison:
    """The runs of a setting; by default by its measure."""
    folder = RUNS / f"rows-{name}"
    first = next(iter(find_runs(folder))).config()["arm"]
    choices = {"references": references or (first,), "measure": SETTINGS[name].measure} | choices
    return load_comparison([folder], Choices(**choices))


def reference(name: str, **choices: Any) -> str:
    """The arm of GRPO that learned most over its time: what the others are measured against."""
    arms = {arm.name: arm.curves for arm in _load(name, **choices).arms if arm.name in GRPO}
    return max(arms, key=lambda arm: float(mean_accuracy(arms[arm]).mean()))


def condense(names: Sequence[str]) -> None:
    """Write rows.json, and from it the page and the figure; a setting not run stays as it was."""
    path = RESULTS / "rows.json"
    found = json.loads(path.read_text()) if path.is_file() else {}
    found |= {name: measure(name) for name in names if (RUNS / f"rows-{name}").is_dir()}
    found = {name: found[name] for name in SETTINGS if name in found}
    write_json(path, found)
    write_whole(RESULTS / "rows.md", page(found).encode())
    panels = {
        title: {
            f"{SETTINGS[name].what}, {SETTINGS[name].rows} rows": _speedup(one, arms, clock)
            for name, one in found.items()
        }
        for title, arms, clock in PANELS
    }
    label = "times as fast as the best GRPO with the same rows"
    write_whole(RESULTS / "rows.png", render(figure(panels, label), "png"))


def measure(name: str) -> dict[str, Any]:
    """What the runs of a setting show, as plain values; its figure is written."""
    grpo, setting = reference(name), SETTINGS[name]
    comparison = _load(name, grpo)
    modelled = _load(name, grpo, clock=AUTHORS)
    sizes = {}
    for arm in comparison.arms:
        n, m = arm.config["num_rollouts"], arm.config["num_generations"]
        rows = setting.rows * arm.config["gradient_accumulation_steps"]
        sizes[arm.name] = Sizes(rows // m, n, m)
    arms = {}
    summaries = summarise(comparison)
    pairs = zip(comparison.arms, summaries, strict=True)
    for arm, summary in sorted(pairs, key=lambda pair: _place(pair[0].name)):
        pair = modelled.arm(grpo).curves, modelled.arm(arm.name).curves
        log = [row for run in comparison.runs if run.arm == arm.name for row in run.metrics]
        fillers = [
            row["pods/zero_advantage_rows"] for row in log if "pods/zero_advantage_rows" in row
        ]
        arms[arm.name] = {
            "sizes": sizes[arm.name],
            "learning_rate": arm.config["learning_rate"],
            "steps": float(np.nanmean(arm.curves.steps[:, -1])),
            "over_run": mean_accuracy(arm.curves).tolist(),
            "end": words.percent(summary.final),
            "measured": asdict(summary.speedups[grpo]) if arm.name != grpo else None,
            "at_costs": asdict(speed_up(*equally_long(*pair))) if arm.name != grpo else None,
            "at_costs_whole": asdict(speed_up(*pair)) if arm.name != grpo else None,
            "filler_share": float(np.mean(fillers)) / sizes[arm.name].rows,
        }
    drawn = draw(comparison, summaries)["accuracy"]
    write_whole(RESULTS / f"rows-{name}.png", render(drawn, "png"))
    return {
        "made": f"{datetime.now(UTC).date()}, {hardware(f'rows-{name}', f'rows-{name}-rates-*')}",
        "seconds": setting.seconds,
        "reference": grpo,
        "caption": describe("accuracy", comparison),
        "arms": arms,
        "answers": {} if setting.measure == ANSWERS else by_answers(name),
        "rates": tried(name),
    }


def by_answers(name: str) -> dict[str, Any]:
    """Each arm by right answers alone, beside the GRPO that is best by these."""
    grpo = reference(name, measure=ANSWERS)
    comparison = _load(name, grpo, measure=ANSWERS)
    return {
        arm.name: {
            "over_run": mean_accuracy(arm.curves).tolist(),
            "end": words.percent(summary.final),
            "measured": asdict(summary.speedups[grpo]) if arm.name != grpo else None,
        }
        for arm, summary in zip(comparison.arms, summarise(comparison), strict=True)
    }


def _speedup(found: Mapping[str, Any], arms: Sequence[str], clock: str) -> Speedup:
    """Of the one of these arms that was run."""
    arm = next(arm for arm in arms if arm in found["arms"])
    return Speedup(**found["arms"][arm][clock])


if __name__ == "__main__":
    try:
        main()
    except InvalidInputError as error:
        sys.exit(str(error))
