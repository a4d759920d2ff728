"""The authors' published results (github.com/YixuanEvenXu/pods, folder results/).

Two layouts. Single-GPU runs: `<setting>-Run<k>.json` holds, for every checkpoint and dataset, five
repeats of the accuracies and lengths; `base-qwen.json` and `base-llama.json` hold the untrained
models. Multi-GPU runs: `<machine>-acc.csv` and `<machine>-length.csv` are exports of evaluation
curves. Which settings make up which figure is from their scripts/plot*.py.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.published.csv_exports import read_multi_gpu
from podslab.report.load_runs import Arm, Comparison
from podslab.statistics.curves import ArmCurves
from podsrl.errors import InvalidInputError

_RUN = re.compile(r"(?P<setting>.+-(?P<n>\d+)-(?P<m>\d+)(-\d*\.\d+)?)-Run(?P<run>\d+)")
#: What is counted, and its key in the files.
_MEASURES = {
    "answer_accuracy": "ans_acc",
    "format_accuracy": "for_acc",
    "both_accuracy": "both_acc",
}
#: Problems of each dataset, all asked in every repeat.
_PROBLEMS = {"gsm8k": 1319, "math500": 496, "amc23": 40}
_REPEATS = 5
_GSM8K = "Instruct-GSM8K-512-{}-{}"


class Checkpoint(NamedTuple):
    """The results of one checkpoint, on average over its repeats."""

    accuracy: float
    length: float


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper.

    Args:
        title: The heading.
        arms: The setting of each arm, the reference first.
        dataset: The key in the result files.
        measure: What is counted as right.
        base: The file of the untrained model.
        interval: The seconds between two checkpoints.
        longest: The seconds of the training that is shown.
    """

    title: str
    arms: Mapping[str, str]
    dataset: str = "gsm8k"
    measure: str = "answer_accuracy"
    base: str = "base-qwen.json"
    interval: float = 1800.0
    longest: float = 6 * 3600.0


EXPERIMENTS = (
    Experiment(
        "GSM8K, Qwen2.5-3B-Instruct, one L40S",
        {"grpo": _GSM8K.format(16, 16), "pods": _GSM8K.format(64, 16)},
    ),
    Experiment(
        "MATH, Qwen2.5-3B-Instruct, one L40S",
        {"grpo": "Instruct-MATH-NF-512-8-8", "pods": "Instruct-MATH-NF-512-32-8"},
        dataset="math500",
    ),
    Experiment(
        "GSM8K, Llama-3.2-3B-Instruct, one L40S",
        {"grpo": "Instruct-Llama-512-16-16-0.04", "pods": "Instruct-Llama-512-64-16-0.04"},
        measure="both_accuracy",
        base="base-llama.json",
        interval=600.0,
        longest=1.5 * 3600.0,
    ),
    Experiment(
        "GSM8K, rollouts generated n, with m = 16",
        {f"n = {n}": _GSM8K.format(n, 16) for n in (16, 32, 64, 128, 256)},
    ),
    Experiment(
        "GSM8K, rollouts kept m, with n = 64",
        {f"m = {m}": _GSM8K.format(64, m) for m in (16, 8, 4, 2)},
    ),
    Experiment(
        "GSM8K, rules, n = 64, m = 16",
        {
            "max_variance": _GSM8K.format(64, 16),
            "max_reward": "Instruct-GSM8K-MaxR-512-64-16",
            "random": "Instruct-GSM8K-Rand-512-64-16",
        },
    ),
)


def read_published(folder: str | Path, measure: str | None = None) -> list[Comparison]:
    """The comparisons that a folder of result files holds, as the authors publish them.

    An experiment of `EXPERIMENTS` is reported if its reference and another arm are there, and if it
    adds an arm to those before. Settings of no experiment are left out.

    Args:
        folder: It holds the result files.
        measure: What is counted, in place of what the paper counts in each experiment. The exports
            of several GPUs hold one measure alone, and are then left out.

    Raises:
        InvalidInputError: no results, or a damaged file; the message names it.
    """
    folder = Path(folder)
    settings = _files_of_settings(folder)
    comparisons = []
    for experiment in _chosen(settings):
        counted = replace(experiment, measure=measure or experiment.measure)
        comparisons.append(_single_gpu(folder, counted, settings))
    if measure is None:
        comparisons += [read_multi_gpu(path) for path in sorted(folder.glob("*-acc.csv"))]
    if not comparisons:
        alone = f" to compare ({', '.join(sorted(settings))} alone)" if settings else ""
        raise InvalidInputError(
            f"no published results{alone} in {folder}: expected <setting>-Run<k>.json files of at"
            " least two settings that the paper compares, or <machine>-acc.csv"
        )

    absent = []
    for experiment in EXPERIMENTS:
        is_complete = set(experiment.arms.values()) <= set(settings)
        if "pods" in experiment.arms and not is_complete:
            absent.append(experiment.title)
    if absent:
        note = f"not in {folder}, so nothing is said of them here: {'; '.join(absent)}"
        comparisons[0] = replace(comparisons[0], notes=(*comparisons[0].notes, note))
    return comparisons


def _files_of_settings(folder: Path) -> dict[str, dict[int, Path]]:
    """The files of each setting, by the number of their run."""
    settings: dict[str, dict[int, Path]] = defaultdict(dict)
    for path in sorted(folder.glob("*-Run*.json")):
        match = _RUN.fullmatch(path.stem)
        if match is None:
            raise InvalidInputError(
                f"{path}: the name is not <family>-<n>-<m>-Run<k>.json (with the KL weight after m,"
                " if any), as the authors name their results; rename or remove it"
            )
        settings[match["setting"]][int(match["run"])] = path
    return settings


def _chosen(settings: Mapping[str, Any]) -> Iterator[Experiment]:
    """The experiments of which the reference and another arm are there, each setting shown once."""
    shown: list[set[str]] = []
    for experiment in EXPERIMENTS:
        there = set(experiment.arms.values()) & set(settings)
        reference = next(iter(experiment.arms.values()))
        can_be_compared = reference in there and len(there) > 1
        is_shown_already = any(there <= others for others in shown)
        if can_be_compared and not is_shown_already:
            shown.append(there)
            yield experiment


def _parts(setting: str) -> dict[str, str]:
    match = _RUN.fullmatch(f"{setting}-Run0")
    assert match is not None  # settings are made by the same expression
    return match.groupdict()


def _single_gpu(
    folder: Path, experiment: Experiment, settings: Mapping[str, Mapping[int, Path]]
) -> Comparison:
    base, notes = _base(folder / experiment.base, experiment)

    arms = []
    for name, setting in experiment.arms.items():
        if setting not in settings:
            notes.append(f"no results of {setting}, so {name} is not shown")
            continue

        curves = _curves(
            name=name,
            setting=setting,
            paths=settings[setting],
            experiment=experiment,
            base=base,
            notes=notes,
        )
        parts = _parts(setting)
        config = {"setting": setting, "num_rollouts": parts["n"], "num_generations": parts["m"]}
        arms.append(Arm(curves, config))

    return Comparison(
        title=experiment.title,
        measure=experiment.measure,
        arms=tuple(arms),
        references=(arms[0].name,),
        base="unknown" if base is None else "shared",
        notes=tuple(notes),
    )


def _base(path: Path, experiment: Experiment) -> tuple[Checkpoint | None, list[str]]:
    """The results of the untrained model; where they are not there, a note instead."""
    if not path.is_file():
        return None, [f"{path} is missing, so the untrained model is not shown"]
    block = _read(path)
    if experiment.dataset not in block:
        return None, [f"{path} has no {experiment.dataset}, so the untrained model is not shown"]
    return _checkpoint(path, block, experiment), []


def _curves(
    name: str,
    setting: str,
    paths: Mapping[int, Path],
    experiment: Experiment,
    base: Checkpoint | None,
    notes: list[str],
) -> ArmCurves:
    """The curves of a setting's runs; what is missing is added to the notes.

    Checkpoint i, from 0, was written after (i + 1) x interval; some runs may have fewer. The first
    point is the untrained model, where it is known.
    """
    points = round(experiment.longest / experiment.interval)
    seeds = tuple(sorted(paths))
    shape = (len(seeds), points + 1)
    steps_S_T = np.full(shape, np.nan)
    accuracy_S_T = np.full(shape, np.nan)
    length_S_T = np.full(shape, np.nan)
    if base is not None:
        steps_S_T[:, 0] = 0.0
        accuracy_S_T[:, 0] = base.accuracy
        length_S_T[:, 0] = base.length

    for row, seed in enumerate(seeds):
        path = paths[seed]
        block_of_step = {_step(path, key): block for key, block in _read(path).items()}
        steps = sorted(block_of_step)
        if len(steps) < points:
            notes.append(f"{path} has {len(steps)} checkpoints of {points}")
        for point, step in enumerate(steps[:points], start=1):
            checkpoint = _checkpoint(path, block_of_step[step], experiment)
            steps_S_T[row, point] = step
            accuracy_S_T[row, point] = checkpoint.accuracy
            length_S_T[row, point] = checkpoint.length

    seconds_T = experiment.interval * np.arange(points + 1)
    seconds_S_T = np.where(np.isnan(steps_S_T), np.nan, seconds_T)
    answers = _REPEATS * _PROBLEMS.get(experiment.dataset, np.nan)

    known = slice(1 if base is None else 0, None)
    parts = _parts(setting)
    return ArmCurves(
        arm=name,
        seeds=seeds,
        steps=steps_S_T[:, known],
        seconds=seconds_S_T[:, known],
        generated=steps_S_T[:, known] * int(parts["n"]),  # one prompt per step
        trained=steps_S_T[:, known] * int(parts["m"]),
        accuracy=accuracy_S_T[:, known],
        length=length_S_T[:, known],
        answers=np.full(shape, answers)[:, known],
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InvalidInputError(
            f"{path} is damaged: not JSON ({error}); fetch it again, or remove it to go on without"
        ) from error
    if not isinstance(value, dict) or not all(isinstance(block, dict) for block in value.values()):
        raise InvalidInputError(f"{path} is damaged: not an object of objects; fetch it again")
    return value


def _step(path: Path, key: str) -> int:
    name, _, number = key.rpartition("-")
    if name != "checkpoint" or not number.isdigit():
        raise InvalidInputError(f"{path} is damaged: {key!r} is not checkpoint-<step>")
    return int(number)


def _checkpoint(path: Path, block: Mapping[str, Any], experiment: Experiment) -> Checkpoint:
    return Checkpoint(
        accuracy=_mean_of_repeats(path, block, experiment, _MEASURES[experiment.measure]),
        length=_mean_of_repeats(path, block, experiment, "lengths"),
    )


def _mean_of_repeats(
    path: Path, block: Mapping[str, Any], experiment: Experiment, key: str
) -> float:
    values = block.get(experiment.dataset, {})
    try:
        repeats = [float(value) for value in values[key]]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{path} is damaged: no numbers {experiment.dataset}/{key} ({error!r}); fetch it"
            " again, or remove it to go on without"
        ) from error

    if len(repeats) != _REPEATS or not np.isfinite(repeats).all():
        raise InvalidInputError(
            f"{path} is damaged: {experiment.dataset}/{key} has {repeats} in place of {_REPEATS}"
            " finite numbers; fetch it again, or remove it to go on without"
        )
    return float(np.mean(repeats))
