"""The sizes of everything on a GPU, and of a trial on a CPU; and how the time is shared out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from benchmarks.small_model import SMALL


@dataclass(frozen=True)
class Size:
    """What to train and how to compare.

    Attributes:
        config: What the laboratory calls the settings that all arms share.
        settings: What differs from them.
        rows: The rows of an update.
        problems: The problems of an evaluation.
        evaluations: The evaluations of a run after the first.
        least, most: The training seconds of a run.
        seeds: The seeds at most.
    """

    config: str
    settings: Mapping[str, Any]
    rows: int
    problems: int
    evaluations: int
    least: float
    most: float
    seeds: int


GPU = Size(
    config="numbers",
    settings={"model_name_or_path": "smollm2", "dtype": "float32"},
    rows=64,
    problems=512,
    evaluations=5,
    least=30.0,
    most=100.0,
    seeds=4,
)

SMOKE = Size(
    config="arithmetic",
    settings={
        "model_name_or_path": "tiny",
        "tiny_options": asdict(replace(SMALL, max_columns=3, steps=60, batch_size=32)),
        "task_options": {"min_columns": 2, "max_columns": 3, "test_size": 16},
        "max_completion_length": 48,
    },
    rows=16,
    problems=16,
    evaluations=1,
    least=1.0,
    most=2.0,
    seeds=1,
)


class Plan(NamedTuple):
    """The number of seeds of every arm, and the training seconds of each run."""

    seeds: int
    training_seconds: float


def share_out(
    seconds: float, arms: int, overhead: float, least: float, most: float, seeds: int
) -> Plan:
    """As many seeds as leave every run `least` seconds of training; Plan(0, 0.0) if none fits.

    Args:
        seconds: The seconds for all runs.
        arms: The number of runs of a seed.
        overhead: The seconds of a run outside its training: loading and evaluations.
        least, most: The training seconds of a run.
        seeds: No more seeds than this.

    >>> share_out(390.0, arms=3, overhead=12.0, least=40.0, most=90.0, seeds=3)
    Plan(seeds=2, training_seconds=53.0)
    """
    for count in range(seeds, 0, -1):
        each = seconds / (arms * count) - overhead
        if each >= least:
            return Plan(count, min(each, most))
    return Plan(0, 0.0)
