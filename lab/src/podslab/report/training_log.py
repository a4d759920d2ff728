"""What the logged metrics of an arm tell: seconds by phase, kept and dropped rewards over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podslab.report.curves import Clock, Floats
from podsrl.rollout_log.run_folder import PHASES

_STRETCHES = 40


@dataclass(frozen=True)
class TrainingLog:
    """The logged metrics of one arm, over all its seeds.

    phase_seconds: seconds per step, by phase.
    seconds, reward, kept_reward, dropped_reward: means of the logged steps in equal stretches of
        training time; NaN where nothing was dropped, or could be scored.
    """

    phase_seconds: Mapping[str, float]
    seconds: Floats
    reward: Floats
    kept_reward: Floats
    dropped_reward: Floats


def read_training_log(
    metrics: Sequence[Sequence[Mapping[str, Any]]], clock: Clock | None = None
) -> TrainingLog | None:
    """The log of an arm; None if its runs logged no training time, or no rollouts for a clock.

    Args:
        metrics: the rows of metrics.jsonl, for each seed.
        clock: replaces the measured seconds.
    """
    times = "pods/training_seconds" if clock is None else "pods/rollouts_generated"
    by_seed = [[row for row in rows if row.get(times) is not None] for rows in metrics]
    rows = [row for of_seed in by_seed for row in of_seed]
    if not rows:
        return None
    seconds = _column(rows, "pods/training_seconds")
    phases = {phase: _mean_of_known(_column(rows, f"pods/seconds_{phase}")) for phase in PHASES}
    if clock is not None:
        generated = _column(rows, "pods/rollouts_generated")
        trained = _column(rows, "pods/rollouts_trained")
        seconds = clock.seconds(generated, trained)
        last = [of_seed[-1] for of_seed in by_seed if of_seed]
        made, kept, steps = (
            _mean_of_known(_column(last, name))
            for name in ("pods/rollouts_generated", "pods/rollouts_trained", "step")
        )
        phases = dict.fromkeys(PHASES, 0.0) | {
            "generate": clock.generate * made / steps,
            "score": clock.score * made / steps,
            "update": clock.update * kept / steps,
        }
    edges = np.linspace(0.0, float(np.nanmax(seconds)), _STRETCHES + 1)[1:-1]
    stretch = np.digitize(seconds, edges)

    def means(values: Floats) -> Floats:
        return np.array([_mean_of_known(values[stretch == i]) for i in np.unique(stretch)])

    return TrainingLog(
        phase_seconds=phases,
        seconds=means(seconds),
        reward=means(_column(rows, "reward")),
        kept_reward=means(_column(rows, "pods/kept_reward")),
        dropped_reward=means(_column(rows, "pods/dropped_reward")),
    )


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> Floats:
    return np.array([row.get(name) for row in rows], dtype=float)  # None: NaN


def _mean_of_known(values: Floats) -> float:
    there = values[~np.isnan(values)]
    return float(there.mean()) if there.size else float("nan")
