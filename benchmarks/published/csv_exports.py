"""The authors' exports of their multi-GPU evaluation curves: `<machine>-acc.csv`."""

import csv
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from podslab.report.load_runs import Arm, Comparison
from podslab.statistics.curves import ArmCurves, Floats
from podsrl.errors import InvalidInputError

#: The authors read every curve at the recorded point nearest to 0, 2, ..., 30 minutes.
MINUTES = np.arange(0.0, 31.0, 2.0)
_TITLES = {
    "h100s": "GSM8K, Qwen2.5-3B-Instruct, full parameters, 8 H100s",
    "a100s": "GSM8K, Qwen2.5-7B-Instruct, full parameters, 8 A100s",
}
_COLUMN = re.compile(
    r"data/\w+-s(?P<seed>\d+)-p\d+-n(?P<n>\d+)-m(?P<m>\d+)-ga(?P<ga>\d+)"
    r" - (?P<what>_step|eval/rewards/accuracy_reward/mean|eval/completions/mean_length)"
)
_TIME = "eval/time"
_ACCURACY = "eval/rewards/accuracy_reward/mean"
_LENGTH = "eval/completions/mean_length"


class ArmKey(NamedTuple):
    """The settings that the runs of one arm have in common."""

    n: int
    m: int
    accumulation: int

    def __str__(self) -> str:
        return f"n = {self.n}, m = {self.m}, accumulation {self.accumulation}"


class RunKey(NamedTuple):
    """One run: its arm, and its seed."""

    arm: ArmKey
    seed: int


#: Times and values of a column of an export.
Column = tuple[Floats, Floats]
#: The columns of each run, by their names.
Columns = dict[RunKey, dict[str, Column]]


def read_multi_gpu(path: Path) -> Comparison:
    """GRPO-GA (n = m) against PODS (n > m): an accuracy export and the length export beside it.

    Raises:
        InvalidInputError: a damaged file, a missing length export, or only one of the two arms.
    """
    machine = path.name.removesuffix("-acc.csv")
    lengths_path = path.with_name(f"{machine}-length.csv")
    if not lengths_path.is_file():
        raise InvalidInputError(f"no file {lengths_path}, which belongs to {path.name}")
    accuracies = _read(path, _ACCURACY)
    lengths = _read(lengths_path, _LENGTH)

    runs_of_arm: dict[ArmKey, list[RunKey]] = defaultdict(list)
    for run in sorted(set(accuracies) & set(lengths)):
        runs_of_arm[run.arm].append(run)
    grpo_ga = [arm for arm in runs_of_arm if arm.n == arm.m]
    pods = [arm for arm in runs_of_arm if arm.n > arm.m]
    if len(grpo_ga) != 1 or len(pods) != 1 or len(runs_of_arm) != 2:
        found = "; ".join(map(str, runs_of_arm)) or "none"
        raise InvalidInputError(f"{path} must hold runs of two arms, n = m and n > m; got {found}")

    arms = []
    for name, key in (("grpo_ga", grpo_ga[0]), ("pods", pods[0])):
        curves = _curves(name, runs_of_arm[key], accuracies, lengths)
        config = {
            "num_rollouts": key.n,
            "num_generations": key.m,
            "gradient_accumulation_steps": key.accumulation,
        }
        arms.append(Arm(curves, config))
    return Comparison(
        title=_TITLES.get(machine, f"GSM8K, {machine}"),
        measure="answer_accuracy",
        arms=tuple(arms),
        references=("grpo_ga",),
        base="unknown",
        notes=("every curve is read at the recorded point nearest to 0, 2, ..., 30 minutes",),
    )


def _curves(arm: str, runs: list[RunKey], accuracies: Columns, lengths: Columns) -> ArmCurves:
    """The curves of an arm's runs at `MINUTES`."""
    micro_steps = np.array([_at_minutes(accuracies[run]["_step"]) for run in runs])
    accuracy = np.array([_at_minutes(accuracies[run][_ACCURACY]) for run in runs])
    length = np.array([_at_minutes(lengths[run][_LENGTH]) for run in runs])
    unknown = np.full((len(runs), len(MINUTES)), np.nan)
    return ArmCurves(
        arm=arm,
        seeds=tuple(run.seed for run in runs),
        steps=micro_steps / runs[0].arm.accumulation,
        seconds=np.tile(60.0 * MINUTES, (len(runs), 1)),
        generated=unknown,
        trained=unknown,
        accuracy=accuracy,
        length=length,
        answers=unknown,
    )


def _at_minutes(column: Column) -> Floats:
    """The values that were recorded nearest to `MINUTES`."""
    seconds, values = column
    distances = np.abs(seconds[None, :] / 60.0 - MINUTES[:, None])
    return values[distances.argmin(axis=1)]


def _read(path: Path, what: str) -> Columns:
    """The columns of each run in an export that has both its steps and `what`."""
    points: dict[RunKey, dict[str, list[tuple[float, float]]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        header = next(rows, [])
        names = _names_of_columns(path, header, what)
        for number, row in enumerate(rows, start=2):
            try:
                seconds, value_of_column = _numbers(row, len(header), names)
            except ValueError as error:
                raise InvalidInputError(f"{path}, line {number} is damaged: {error}") from error

            for column, value in value_of_column.items():
                run, name = names[column]
                of_run = points.setdefault(run, {})
                of_run.setdefault(name, []).append((seconds, value))

    columns: Columns = {}
    for run, of_run in points.items():
        if {"_step", what} <= set(of_run):
            columns[run] = {name: _sorted_by_time(found) for name, found in of_run.items()}
    return columns


def _names_of_columns(path: Path, header: list[str], what: str) -> dict[int, tuple[RunKey, str]]:
    """The run and the measure of each column that is read, by its place.

    Raises:
        InvalidInputError: Other columns than an export has, or several of one run, which would mix.
    """
    names: dict[int, tuple[RunKey, str]] = {}
    for place, title in enumerate(header):
        if match := _COLUMN.fullmatch(title):
            arm = ArmKey(n=int(match["n"]), m=int(match["m"]), accumulation=int(match["ga"]))
            run = RunKey(arm, int(match["seed"]))
            name = (run, match["what"])
            if name in names.values():
                raise InvalidInputError(
                    f"{path} has several columns {match['what']} of {arm}, seed {run.seed}: export"
                    " the runs of one model and one number of prompts"
                )
            names[place] = name

    if not names or header[0] != _TIME:
        raise InvalidInputError(
            f"{path} is damaged or no export of evaluation curves: its first column must be"
            f" {_TIME}, and others data/<run> - {what}"
        )
    return names


def _numbers(row: list[str], width: int, places: Iterable[int]) -> tuple[float, dict[int, float]]:
    """The time of a line, and the numbers of the columns at these places that have one.

    Raises:
        ValueError: a cell that is no number, or not `width` of them.
    """
    if len(row) != width:
        raise ValueError(f"{len(row)} cells for {width} columns")
    values = {place: float(row[place]) for place in places if row[place]}
    return float(row[0]), values


def _sorted_by_time(points: list[tuple[float, float]]) -> Column:
    array = np.array(sorted(points))
    return array[:, 0], array[:, 1]
