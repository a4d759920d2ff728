"""The runs under results/methods, by series: those of one go, on one kind of machine.

A series is a folder, results/methods/SETTING/DATE-COMMIT: the day on which its runs were put into
the repository, and the commit of the code that made most of them. Raw files are never changed;
where a field has another name today, it is translated here, and nowhere else.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from podslab.report.curves import ArmCurves

ROOT = Path(__file__).parents[1]
METHODS = ROOT / "results" / "methods"

Run = Mapping[str, Any]
Runs = Sequence[Run]
#: Fields of an arm that have another name today.
_RENAMED = {"skip_fillers": "skip_zero_advantage"}


@dataclass(frozen=True)
class Series:
    """The runs of one go; by_method: those of each method, in the order of their seeds."""

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


def read_run(file: Path) -> dict[str, Any]:
    """A run as today's code names its fields."""
    run = dict(json.loads(file.read_text(encoding="utf-8")))
    if "arm" in run:
        run["arm"] = {_RENAMED.get(name, name): value for name, value in run["arm"].items()}
    return run


def read_series(folder: Path) -> Series:
    """The series of a folder."""
    by_method: dict[str, list[Run]] = {}
    for run in map(read_run, sorted(folder.glob("*-[0-9]*.json"))):
        by_method.setdefault(run["method"], []).append(run)
    return Series(folder.parent.name, folder.name, by_method)


def all_series(methods: Path = METHODS) -> Iterator[Series]:
    """Every series, by setting and day."""
    for folder in sorted(path for path in methods.glob("*/20*") if path.is_dir()):
        yield read_series(folder)


def accuracy_at(run: Run, times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The accuracy of a run at these seconds, between evaluations on a straight line."""
    curve = run["curve"]
    return np.asarray(np.interp(times, curve["seconds"], curve["accuracy"]))


def curves(runs: Runs) -> ArmCurves:
    """The curves of a method's runs."""

    def stacked(name: str) -> Any:
        longest = max(len(run["curve"][name]) for run in runs)
        values = [run["curve"][name] for run in runs]
        return np.array([one + [np.nan] * (longest - len(one)) for one in values], dtype=float)

    fields = {name: stacked(name) for name in runs[0]["curve"]}
    seeds = tuple(run["seed"] for run in runs)
    return ArmCurves(runs[0]["method"], seeds, length=fields["steps"] * np.nan, **fields)


def is_grpo(arm: Mapping[str, Any]) -> bool:
    """Whether what is generated is trained on, as in GRPO and 2-GRPO, by any choice of passes."""
    same = arm["num_rollouts"] == arm["num_generations"]
    return same and "prompt_selection" not in arm
