"""The curves of the authors' runs, kept in results/published.json: accuracy over time, no more."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from podslab.report.load_runs import Comparison
from podslab.statistics.curves import ArmCurves, Floats
from podsrl.rollout_log.files import write_json

SOURCE = "github.com/YixuanEvenXu/pods, results/ (Apache-2.0), commit 187f43b648f6"


def keep(comparisons: Sequence[Comparison], file: str | Path) -> None:
    """Write what the comparisons hold of each run: its seconds and its accuracies."""
    kept = {}
    for comparison in comparisons:
        arms = {arm.curves.arm: _plain(arm.curves) for arm in comparison.arms}
        kept[comparison.title] = arms
    write_json(Path(file), {"source": SOURCE, "comparisons": kept})


def read_kept(file: Path) -> dict[str, dict[str, ArmCurves]]:
    """By the title of the comparison and the arm, the curves that `keep` wrote."""
    kept = json.loads(file.read_text(encoding="utf-8"))["comparisons"]
    comparisons = {}
    for title, arms in kept.items():
        comparisons[title] = {name: _curves(name, arm) for name, arm in arms.items()}
    return comparisons


def _plain(curves: ArmCurves) -> dict[str, Any]:
    return {
        "seeds": list(curves.seeds),
        "seconds": _rounded(curves.seconds),
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
        steps=unknown,
        seconds=seconds,
        generated=unknown,
        trained=unknown,
        accuracy=np.array(arm["accuracy"], dtype=float),
        length=unknown,
        answers=np.array(arm["answers"], dtype=float),
    )
