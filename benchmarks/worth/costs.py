"""The cost of a step of PODS on measured machines, by rollouts for each row."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.folders import RESULTS
from benchmarks.sizes.raw_file import read_raw, vllm_file
from benchmarks.sizes.steps import TRANSFORMERS, VLLM, Measured
from benchmarks.worth import authors, ours

_RAW = RESULTS / "sizes.jsonl"
#: Rows of a step on the H200, as in the authors' runs on one GPU.
_ROWS = 16
#: Rollouts for each row in the authors' runs, GRPO first.
SIZES = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Machine:
    """The cost of a step on a machine.

    Args:
        name: What it is.
        cost: By rollouts for each row, in steps of GRPO with as many rows.
        measured: The sizes that were measured. Others lie on a straight line between two of these.
        trains_3b: Whether a model of about the authors' size was measured, so that their worth may
            be put beside the cost.
    """

    name: str
    cost: Mapping[int, float]
    measured: tuple[int, ...]
    trains_3b: bool = True

    def gain(self, size: int) -> float:
        """The authors' worth of so many rollouts for each row, over the cost here."""
        return worth(size) / self.cost[size]

    @property
    def best(self) -> int:
        """The rollouts for each row with the highest gain, of those whose cost is known."""
        return max(self.cost, key=self.gain)


def worth(size: int) -> float:
    """The authors' worth of a step with so many rollouts for each of 16 rows, on GSM8K."""
    if size == 1:
        return 1.0
    (setting,) = [setting for setting in authors.SIZES if setting.n == size * setting.m]
    found = authors.value(setting).worth
    assert found is not None  # it is in all of their sizes
    return found.value


def machines() -> list[Machine]:
    """All machines with a known cost, the authors' first."""
    measured = Measured(read_raw(_RAW), read_raw(vllm_file(_RAW)))
    found = [_authors_card()]
    for engine in (VLLM, TRANSFORMERS):
        for shape in ("1.5B", "3B"):
            found.append(_h200(measured, shape, engine))
    return [*found, _our_cores()]


def _authors_card() -> Machine:
    cost = {1: 1.0}
    for setting in authors.SIZES:
        found = authors.value(setting).cost
        assert found is not None
        cost[setting.n // setting.m] = found.value
    return Machine("L40S, the authors', 3B", cost, SIZES)


def _h200(measured: Measured, shape: str, engine: str) -> Machine:
    """Generating by an engine and updating on 16 rows, as results/sizes.md has them."""
    generating = {
        count: median(seconds) for count, seconds in measured.generating(shape, engine).items()
    }
    updating = median(measured.updating(shape)[_ROWS])
    sizes = [count // _ROWS for count in generating]

    cost = {}
    for size in SIZES:
        if size <= max(sizes):
            seconds = float(np.interp(_ROWS * size, list(generating), list(generating.values())))
            cost[size] = (seconds + updating) / (generating[_ROWS] + updating)
    return Machine(f"H200, {engine}, {shape}", cost, tuple(sizes))


def _our_cores() -> Machine:
    """The mean over the four sets, in runs of 45 s; GRPO generates 32 rollouts at once."""
    found = [ours.value(stage, "pods").cost for stage in ours.SHORT]
    costs = [cost.value for cost in found if cost is not None]
    name = "two cores, 0.8 million parameters"
    return Machine(name, {1: 1.0, 4: float(np.mean(costs))}, (1, 4), False)
