"""The worth and the cost of a step in our own comparison of a small model."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.frozen import records
from benchmarks.frozen.outcomes import compared, curve
from benchmarks.frozen.records import REFERENCE, Result
from podslab.statistics.curves import ArmCurves
from podslab.statistics.differences import Difference, difference
from podslab.statistics.worth import StepValue, step_value


@dataclass(frozen=True)
class Stage:
    """Runs that are compared.

    Args:
        name: What to call them.
        of: The stages of the protocol, pooled.
        set: The set of questions.
    """

    name: str
    of: tuple[str, ...]
    set: str


_SETS = ("easy", "middle", "hard", "steps")
SHORT = tuple(Stage("45 s", ("reported",), set_name) for set_name in _SETS)
LONG = tuple(Stage("180 s", ("long",), set_name) for set_name in ("middle", "steps"))
#: Both goes of the stage *batch* on the set middle count, which are 16 seeds.
BATCH = (
    Stage("45 s, batch", ("batch", "batch-again"), "middle"),
    Stage("45 s, batch", ("batch",), "steps"),
)
STAGES = (*SHORT, *LONG, *BATCH)


def results(stage: Stage, arm: str) -> tuple[Result, ...]:
    """The runs of an arm, in the order of their seeds; () where the stage has no such arm."""
    found: list[Result] = []
    for name in stage.of:
        found += records.runs(name, stage.set, arm)
    return tuple(found)


def arms(stage: Stage) -> list[str]:
    """The arms of a stage, without GRPO with 8 rollouts."""
    return [arm for arm in records.arms_of(stage.of[0]) if arm != REFERENCE]


@cache
def curves(stage: Stage, arm: str, measure: str = "greedy") -> ArmCurves:
    """The learning curves of an arm."""
    runs = results(stage, arm)
    seeds = tuple(int(run["run"].rpartition("_")[2]) for run in runs)
    key = "greedy" if measure == "greedy" else "right"
    points = [[point for point in run["measured"] if key in point] for run in runs]
    longest = max(map(len, points))

    def table(values_of_runs: Sequence[Sequence[float]]) -> np.ndarray:
        rows = [[*values, *[np.nan] * (longest - len(values))] for values in values_of_runs]
        return np.array(rows, dtype=float)

    accuracy = [curve(run, measure).values_T_Q.mean(axis=1).tolist() for run in runs]
    questions = [len(curve(run, measure).values_T_Q[0]) for run in runs]
    return ArmCurves(
        arm=arm,
        seeds=seeds,
        steps=table([[point["step"] for point in of_run] for of_run in points]),
        seconds=table([[point["seconds"] for point in of_run] for of_run in points]),
        generated=table([[point["rollouts"] for point in of_run] for of_run in points]),
        trained=table([[point["rows"] for point in of_run] for of_run in points]),
        accuracy=table(accuracy),
        length=np.full((len(runs), longest), np.nan),
        answers=table([[number] * longest for number in questions]),
    )


@cache
def value(
    stage: Stage,
    arm: str,
    beside: str = REFERENCE,
    measure: str = "greedy",
    until: float = 1.0,
) -> StepValue:
    """The worth and the cost of a step of an arm, beside a step of another one."""
    return step_value(curves(stage, beside, measure), curves(stage, arm, measure), until)


def cost_at_price(stage: Stage, arm: str, beside: str, rollout: float, *, is_spared: bool) -> float:
    """The cost of a step where a rollout has a price, in passes over a row.

    Args:
        stage: The runs.
        arm: Whose step.
        beside: The arm whose step is 1.
        rollout: The price of generating a rollout (g/u).
        is_spared: Whether rows of advantage 0 have no pass, as in these runs; in TRL they have one.
    """
    mine, others = (
        _price_of_step(results(stage, one), rollout, is_spared=is_spared) for one in (arm, beside)
    )
    return mine / others


def _price_of_step(runs: Sequence[Result], rollout: float, *, is_spared: bool) -> float:
    price = 0.0
    for run in runs:
        last = run["measured"][-1]
        share = run["teaching_rows"] if is_spared else 1.0
        price += (rollout * last["rollouts"] + share * last["rows"]) / last["step"]
    return price / len(runs)


def right_at_start(stage: Stage) -> float:
    """The share of samples that are right before training, of tuning questions of the set."""
    return records.right_at_start(stage.set)


def difference_from(stage: Stage, arm: str, beside: str, *, axis: str = "seconds") -> Difference:
    """The difference of two arms over the run, paired by seeds and questions."""
    pair = results(stage, arm), results(stage, beside)
    return difference(compared(*pair, axis=axis, over_run=True))
