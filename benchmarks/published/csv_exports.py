"""The authors' exports of their multi-GPU evaluation curves: `<machine>-acc.csv`."""

import csv
import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from podslab.report.curves import ArmCurves, Floats
from podslab.report.load_runs import Arm, Comparison
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

Key = tuple[int, int, int, int]  # n, m, accumulation steps, seed
Series = dict[Key, dict[str, tuple[Floats, Floats]]]  # column -> times, values


def read_multi_gpu(path: Path) -> Comparison:
    """GRPO-GA (n = m) against PODS (n > m): an accuracy export and the length export beside it.

    Raises:
        InvalidInputError: a damaged file, a missing length export, or only one of the two arms.
    """
    machine = path.name.removesuffix("-acc.csv")
    lengths_path = path.with_name(f"{machine}-length.csv")
    if not lengths_path.is_file():
        raise InvalidInputError(f"no file {lengths_path}, which belongs to {path.name}")
    accuracies, lengths = _read(path, _ACCURACY), _read(lengths_path, _LENGTH)
    runs: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for *arm, seed in sorted(set(accuracies) & set(lengths)):
        runs[arm[0], arm[1], arm[2]].append(seed)
    arms = []
    for n, m, accumulation in sorted(runs, key=lambda key: (key[0] > key[1], key)):
        keys = [(n, m, accumulation, seed) for seed in runs[n, m, accumulation]]
        curves = _curves("grpo_ga" if n == m else "pods", keys, accuracies, lengths)
        config = {
            "num_rollouts": n,
            "num_generations": m,
            "gradient_accumulation_steps": accumulation,
        }
        arms.append(Arm(curves, config))
    if [arm.name for arm in arms] != ["grpo_ga", "pods"]:
        raise InvalidInputError(
            f"{path} must hold runs of two arms, n = m and n > m; got"
            f" {', '.join(f'n = {n}, m = {m}, accumulation {ga}' for n, m, ga in runs) or 'none'}"
        )
    return Comparison(
        title=_TITLES.get(machine, f"GSM8K, {machine}"),
        measure="answer_accuracy",
        arms=tuple(arms),
        references=("grpo_ga",),
        base="unknown",
        notes=("every curve is read at the recorded point nearest to 0, 2, ..., 30 minutes",),
    )


def _curves(arm: str, keys: list[Key], accuracies: Series, lengths: Series) -> ArmCurves:
    def table(series: Series, what: str) -> Floats:
        return np.array([_nearest(*series[key][what]) for key in keys])

    unknown = np.full((len(keys), len(MINUTES)), np.nan)
    return ArmCurves(
        arm=arm,
        seeds=tuple(key[3] for key in keys),
        steps=table(accuracies, "_step") / keys[0][2],  # they count micro-steps
        seconds=np.tile(60.0 * MINUTES, (len(keys), 1)),
        generated=unknown,
        trained=unknown,
        accuracy=table(accuracies, _ACCURACY),
        length=table(lengths, _LENGTH),
        answers=unknown,
    )


def _nearest(seconds: Floats, values: Floats) -> Floats:
    return values[np.abs(seconds[None, :] / 60.0 - MINUTES[:, None]).argmin(axis=1)]


def _read(path: Path, what: str) -> Series:
    """The series of each run in an export that has both its steps and `what`."""
    points: dict[Key, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        header = next(rows, [])
        columns = {i: m for i, name in enumerate(header) if (m := _COLUMN.fullmatch(name))}
        if not columns or header[0] != _TIME:
            raise InvalidInputError(
                f"{path} is damaged or no export of evaluation curves: its first column must be"
                f" {_TIME}, and others data/<run> - {what}"
            )
        for number, row in enumerate(rows, start=2):
            try:
                if len(row) != len(header):
                    raise ValueError(f"{len(row)} cells for {len(header)} columns")
                filled = [(match, float(row[i])) for i, match in columns.items() if row[i]]
                seconds = float(row[0])
            except ValueError as error:
                raise InvalidInputError(f"{path}, line {number} is damaged: {error}") from error
            for match, value in filled:
                key = (int(match["n"]), int(match["m"]), int(match["ga"]), int(match["seed"]))
                points[key][match["what"]].append((seconds, value))
    return {
        key: {name: _series(found) for name, found in series.items()}
        for key, series in points.items()
        if {"_step", what} <= set(series)
    }


def _series(points: list[tuple[float, float]]) -> tuple[Floats, Floats]:
    array = np.array(sorted(points))
    return array[:, 0], array[:, 1]
