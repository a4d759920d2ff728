"""A training step by phase: TRL's own trainer, PODS within prompts, and PODS across prompts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.speed.numbers import Limit, Spread, ratio, spread, table
from benchmarks.speed.probe import BOOKKEEPING, PHASES
from benchmarks.speed.trainers import VARIANTS, Setting
from benchmarks.speed.turns import measure_in_turns
from podslab.durations import duration
from podslab.models.tiny import TinySettings
from podslab.models.tiny.settings import SMALL

#: The update of PODS over that of GRPO-GA and of GRPO; its peak memory over that of GRPO.
UPDATE_OF_GA, UPDATE_OF_GRPO, MEMORY = 0.30, 1.10, 1.10
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


QUICK = Size(SMALL, 2, 16, 4, 32, ("base", "num_iterations = 2"), 2)


def settings(size: Size, model: str, variant: str) -> list[Setting]:
    """The arms: the same rows per micro-batch, and per step, except for GRPO-GA."""
    kept, n, m = size.prompts * size.m, size.n, size.m
    arms = {
        "grpo": (kept, m, m, None),
        "grpo_ga": (size.prompts * n, n, n, None),
        "pods": (kept, n, m, "max_variance"),
        "across": (kept, n // m, 1, "max_contrast"),
    }
    return [
        Setting(
            name=name,
            model=model,
            columns=size.model.max_columns,
            rows=rows,
            micro_batch=kept,
            n=of_prompt,
            m=kept_of_prompt,
            rule=rule,
            max_completion_length=size.max_completion_length,
            options=VARIANTS[variant],
        )
        for name, (rows, of_prompt, kept_of_prompt, rule) in arms.items()
    ]


def measure(size: Size, model: str, logs: Path) -> list[str]:
    """A table for each variant; the arms of a variant take turns."""
    tables = []
    for variant in size.variants:
        chosen = settings(size, model, variant)
        found = measure_in_turns(chosen, size.rounds, logs / variant)
        tables.append(phases(f"A step: {variant}", found, size))
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


def phases(title: str, found: Mapping[str, Turns], size: Size) -> str:
    """The arms of one variant by phase, with the limits that PODS has to keep."""
    rows = []
    for arm, turns in found.items():
        of_phases = [duration(spread([t.get(p, 0.0) for t in turns]).median) for p in PHASES]
        step, rest = (
            duration(spread([of(t) for t in turns]).median) for of in (whole, bookkeeping)
        )
        rows.append([arm, *of_phases, step, rest, f"{_peak(turns) / 1e6:.0f} MB"])
    n, m, times = size.n, size.m, size.n // size.m
    note = (
        f"Per optimiser step: grpo is TRL's GRPOTrainer on {size.prompts} prompts, n = m = {m};"
        f" grpo_ga the same at n = m = {n}, by gradient accumulation; pods is PODSTrainer,"
        f" {n} -> {m} of each prompt; across keeps as many rows of {m} times as many prompts,"
        f" {times} rollouts each. Medians over rounds. Other is all the rest of the training loop:"
        " batches, padding, metrics, logs, callbacks. Memory is the peak of resident memory above"
        " what the process held before its first step."
    )
    head = ["", *PHASES, "whole step", "select + other", "peak memory"]
    return table(title, note, head, rows, limits(found))


def limits(found: Mapping[str, Turns]) -> list[Limit]:
    """The limits of one variant."""
    updates = {arm: [update(turn) for turn in turns] for arm, turns in found.items()}
    memory = _peak(found["pods"]) / _peak(found["grpo"])
    made = [
        Limit("update, pods / grpo_ga", ratio(updates["pods"], updates["grpo_ga"]), UPDATE_OF_GA),
        Limit("update, pods / grpo", ratio(updates["pods"], updates["grpo"]), UPDATE_OF_GRPO),
        Limit("peak memory, pods / grpo", Spread(memory, memory, memory), MEMORY),
    ]
    for arm in ("pods", "across"):
        seconds = spread([bookkeeping(turn) for turn in found[arm]])
        made.append(Limit(f"select + other, {arm}: s", seconds, MOST_BOOKKEEPING))
    return made


def _peak(turns: Turns) -> float:
    return max(turn["peak"] for turn in turns)
