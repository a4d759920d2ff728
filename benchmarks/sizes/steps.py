"""The seconds of a step, from the lines of both raw files."""

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import median, mode
from typing import NamedTuple

import numpy as np

from benchmarks.sizes.plan import Arm
from benchmarks.sizes.raw_file import Line
from benchmarks.sizes.shapes import SHAPES

#: What generates.
VLLM = "vLLM"
TRANSFORMERS = "transformers"
#: Prompts, and the rollouts of each.
Batch = tuple[int, int]


class Step(NamedTuple):
    """The two parts of a step that take nearly all of its time, in seconds."""

    generating: float
    updating: float

    @property
    def seconds(self) -> float:
        """Both together."""
        return self.generating + self.updating


class CostLine(NamedTuple):
    """A straight line through seconds or bytes over a count; NaN where counts are alike."""

    at_none: float
    each: float


class Measured:
    """The measurements, by size of model.

    Args:
        lines: The lines of the raw file of steps.
        by_vllm: The lines of the raw file of generation by vLLM.
    """

    def __init__(self, lines: Sequence[Line], by_vllm: Sequence[Line] = ()) -> None:
        self.lines = lines
        self.by_vllm = by_vllm

    @property
    def shapes(self) -> list[str]:
        """The sizes with any case that fits, from the smallest."""
        found = {line["case"]["shape"] for line in self.lines if line["fits"]}
        return [shape for shape in SHAPES if shape in found]

    @property
    def shapes_by_vllm(self) -> list[str]:
        """The sizes for which vLLM generated, from the smallest."""
        found = {line["shape"] for line in self.by_vllm}
        return [shape for shape in SHAPES if shape in found]

    def generating(self, shape: str, engine: str) -> dict[int, list[float]]:
        """The seconds of all generations of a size, by the number of rollouts.

        Of vLLM's generations only those of one prompt count. Of transformers' all count, whatever
        the number of prompts, since each rollout is a row of its own there.
        """
        found: dict[int, list[float]] = defaultdict(list)
        if engine == VLLM:
            for (prompts, n), seconds in self.batches_by_vllm(shape).items():
                if prompts == 1:
                    found[n] = seconds
        else:
            for line in self._usual(shape):
                if line["case"]["generates"]:
                    found[rollouts_of(line)].append(line["seconds"]["generate"])
        return dict(sorted(found.items()))

    def batches_by_vllm(self, shape: str) -> dict[Batch, list[float]]:
        """The seconds of each repetition of a batch that vLLM generated for a size."""
        found: dict[Batch, list[float]] = defaultdict(list)
        for line in self.by_vllm:
            if line["shape"] == shape and line["answer"] == self._usual_answer(shape):
                found[line["prompts"], line["n"]].append(line["seconds"])
        return dict(found)

    def updating(self, shape: str) -> dict[int, list[float]]:
        """The seconds of all updates of a size in one pass, by the number of rows."""
        found: dict[int, list[float]] = defaultdict(list)
        for line in self.in_one_pass(shape):
            found[rows_of(line)].append(line["seconds"]["update"])
        return dict(sorted(found.items()))

    def step(self, shape: str, arm: Arm, engine: str) -> Step | None:
        """A step of an arm, or None where a part of it was not measured.

        Each part is the median of all measurements of its kind: generating so many rollouts, and
        updating on so many rows in so many micro-batches, whichever arm they were measured for.
        """
        generated = self._generated_for(shape, arm, engine)
        updated = [
            line["seconds"]["update"]
            for line in self._usual(shape)
            if rows_of(line) == arm.rows
            and line["case"]["arm"]["micro_batches"] == arm.micro_batches
        ]
        if not generated or not updated:
            return None
        return Step(median(generated), median(updated))

    def whole_steps(self, shape: str) -> list[Line]:
        """The measurements of a size that also generate."""
        return [line for line in self._usual(shape) if line["case"]["generates"]]

    def in_one_pass(self, shape: str) -> list[Line]:
        """The measurements of a size whose rows are all passed at once."""
        return [line for line in self._usual(shape) if line["case"]["arm"]["micro_batches"] == 1]

    def _generated_for(self, shape: str, arm: Arm, engine: str) -> list[float]:
        if engine == TRANSFORMERS:
            return self.generating(shape, engine).get(arm.rollouts, [])
        return self.batches_by_vllm(shape).get((arm.prompts, arm.n), [])

    def _usual(self, shape: str) -> list[Line]:
        """The usual measurements of a size.

        They have adapters, checkpointing and `generate`, and completions of the usual length.
        """
        return [
            line
            for line in self._that_fit(shape)
            if line["case"]["lora"]
            and line["case"]["checkpointing"]
            and not line["case"]["continuous"]
            and line["case"]["answer"] == self._usual_answer(shape)
        ]

    def _usual_answer(self, shape: str) -> int | None:
        """The length that most completions of a size have."""
        answers = [line["case"]["answer"] for line in self._that_fit(shape)]
        return mode(answers) if answers else None

    def _that_fit(self, shape: str) -> list[Line]:
        return [line for line in self.lines if line["fits"] and line["case"]["shape"] == shape]


def rollouts_of(line: Line) -> int:
    """The number of rollouts of a step."""
    arm = line["case"]["arm"]
    return int(arm["prompts"] * arm["n"])


def rows_of(line: Line) -> int:
    """The number of rows that a step is trained on."""
    arm = line["case"]["arm"]
    return int(arm["prompts"] * arm["m"])


def line_through(seconds: dict[int, list[float]]) -> CostLine:
    """The least-squares line through the medians of what was measured at each count."""
    if len(seconds) < 2:
        return CostLine(math.nan, math.nan)
    each, at_none = np.polyfit(list(seconds), [median(found) for found in seconds.values()], 1)
    return CostLine(float(at_none), float(each))
