"""The curves of the authors' runs, kept in results/published.json: accuracy over time, no more."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from podslab.report.curves import ArmCurves
from podslab.report.load_runs import Comparison
from podsrl.rollout_log.files import write_json

SOURCE = "github.com/YixuanEvenXu/pods, results/ (Apache-2.0), commit 187f43b648f6"


def keep(comparisons: Sequence[Comparison], file: str | Path) -> None:
    """Write what the comparisons hold of each run: its seconds and its accuracies."""
    kept = {
        one.title: {arm.curves.arm: _plain(arm.curves) for arm in one.arms} for one in comparisons
    }
    write_json(Path(file), {"source": SOURCE, "comparisons": kept})


def read_kept(file: Path) -> dict[str, dict[str, ArmCurves]]:
    """By the title of the comparison and the arm, the curves that `keep` wrote."""
    kept = json.loads(file.read_text(encoding="utf-8"))["comparisons"]
    return {
        title: {name: _curves(name, arm) for name, arm in arms.items()}
        for title, arms in kept.items()
    }


def _plain(curves: ArmCurves) -> dict[str, Any]:
    def rounded(values: Any) -> list[list[float | None]]:
        return [[None if np.isnan(one) else round(float(one), 6) for one in row] for row in values]

    return {
        "seeds": list(curves.seeds),
        "seconds": rounded(curves.seconds),
        "accuracy": rounded(curves.accuracy),
        "answers": rounded(curves.answers),
    }


def _curves(name: str, arm: Mapping[str, Any]) -> ArmCurves:
    fields = {key: np.array(arm[key], dtype=float) for key in ("seconds", "accuracy", "answers")}
    unknown = np.full_like(fields["seconds"], np.nan)
    return ArmCurves(
        arm=name,
        seeds=tuple(arm["seeds"]),
        steps=unknown,
        generated=unknown,
        trained=unknown,
        length=unknown,
        **fields,
    )
