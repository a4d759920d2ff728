"""The curves of the authors' runs, kept in results/published.json: accuracy over time and steps."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.published.result_files import read_published
from podslab.statistics.curves import ArmCurves, Floats
from podsrl.rollout_log.files import write_json

SOURCE = "github.com/YixuanEvenXu/pods, results/ (Apache-2.0), commit 187f43b648f6"


#: What the result files of one GPU count, beside what the paper counts.
MEASURES = ("answer_accuracy", "format_accuracy", "both_accuracy")
#: By the title of the comparison and the arm.
Kept = dict[str, dict[str, ArmCurves]]


def keep(folder: str | Path, file: str | Path) -> None:
    """Write what a folder of result files holds of each run: seconds, steps and accuracies."""
    kept: dict[str, dict[str, Any]] = {}
    for comparison in read_published(folder):
        kept[comparison.title] = {arm.name: _plain(arm.curves) for arm in comparison.arms}

    measures: dict[str, dict[str, Any]] = {}
    for measure in MEASURES:
        measures[measure] = {}
        for comparison in read_published(folder, measure):
            accuracies = {arm.name: _rounded(arm.curves.accuracy) for arm in comparison.arms}
            measures[measure][comparison.title] = accuracies
    write_json(Path(file), {"source": SOURCE, "comparisons": kept, "measures": measures})


def read_kept(file: Path, measure: str | None = None) -> Kept:
    """The curves that `keep` wrote.

    Args:
        file: Where.
        measure: One of `MEASURES` in place of what the paper counts; then the runs on one GPU
            alone.
    """
    kept = json.loads(file.read_text(encoding="utf-8"))
    comparisons: Kept = {}
    for title, arms in kept["comparisons"].items():
        if measure is None:
            comparisons[title] = {name: _curves(name, arm) for name, arm in arms.items()}
        elif title in kept["measures"][measure]:
            accuracies = kept["measures"][measure][title]
            comparisons[title] = {
                name: _curves(name, {**arm, "accuracy": accuracies[name]})
                for name, arm in arms.items()
            }
    return comparisons


def _plain(curves: ArmCurves) -> dict[str, Any]:
    return {
        "seeds": list(curves.seeds),
        "seconds": _rounded(curves.seconds),
        "steps": _rounded(curves.steps),
        "accuracy": _rounded(curves.accuracy),
        "answers": _rounded(curves.answers),
    }


def _rounded(values_S_T: Floats) -> list[list[float | None]]:
    """The values as JSON holds them: None for NaN."""
    rows = []
    for values_T in values_S_T:
        rows.append([None if np.isnan(value) else round(float(value), 6) for value in values_T])
    return rows


def _curves(name: str, arm: Mapping[str, Any]) -> ArmCurves:
    seconds = np.array(arm["seconds"], dtype=float)
    unknown = np.full_like(seconds, np.nan)
    return ArmCurves(
        arm=name,
        seeds=tuple(arm["seeds"]),
        steps=np.array(arm["steps"], dtype=float),
        seconds=seconds,
        generated=unknown,
        trained=unknown,
        accuracy=np.array(arm["accuracy"], dtype=float),
        length=unknown,
        answers=np.array(arm["answers"], dtype=float),
    )
