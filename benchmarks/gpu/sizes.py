"""How large everything is: on a GPU, and for a trial on a CPU."""

from dataclasses import dataclass, replace

from benchmarks.small_model import SMALL
from podslab.models.tiny import TinySettings


@dataclass(frozen=True)
class Size:
    """What to build and how to compare.

    model: and its warm start. warm_share: of the whole time, at most.
    prompts: per step. n, m: rollouts generated and kept of each.
    learning_rate: of all arms. problems: of an evaluation. evaluations: of a run, after the first.
    least, most: training seconds of a run. rounds: seeds of all comparisons together, at most.
    groups, group_sizes: of the selection's timings. repeats: of each timing.
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
    rounds: int
    groups: tuple[int, ...]
    group_sizes: tuple[int, ...]
    repeats: int


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
    least=36.0,
    most=100.0,
    rounds=4,
    groups=(1, 64, 4096),
    group_sizes=(16, 64, 256, 1024),
    repeats=30,
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
    rounds=1,
    groups=(1, 8),
    group_sizes=(16, 64),
    repeats=2,
)
