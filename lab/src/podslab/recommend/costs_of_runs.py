"""What generating and updating cost in saved runs, and how many of their prompts teach."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import RunFolder

#: The first steps warm up.
_WARM_UP = 1


@dataclass(frozen=True)
class Costs:
    """What runs of one setting cost.

    Args:
        steps: How many steps were counted.
        rollout: Seconds of generating, scoring and selecting, per rollout generated (g).
        row: Seconds of updating, per row with a pass (u).
        rows: Rows of a step.
        rollouts_per_row: Rollouts of a step for each of its rows.
        equal_share: The share of prompts whose rewards were all equal.
        tokens: The mean length of a completion.
        peak_memory: In bytes; None where it is not known.
    """

    steps: int
    rollout: float
    row: float
    rows: float
    rollouts_per_row: float
    equal_share: float
    tokens: float
    peak_memory: float | None

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

    def beside_grpo(self, rollouts_per_row: float) -> float:
        """A step over one of GRPO with as many rows, at most: if each rollout costs the same."""
        return (rollouts_per_row * self.rollout + self.row) / (self.rollout + self.row)


def read_costs(runs: Sequence[RunFolder]) -> Costs:
    """The costs of runs, all steps alike.

    Raises:
        InvalidInputError: There are no timed steps.
    """
    rows: list[dict[str, Any]] = []
    passed = 0.0
    for run in runs:
        timed = [row for row in run.metrics() if "pods/seconds_update" in row]
        counted = timed[_WARM_UP:]
        if counted:
            passed += counted[-1]["pods/rows_passed"] - timed[0]["pods/rows_passed"]
        rows += counted

    generating = [row for row in rows if row.get("pods/rollouts")]
    generated = _total(generating, "pods/rollouts")
    if not generated or not passed:
        where = ", ".join(str(run.path) for run in runs)
        raise InvalidInputError(
            f"{where}: too few timed steps in metrics.jsonl; train for some steps more"
        )

    kept = _total(generating, "pods/kept_rollouts")
    phases = ("generate", "score", "select")
    before_update = sum(_total(rows, f"pods/seconds_{phase}") for phase in phases)
    memory = [row["pods/peak_memory"] for row in rows if row.get("pods/peak_memory")]
    return Costs(
        steps=len(rows),
        rollout=before_update / generated,
        row=_total(rows, "pods/seconds_update") / passed,
        rows=kept / len(generating),
        rollouts_per_row=generated / kept,
        equal_share=_mean(generating, "frac_reward_zero_std"),
        tokens=_mean(generating, "completions/mean_length"),
        peak_memory=max(memory, default=None),
    )


def _total(rows: Sequence[dict[str, Any]], name: str) -> float:
    return float(sum(row.get(name) or 0.0 for row in rows))


def _mean(rows: Sequence[dict[str, Any]], name: str) -> float:
    return _total(rows, name) / len(rows)
