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

    phase_seconds: measured seconds per step, by phase; NaN on a modelled clock.
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
    rows = [row for of_seed in metrics for row in of_seed if row.get(times) is not None]
    if not rows:
        return None
    seconds = _column(rows, "pods/training_seconds")
    phases = {phase: _mean_of_known(_column(rows, f"pods/seconds_{phase}")) for phase in PHASES}
    if clock is not None:
        generated = _column(rows, "pods/rollouts_generated")
        seconds = clock.seconds(generated, _column(rows, "pods/rollouts_trained"))
        phases = dict.fromkeys(PHASES, np.nan)
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
