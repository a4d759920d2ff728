"""Arms of different n and m beside each other, and beside what docs/signal.md foresees.

From the runs of one comparison of `benchmarks/evidence`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import bootstrap

from benchmarks.evidence.cells import (
    equally_long,
    mean_accuracy,
    speedup,
    times_sooner,
    typical_factor,
)
from podslab.report.load_runs import Comparison
from podslab.recommend.measured_run import read_measured
from podslab.recommend.costs import Sizes

REFERENCE = "grpo"
AUTO = "auto"


@dataclass(frozen=True)
class Size:
    """An arm of fixed n and m.

    accuracy_S: of each seed, mean over all evaluations but the first: what a run learned early and
        late; one evaluation is noisier than the arms differ. sooner: than GRPO, as in the map.
    predicted: the same by the model.
    """

    n: int
    m: int
    accuracy_S: npt.NDArray[np.float64]
    sooner: float
    predicted: float


def sizes(comparison: Comparison) -> dict[str, Size]:
    """Every arm that selects by max_variance with a fixed n, GRPO among them."""
    pairs = {
        arm.name: (arm.config["num_rollouts"], arm.config["num_generations"])
        for arm in comparison.arms
        if arm.config["downsampling_rule"] == "max_variance" and arm.name != AUTO
    }
    found = read_measured(*(run.folder for run in comparison.runs if run.arm in pairs))
    reference = comparison.arm(REFERENCE).curves
    steps = {name: Sizes(found.now.prompts, n, m) for name, (n, m) in pairs.items()}
    rows = {}
    for name, (n, m) in pairs.items():
        curves = comparison.arm(name).curves
        rows[name] = Size(
            n=n,
            m=m,
            accuracy_S=mean_accuracy(curves),
            sooner=times_sooner(*equally_long(reference, curves)),
            predicted=speedup(found.population, found.costs, steps[name], steps[REFERENCE]),
        )
    return rows


def as_markdown(comparison: Comparison) -> str:
    """The table; where `auto` is an arm, what it chose and how it did."""
    rows = sizes(comparison)
    lines = [
        "#### n and m beside each other\n",
        "Mean accuracy over the evaluations of a run, its difference to GRPO's on the same seeds"
        " (95 % interval), how many times sooner than GRPO, and what the model foresees.\n",
        "| arm | n | m | mean accuracy | less GRPO | sooner | predicted |",
        "|---|---|---|---|---|---|---|",
    ]
    reference = rows[REFERENCE].accuracy_S
    for name, size in rows.items():
        less = "" if name == REFERENCE else _difference(size.accuracy_S - reference)
        lines.append(
            f"| {name} | {size.n} | {size.m} | {size.accuracy_S.mean():.1%} | {less} |"
            f" {size.sooner:.2f} | {size.predicted:.2f} |"
        )
    others = [size for name, size in rows.items() if name != REFERENCE]
    factor = typical_factor((size.predicted, size.sooner) for size in others)
    lines += ["", f"Typical factor between prediction and measurement: {factor:.2f}.\n"]
    if any(arm.name == AUTO for arm in comparison.arms):
        lines += _auto(comparison, rows)
    return "\n".join(lines)


def _auto(comparison: Comparison, rows: Mapping[str, Size]) -> list[str]:
    area = mean_accuracy(comparison.arm(AUTO).curves)
    chosen = [
        int(run.metrics[-1]["pods/num_rollouts"]) for run in comparison.runs if run.arm == AUTO
    ]
    same_m = {name: size for name, size in rows.items() if size.m == rows["pods"].m}
    best = max(same_m, key=lambda name: float(same_m[name].accuracy_S.mean()))
    lines = [f"`num_rollouts: auto` chose n = {', '.join(map(str, chosen))}: {area.mean():.1%}."]
    lines += [
        f"Less {name} (n = {rows[name].n}): {_difference(area - rows[name].accuracy_S)}."
        for name in dict.fromkeys((best, "pods"))
    ]
    return [" ".join(lines), ""]


def _difference(difference_S: npt.NDArray[np.float64]) -> str:
    low, high = bootstrap((difference_S,), np.mean, rng=0).confidence_interval
    return f"{difference_S.mean():+.1%} ({low:+.1%} to {high:+.1%})"
