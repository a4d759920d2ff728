"""The curves of runs whose JSON files are in results/paper/runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from podslab.statistics.curves import ArmCurves

Run = Mapping[str, Any]
Runs = Sequence[Run]


def accuracy_at(run: Run, times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The accuracy of a run at these seconds, between evaluations on a straight line."""
    curve = run["curve"]
    return np.asarray(np.interp(times, curve["seconds"], curve["accuracy"]))


def curves(arm: str, runs: Runs) -> ArmCurves:
    """The curves of an arm's runs; a run that was evaluated less often ends with NaN."""
    longest = max(len(run["curve"]["steps"]) for run in runs)

    stacked: dict[str, Any] = {}
    for name in runs[0]["curve"]:
        values_S_T = np.full((len(runs), longest), np.nan)
        for values_T, run in zip(values_S_T, runs, strict=True):
            measured = run["curve"][name]
            values_T[: len(measured)] = measured
        stacked[name] = values_S_T

    return ArmCurves(
        arm=arm,
        seeds=tuple(run["seed"] for run in runs),
        length=np.full_like(stacked["steps"], np.nan),
        **stacked,
    )
