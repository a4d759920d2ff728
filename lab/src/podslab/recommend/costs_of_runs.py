"""The costs of generating and updating in saved runs, and the share of prompts that teach."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import PHASES, RunFolder


@dataclass(frozen=True)
class Costs:
    """The costs of runs of one setting.

    Args:
        steps: How many steps were counted.
        rollout: Seconds of generating, scoring and selecting, per rollout generated (g).
        row: Seconds of updating, per row with a pass (u).
        rows: Rows of a generation, which is those of a step, unless one serves several steps.
        rollouts_per_row: Rollouts of a generation for each of its rows.
        equal_share: The share of prompts whose rewards were all equal.
        tokens: The mean length of a completion.
        peak_memory: In bytes; None where it is not known.
        phases: The mean seconds of each phase of a step.
        rows_per_step: Rows of an optimiser step.
    """

    steps: int
    rollout: float
    row: float
    rows: float
    rollouts_per_row: float
    equal_share: float
    tokens: float
    peak_memory: float | None
    phases: Mapping[str, float] = field(default_factory=dict)
    rows_per_step: float = 0.0

    @property
    def ratio(self) -> float:
        """g/u: the time to generate a rollout over that to update on a row."""
        return self.rollout / self.row

    def seconds(self, rollouts_per_row: float) -> tuple[float, float]:
        """A step with so many rollouts for each row, all with a pass, at two extremes.

        Generating has a part that any number of rollouts costs, and a part of each, which one run
        can't tell apart. First as if all were of the first kind, so that generating takes as long
        as in the run; then as if each rollout cost as much as in the run.
        """
        updating = self.rows * self.row
        as_in_the_run = self.rows * self.rollouts_per_row * self.rollout
        in_proportion = self.rows * rollouts_per_row * self.rollout
        return as_in_the_run + updating, in_proportion + updating


@dataclass(frozen=True)
class _Logged:
    """The numbers that a run logged over some steps, and the line before them.

    Args:
        steps: How many.
        line: The line of the log: means over these steps, and totals at the last of them.
        before: The line before.
    """

    steps: int
    line: Mapping[str, Any]
    before: Mapping[str, Any]

    def sum_of(self, name: str) -> float:
        """Over the steps, of a metric that is logged as their mean."""
        return self.steps * float(self.line.get(name) or 0.0)

    def rise_of(self, name: str) -> float:
        """The rise of a total."""
        return float(self.line.get(name) or 0.0) - float(self.before.get(name) or 0.0)


def read_costs(runs: Sequence[RunFolder]) -> Costs:
    """The costs of runs, all steps alike, without the first line of each log, which warms up.

    Raises:
        InvalidInputError: There are no timed steps.
    """
    logged: list[_Logged] = []
    for run in runs:
        timed = [line for line in run.metrics() if "pods/seconds_update" in line]
        for before, line in itertools.pairwise(timed):
            logged.append(_Logged(int(line["step"] - before["step"]), line, before))

    generated = sum(part.rise_of("pods/rollouts_generated") for part in logged)
    trained = sum(part.rise_of("pods/rollouts_trained") for part in logged)
    passed = sum(part.rise_of("pods/rows_passed") for part in logged)
    if not generated or not passed:
        where = ", ".join(str(run.path) for run in runs)
        raise InvalidInputError(
            f"{where}: too few timed steps in metrics.jsonl; train until the log has a second line"
            " of them (logging_steps says after how many steps it gets one)"
        )

    before_update = 0.0
    for phase in ("generate", "score", "select"):
        before_update += _total(logged, f"pods/seconds_{phase}")
    generating = [part for part in logged if part.line.get("pods/rollouts")]
    memory = [part.line["pods/peak_memory"] for part in logged if part.line.get("pods/peak_memory")]
    steps = sum(part.steps for part in logged)
    phases = {phase: _total(logged, f"pods/seconds_{phase}") / steps for phase in PHASES}
    return Costs(
        steps=steps,
        rollout=before_update / generated,
        row=_total(logged, "pods/seconds_update") / passed,
        rows=_mean(generating, "pods/kept_rollouts"),
        rollouts_per_row=generated / trained,
        equal_share=_mean(generating, "frac_reward_zero_std"),
        tokens=_mean(generating, "completions/mean_length"),
        peak_memory=max(memory, default=None),
        phases=phases,
        rows_per_step=trained / steps,
    )


def _total(logged: Sequence[_Logged], name: str) -> float:
    return sum(part.sum_of(name) for part in logged)


def _mean(logged: Sequence[_Logged], name: str) -> float:
    return _total(logged, name) / sum(part.steps for part in logged)
