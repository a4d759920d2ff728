"""Evidence on rewards of several parts: `python -m benchmarks.evidence.reward_parts`.

1. The learning rates of GRPO and PODS are chosen, by answers that are right and well formed.
2. The comparisons `parts-*` are run with those rates; killed, they go on where they were.
3. docs/results/reward-parts.md is written, with a figure of each.

    python -m benchmarks.evidence.reward_parts --only condense
"""

import argparse
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np

from benchmarks.evidence.__main__ import (
    RESULTS,
    RUNS,
    best,
    compare,
    config_of,
    hardware,
    mean_and_spread,
    with_rates,
)
from benchmarks.evidence.cells import mean_accuracy, with_interval
from podslab.report.drawing import render
from podslab.report.figures import draw
from podslab.report.load_runs import Choices, Comparison, load_comparison
from podslab.report.summary import MEASURES, ArmSummary, summarise
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.files import write_whole

BOTH = "both_accuracy"
#: Each comparison, with what it is and where its learning rates come from.
SETTINGS = {
    "parts-every": ("the form pays every rollout, up to 0.02, as in (c)", "parts-rates-every"),
    "parts-wrong": ("the form pays wrong answers, up to 0.2, as in (a)", "parts-rates-wrong"),
    "parts-misleading": (
        "wrong answers are paid for being short, up to 0.2",
        "parts-rates-misleading",
    ),
}
Tried = Mapping[str, Mapping[float, list[float]]]


def main() -> None:
    """Tune, run, condense."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("tune", "run", "condense"))
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (2)")
    args = parser.parse_args()
    tunings = sorted({tuning for _, tuning in SETTINGS.values()})
    if args.only in (None, "tune"):
        for name in tunings:
            compare(name, config_of(name), args.jobs)
    if args.only in (None, "run"):
        for name, (_, tuning) in SETTINGS.items():
            rates = {arm: best(of_arm) for arm, of_arm in tried(tuning).items()}
            compare(name, with_rates(config_of(name), rates), args.jobs)
    if args.only in (None, "condense"):
        write_whole(RESULTS / "reward-parts.md", page(tunings).encode())


def tried(tuning: str) -> Tried:
    """Of each arm, by learning rate: each run's mean share of right and well-formed answers."""
    scores: dict[str, dict[float, list[float]]] = {}
    for arm in load(tuning, BOTH).arms:
        name, rate = arm.name.split("-", 1)
        scores.setdefault(name, {})[float(rate)] = mean_accuracy(arm.curves).tolist()
    return scores


def load(name: str, measure: str) -> Comparison:
    """A finished comparison by one of the accuracies, beside the first of its arms."""
    reference = next(iter(config_of(name)["arms"]))
    return load_comparison([RUNS / name], Choices(references=[reference], measure=measure))


def page(tunings: list[str]) -> str:
    """The whole page, from the runs alone."""
    parts = [
        "# Rewards of several parts, measured\n",
        f"`python -m benchmarks.evidence.reward_parts`, {datetime.now(UTC).date()},"
        f" {hardware([*SETTINGS, *tunings])}. Time is processor time of one thread"
        " (`training_clock: cpu`). What it means: [reward parts](../reward-parts.md).\n",
        *(section(name) for name in SETTINGS),
        rates_table(tunings),
    ]
    return "\n".join(parts)


def section(name: str) -> str:
    """One comparison: each arm by answers, by form and by both, and the speed-up of each."""
    lines = [
        f"## {SETTINGS[name][0].capitalize()}\n",
        "| arm | measure | at the start | best | at the end | mean over the run"
        " | times as fast as GRPO |",
        "|---|---|---|---|---|---|---|",
    ]
    for measure in ("answer_accuracy", "format_accuracy", BOTH):
        comparison = load(name, measure)
        for arm, summary in zip(comparison.arms, summarise(comparison), strict=True):
            over_run = mean_and_spread(mean_accuracy(arm.curves).tolist())
            lines.append(
                f"| {arm.name} | {MEASURES[measure]} | {row(summary)} | {over_run} |"
                f" {speed(summary)} |"
            )
        if measure == BOTH:
            figure = draw(comparison, summarise(comparison))["measures"]
            write_whole(RESULTS / f"{name}.png", render(figure, "png"))
    caption = f"![{SETTINGS[name][0]}: the three measures over time]({name}.png)"
    return "\n".join([*lines, "", caption, ""])


def row(summary: ArmSummary) -> str:
    """Mean shares over seeds: at the start, at the best point, at the end."""
    points = (summary.base, summary.peak, summary.final)
    return " | ".join("—" if point is None else f"{point.mean:.1%}" for point in points)


def speed(summary: ArmSummary) -> str:
    """The speed-up over GRPO with its interval, or why there is none."""
    if "grpo" not in summary.speedups or summary.arm == "grpo":
        return "reference"
    return with_interval(summary.speedups["grpo"])


def rates_table(tunings: list[str]) -> str:
    """What each learning rate gave; the chosen ones stand out."""
    found = {name: tried(name) for name in tunings}
    rates = sorted({rate for arms in found.values() for arm in arms.values() for rate in arm})
    lines = [
        "## Learning rates\n",
        "Share of right and well-formed answers, mean over the run; the best one is used.\n",
        "| comparison | arm |" + "|".join(f"{rate:g}" for rate in rates) + "|",
        "|---|---|" + "---|" * len(rates),
    ]
    for name, arms in found.items():
        for arm, of_arm in arms.items():
            texts = {rate: f"{np.mean(scores):.1%}" for rate, scores in of_arm.items()}
            texts[best(of_arm)] = f"**{texts[best(of_arm)]}**"
            lines.append(f"| {name} | {arm} |" + "|".join(texts.get(r, "") for r in rates) + "|")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    try:
        main()
    except InvalidInputError as error:
        sys.exit(str(error))
