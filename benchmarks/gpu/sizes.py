"""The sizes of everything on a GPU, and of a trial on a CPU; and how the time is shared out."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from benchmarks.small_model import SMALL
from podslab.models.tiny import TinySettings


@dataclass(frozen=True)
class Size:
    """What to build and how to compare.

    Attributes:
        model: The model and its warm start.
        warm_share: The largest share of the whole time that the warm start may take.
        prompts: The prompts per step of GRPO and PODS.
        n, m: The rollouts generated and kept of each.
        learning_rate: The learning rate of all arms.
        problems: The problems of an evaluation.
        evaluations: The evaluations of a run after the first.
        least, most: The training seconds of a run.
        seeds: The seeds at most.
    """

    model: TinySettings
    warm_share: float
    prompts: int
    n: int
    m: int
    learning_rate: float
    problems: int
    evaluations: int
    least: float
    most: float
    seeds: int


GPU = Size(
    model=TinySettings(
        min_columns=4,
        max_columns=10,
        noise=0.2,
        steps=1200,
        batch_size=256,
        learning_rate=1e-3,
        warmup_steps=50,
        hidden_size=512,
        intermediate_size=2048,
        layers=8,
        heads=8,
        key_value_heads=4,
        initializer_range=0.03,
    ),
    warm_share=0.16,
    prompts=32,
    n=64,
    m=16,
    learning_rate=1e-4,
    problems=512,
    evaluations=5,
    least=30.0,
    most=100.0,
    seeds=4,
)

SMOKE = Size(
    model=replace(SMALL, max_columns=3, steps=60, batch_size=32),
    warm_share=0.25,
    prompts=2,
    n=16,
    m=4,
    learning_rate=1e-4,
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
