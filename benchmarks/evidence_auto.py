"""`num_rollouts: auto` beside fixed n, from the runs of `compare/arithmetic`."""

from pathlib import Path

import numpy as np
from scipy.stats import bootstrap

from podsrl.evaluation.comparison import Comparison
from podsrl.evaluation.records import RunFolder

#: Arms of a fixed n, m = 16.
FIXED = {"grpo": 16, "n32": 32, "pods": 64, "n128": 128}


def as_markdown(comparison: Comparison, folder: Path) -> str:
    """Accuracy over the time that each arm had, and what auto chose.

    Mean accuracy over all evaluations but the first is what a run learned early and late; one
    evaluation is noisier than the arms differ.
    """
    areas = {
        arm: np.nanmean(comparison.arm(arm).curves.accuracy[:, 1:], axis=1)
        for arm in (*FIXED, "auto")
    }
    best = max(FIXED, key=lambda arm: float(areas[arm].mean()))
    lines = [
        "## `num_rollouts: auto` beside fixed n\n",
        "Mean accuracy over the evaluations of a run, which is how much it learned and how soon.\n",
        "| arm | n | mean accuracy | by seed |",
        "|---|---|---|---|",
    ]
    for arm, area in areas.items():
        n = FIXED.get(arm) or f"auto: {', '.join(map(str, chosen(folder)))}"
        by_seed = ", ".join(f"{value:.1%}" for value in area)
        lines.append(f"| {arm} | {n} | {area.mean():.1%} | {by_seed} |")
    lines.append("")
    for arm in dict.fromkeys((best, "pods")):
        difference = areas["auto"] - areas[arm]
        low, high = bootstrap((difference,), np.mean, rng=0).confidence_interval
        lines.append(
            f"auto less {arm} (n = {FIXED[arm]}): {difference.mean():+.1%}, 95 % interval"
            f" {low:+.1%} to {high:+.1%} over seeds.\n"
        )
    return "\n".join(lines)


def chosen(folder: Path) -> list[int]:
    """The n that each seed of auto settled on."""
    found = []
    for path in sorted((folder / "auto").glob("seed-*/")):
        sizes = [row["pods/num_rollouts"] for row in RunFolder(path).metrics()]
        found.append(int(sizes[-1]))
    return found
