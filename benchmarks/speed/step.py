"""Part 2: a training step by phase, of TRL's own trainer and of PODS, with seconds and memory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.speed.family import measure_in_turns, turns
from benchmarks.speed.probe import BOOKKEEPING, PHASES
from benchmarks.speed.scale import Report, Scale
from benchmarks.speed.tables import Bar, Table, megabytes, with_quartiles
from benchmarks.speed.timings import ratio, spread
from benchmarks.speed.trainers import VARIANTS, Setting
from podslab.report.durations import duration

ARMS = ("grpo", "grpo_ga", "pods")
UPDATE_OF_GA, UPDATE_OF_GRPO, MEMORY, SHARE = 0.30, 1.10, 1.10, 0.02

Phases = Mapping[str, float]


def settings(scale: Scale, model: str, variant: str) -> list[Setting]:
    """The three arms: the same prompts per step, and the same micro-batch."""
    n, m = scale.n, scale.m
    sizes = {"grpo": (m, m, False), "grpo_ga": (n, n, False), "pods": (n, m, True)}
    return [
        Setting(
            name=arm,
            model=model,
            columns=scale.tiny.max_columns,
            prompts=scale.prompts,
            n=sizes[arm][0],
            m=sizes[arm][1],
            micro_batch=scale.prompts * m,
            ours=sizes[arm][2],
            max_completion_length=scale.max_completion_length,
            options=VARIANTS[variant],
        )
        for arm in ARMS
    ]


def measure(scale: Scale, model: str, logs: Path, report: Report) -> dict[str, Any]:
    """Seconds and peak bytes by phase of every arm, for every variant; arms take turns."""
    each = turns(len(ARMS), scale.step_rounds)
    done = 0
    variants: dict[str, Any] = {}
    for variant in scale.variants:

        def tick(arm: str, variant: str = variant) -> None:
            nonlocal done
            done += 1
            report(done, each * len(scale.variants), f"{variant}, {arm}")

        chosen = settings(scale, model, variant)
        found = measure_in_turns(chosen, scale.step_rounds, logs / variant, tick)
        variants[variant] = {arm: steps.as_json() for arm, steps in found.items()}
    sizes = {"n": scale.n, "m": scale.m, "prompts": scale.prompts}
    return {**sizes, "variants": variants}


def whole(phases: Phases) -> float:
    """Seconds of a step."""
    return sum(phases.values())


def update(phases: Phases) -> float:
    """Seconds of a step's update: old and reference log-probs, forward, backward, optimiser."""
    return phases.get("log-probs", 0.0) + phases.get("update", 0.0)


def bookkeeping(phases: Phases) -> float:
    """Seconds of a step that neither generate, nor score, nor update."""
    return sum(phases.get(phase, 0.0) for phase in BOOKKEEPING)


def peak(memory: Sequence[Phases]) -> list[float]:
    """Peak bytes of each measured turn, whatever the phase."""
    return [max(turn.values()) for turn in memory]


def tabulate(measured: Mapping[str, Any]) -> list[Table]:
    """A table for each variant, from what `measure` returned."""
    n, m, prompts = (measured[name] for name in ("n", "m", "prompts"))
    return [
        _variant(f"A step: {variant}", found, _note(n, m, prompts))
        for variant, found in measured["variants"].items()
    ]


def _note(n: int, m: int, prompts: int) -> str:
    return (
        f"Per optimiser step, {prompts} prompts: grpo is TRL's GRPOTrainer at n = m = {m}; grpo_ga"
        f" is TRL's GRPOTrainer at n = m = {n}, by gradient accumulation at the same micro-batch;"
        f" pods is PODSTrainer, {n} -> {m}. Medians over rounds. Log-probs are the old and the"
        " reference ones. Other is all the rest of the training loop: batches, padding, metrics,"
        " logs, callbacks. Memory is the median over turns of the peak resident memory, above what"
        " the process held before its first step."
    )


def _variant(title: str, found: Mapping[str, Any], note: str) -> Table:
    rows = []
    for arm, steps in found.items():
        seconds, peaks = steps["seconds"], peak(steps["memory"])
        cells = [duration(spread([s.get(p, 0.0) for s in seconds]).median) for p in PHASES]
        share = spread([bookkeeping(s) / whole(s) for s in seconds])
        rows.append(
            [
                arm,
                *cells,
                with_quartiles(spread([whole(s) for s in seconds]), " s"),
                f"{100 * share.median:.2g} %",
                megabytes(spread(peaks).median),
            ]
        )
    head = ["", *PHASES, "whole step", "select + other", "peak memory"]
    return Table(title, head, rows, note, bars(found))


def bars(found: Mapping[str, Any]) -> list[Bar]:
    """The bars of one variant."""
    updates = {arm: [update(s) for s in steps["seconds"]] for arm, steps in found.items()}
    peaks = {arm: peak(steps["memory"]) for arm, steps in found.items()}
    shares = [bookkeeping(s) / whole(s) for s in found["pods"]["seconds"]]
    return [
        Bar.of("update, pods / grpo_ga", ratio(updates["pods"], updates["grpo_ga"]), UPDATE_OF_GA),
        Bar.of("update, pods / grpo", ratio(updates["pods"], updates["grpo"]), UPDATE_OF_GRPO),
        Bar.of("peak memory, pods / grpo", ratio(peaks["pods"], peaks["grpo"]), MEMORY),
        Bar.of("pods: bookkeeping's share of a step", spread(shares), SHARE, percent=True),
    ]
