"""The runs under results/methods, by series: those of one go, on one kind of machine.

A series is a folder, results/methods/SETTING/DATE-COMMIT: the day on which its runs were put into
the repository, and the commit of the code that made most of them. Raw files are never changed.
Where a field has another name today, it is translated here, and nowhere else.

The code that made these runs is in the history: commit ea5bc44a has all of it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from podslab.report.curves import ArmCurves
from podslab.report.statistics import Speedup, mean_over_seeds, speed_up
from podslab.report.summary import interval, speed

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
METHODS = RESULTS / "methods"

Run = Mapping[str, Any]
Runs = Sequence[Run]

#: Fields of an arm that have another name today.
_RENAMED = {"skip_fillers": "skip_zero_advantage"}
#: Curves are cut a little after their end: an evaluation waits for its step to finish.
_GRACE = 1.02


@dataclass(frozen=True)
class Series:
    """The runs of one go.

    Args:
        setting: The model and the questions.
        name: The day, and the commit of the code.
        by_method: The runs of each method, in the order of their seeds.
    """

    setting: str
    name: str
    by_method: Mapping[str, Runs]

    @property
    def runs(self) -> list[Run]:
        """All runs."""
        return [run for runs in self.by_method.values() for run in runs]

    @cached_property
    def seconds(self) -> float:
        """The training time that every run of the series lasted at least."""
        return min(float(run["curve"]["seconds"][-1]) for run in self.runs)

    @cached_property
    def evaluations(self) -> int:
        """How often the run with the fewest evaluations was evaluated, the start left out."""
        return min(len(run["curve"]["seconds"]) for run in self.runs) - 1

    def accuracies(self, method: str) -> npt.NDArray[np.float64]:
        """Accuracies at equal times, shape (seeds, 1 + evaluations); the first is the start."""
        times = np.linspace(0.0, self.seconds, self.evaluations + 1)
        return np.array([accuracy_at(run, times) for run in self.by_method[method]])

    def over_run(self, method: str) -> float:
        """The mean accuracy over the run and the seeds, without the start."""
        return float(self.accuracies(method)[:, 1:].mean())

    def end(self, method: str) -> float:
        """The mean accuracy at the time that every run of the series lasted."""
        return float(self.accuracies(method)[:, -1].mean())

    def grpos(self) -> list[str]:
        """The methods that train on all that they generate, as GRPO and 2-GRPO do."""
        return [method for method, runs in self.by_method.items() if is_grpo(runs[0]["arm"])]

    def best_grpo(self) -> str | None:
        """The GRPO that had most right over the run; None where the series has none."""
        return max(self.grpos(), key=self.over_run, default=None)


def read_run(file: Path) -> dict[str, Any]:
    """A run as today's code names its fields."""
    run = dict(json.loads(file.read_text(encoding="utf-8")))
    if "arm" in run:
        run["arm"] = {_RENAMED.get(name, name): value for name, value in run["arm"].items()}
    return run


def read_series(folder: Path) -> Series:
    """The series of a folder."""
    by_method: dict[str, list[Run]] = {}
    for file in sorted(folder.glob("*-[0-9]*.json")):
        run = read_run(file)
        by_method.setdefault(run["method"], []).append(run)
    return Series(folder.parent.name, folder.name, by_method)


def all_series(methods: Path = METHODS) -> Iterator[Series]:
    """Every series, by setting and day."""
    for folder in sorted(methods.glob("*/20*")):
        if folder.is_dir():
            yield read_series(folder)


def is_grpo(arm: Mapping[str, Any]) -> bool:
    """Whether what is generated is trained on, as in GRPO and 2-GRPO, by any choice of passes."""
    trains_on_all = arm["num_rollouts"] == arm["num_generations"]
    return bool(trains_on_all) and "prompt_selection" not in arm


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


def times_as_fast(reference: Runs, method: Runs) -> Speedup:
    """How much sooner the runs of a method reach the level of those of a reference."""
    return speed_up(
        curves(reference[0]["method"], reference),
        curves(method[0]["method"], method),
    )


def equally_long(reference: ArmCurves, arm: ArmCurves) -> tuple[ArmCurves, ArmCurves]:
    """The curves up to the time that both last."""
    end = min(_end(reference), _end(arm))
    return _cut(reference, end), _cut(arm, end)


def _end(arm: ArmCurves) -> float:
    return float(np.nanmax(mean_over_seeds(arm.seconds)))


def _cut(arm: ArmCurves, end: float) -> ArmCurves:
    """The same curves, without what was measured after `end` seconds."""
    is_late_T = mean_over_seeds(arm.seconds) > end * _GRACE
    return replace(
        arm,
        seconds=np.where(is_late_T, np.nan, arm.seconds),
        accuracy=np.where(is_late_T, np.nan, arm.accuracy),
    )


def with_interval(speedup: Speedup) -> str:
    """A speed-up with its interval over seeds, or why there is none."""
    if not speedup.ratio:
        return speed(speedup)
    return f"{speed(speedup)} ({interval(speedup)})"
