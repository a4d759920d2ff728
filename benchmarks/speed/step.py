"""A training step by phase: TRL's own trainer, PODS within prompts, and PODS across prompts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.speed.numbers import Limit, Spread, ratio, section, spread
from benchmarks.speed.probe import BOOKKEEPING, PHASES
from benchmarks.speed.trainers import VARIANTS, Setting
from benchmarks.speed.turns import measure_in_turns
from podslab.durations import duration
from podslab.models.tiny import TinySettings
from podslab.models.tiny.settings import SMALL

#: What the update of PODS may take at most, over that of GRPO-GA and over that of GRPO.
UPDATE_OVER_GRPO_GA = 0.30
UPDATE_OVER_GRPO = 1.10
#: Its peak memory over that of GRPO.
MEMORY_OVER_GRPO = 1.10
#: Selecting and all that is no phase, in seconds of a step.
MOST_BOOKKEEPING = 0.03

Turns = Sequence[Mapping[str, float]]


@dataclass(frozen=True)
class Size:
    """The model, prompts x n -> m of a step, and the number of measured rounds."""

    model: TinySettings = field(default_factory=TinySettings)
    prompts: int = 8
    n: int = 64
    m: int = 16
    max_completion_length: int = 64
    variants: tuple[str, ...] = tuple(VARIANTS)
    rounds: int = 5


QUICK = Size(
    model=SMALL,
    prompts=2,
    n=16,
    m=4,
    max_completion_length=32,
    variants=("base", "num_iterations = 2"),
    rounds=2,
)


def settings(size: Size, model: str, variant: str) -> list[Setting]:
    """The arms: the same rows per micro-batch, and per step, except for GRPO-GA."""
    rows_of_pods = size.prompts * size.m
    shared: dict[str, Any] = {
        "model": model,
        "columns": size.model.max_columns,
        "micro_batch": rows_of_pods,
        "max_completion_length": size.max_completion_length,
        "options": VARIANTS[variant],
    }
    return [
        Setting("grpo", rows=rows_of_pods, n=size.m, m=size.m, rule=None, **shared),
        Setting("grpo_ga", rows=size.prompts * size.n, n=size.n, m=size.n, rule=None, **shared),
        Setting("pods", rows=rows_of_pods, n=size.n, m=size.m, rule="max_variance", **shared),
        Setting(
            "across", rows=rows_of_pods, n=size.n // size.m, m=1, rule="max_contrast", **shared
        ),
    ]


def measure(size: Size, model: str, logs: Path) -> list[str]:
    """A table for each variant; the arms of a variant take turns."""
    tables = []
    for variant in size.variants:
        arms = settings(size, model, variant)
        turns_of_arm = measure_in_turns(arms, size.rounds, logs / variant)
        tables.append(phases(f"A step: {variant}", turns_of_arm, size))
    return tables


def whole(turn: Mapping[str, float]) -> float:
    """The seconds of a step."""
    return sum(turn.get(phase, 0.0) for phase in PHASES)


def update(turn: Mapping[str, float]) -> float:
    """The seconds of an update: old and reference log-probs, forward, backward, optimiser."""
    return turn.get("log-probs", 0.0) + turn.get("update", 0.0)


def bookkeeping(turn: Mapping[str, float]) -> float:
    """The seconds of a step that neither generate, nor score, nor update."""
    return sum(turn.get(phase, 0.0) for phase in BOOKKEEPING)


def phases(title: str, turns_of_arm: Mapping[str, Turns], size: Size) -> str:
    """The arms of one variant by phase, with the limits that PODS has to keep."""
    rows = []
    for arm, turns in turns_of_arm.items():
        cells = [arm]
        for phase in PHASES:
            cells.append(_median([turn.get(phase, 0.0) for turn in turns]))
        cells.append(_median([whole(turn) for turn in turns]))
        cells.append(_median([bookkeeping(turn) for turn in turns]))
        cells.append(f"{_peak(turns) / 1e6:.0f} MB")
        rows.append(cells)

    rollouts_each = size.n // size.m  # of the prompts of across
    note = (
        f"Per optimiser step: grpo is TRL's GRPOTrainer on {size.prompts} prompts, n = m ="
        f" {size.m}; grpo_ga the same at n = m = {size.n}, by gradient accumulation; pods is"
        f" PODSTrainer, {size.n} -> {size.m} of each prompt; across keeps as many rows of {size.m}"
        f" times as many prompts, {rollouts_each} rollouts each. Medians over rounds. Other is"
        " all the rest of the training loop: batches, padding, metrics, logs, callbacks. Memory is"
        " the peak of resident memory above that of the process before its first step."
    )
    heads = ["", *PHASES, "whole step", "select + other", "peak memory"]
    return section(title, note, heads, rows, limits(turns_of_arm))


def limits(turns_of_arm: Mapping[str, Turns]) -> list[Limit]:
    """The limits of one variant."""
    grpo, grpo_ga, pods = (_updates(turns_of_arm[arm]) for arm in ("grpo", "grpo_ga", "pods"))
    memory = _peak(turns_of_arm["pods"]) / _peak(turns_of_arm["grpo"])
    only_peak = Spread(median=memory, low=memory, high=memory)
    found = [
        Limit("update, pods / grpo_ga", ratio(pods, grpo_ga), UPDATE_OVER_GRPO_GA),
        Limit("update, pods / grpo", ratio(pods, grpo), UPDATE_OVER_GRPO),
        Limit("peak memory, pods / grpo", only_peak, MEMORY_OVER_GRPO),
    ]
    for arm in ("pods", "across"):
        seconds = spread([bookkeeping(turn) for turn in turns_of_arm[arm]])
        found.append(Limit(f"select + other, {arm}: s", seconds, MOST_BOOKKEEPING))
    return found


def _updates(turns: Turns) -> list[float]:
    return [update(turn) for turn in turns]


def _median(seconds: Sequence[float]) -> str:
    return duration(spread(seconds).median)


def _peak(turns: Turns) -> float:
    return max(turn["peak"] for turn in turns)
