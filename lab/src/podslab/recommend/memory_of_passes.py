"""The rows of a pass that fit into a given memory, from runs with passes of several sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from podslab.recommend.measured_steps import MeasuredSteps
from podslab.report.summary import memory
from podsrl.rollout_log.run_folder import RunFolder


@dataclass(frozen=True)
class MemoryOfPasses:
    """A straight line through the peak memory of runs, by the rows of a pass on one device.

    Args:
        fixed: Bytes whatever the rows, such as weights and the optimiser's state.
        row: Bytes for each row.
        sizes: The rows of the passes that were measured.
    """

    fixed: float
    row: float
    sizes: tuple[int, ...]

    @classmethod
    def through(cls, peaks: Mapping[int, float]) -> "MemoryOfPasses | None":
        """The line through peaks in bytes by the rows of a pass.

        None with passes of one size alone, and where larger ones took no more.
        """
        if len(peaks) < 2:
            return None
        sizes = sorted(peaks)
        row, fixed = np.polyfit(sizes, [peaks[size] for size in sizes], deg=1)
        return cls(float(fixed), float(row), tuple(sizes)) if row > 0 else None

    def rows_within(self, size: float) -> int:
        """The most rows of a pass within so many bytes; less than 1 where not even one fits.

        TRL makes logits of a part of the pass at a time, so that more rows take less each. Outside
        of what was measured memory is then below the line. Between two sizes it may lie above it,
        and the smaller one is named.
        """
        rows = int((size - self.fixed) // self.row)
        fitting = [measured for measured in self.sizes if measured <= rows]
        is_between = bool(fitting) and rows < max(self.sizes)
        return max(fitting) if is_between else rows


def read_memory(runs: Sequence[RunFolder]) -> MemoryOfPasses | None:
    """The line through the runs; None where they can't say how memory grows with the rows."""
    peak_of_size: dict[int, float] = {}
    for run in runs:
        size = run.config().get("per_device_train_batch_size")
        peaks = [row["pods/peak_memory"] for row in run.metrics() if row.get("pods/peak_memory")]
        if size and peaks:
            peak_of_size[int(size)] = max(*peaks, peak_of_size.get(int(size), 0.0))
    return MemoryOfPasses.through(peak_of_size)


def memory_in_words(runs: Sequence[RunFolder], size: float) -> str:
    """The number of rows that fit into so many bytes, in words, or what is needed to say so."""
    found = read_memory(runs)
    if found is None:
        return (
            f"Within {memory(size)}: these runs can't say, as it takes runs with different"
            " per_device_train_batch_size to see how memory grows with the rows of a pass"
        )

    return f"Within {memory(size)}: {_how_many(found, size, of='runs')}. {_LARGER}"


def rows_in_words(measured: MeasuredSteps, size: float) -> str:
    """The largest m within so many bytes, by GRPO's step in passes of two sizes."""
    peaks = {}
    for step in (measured.grpo, measured.in_other_passes):
        if step is not None and step.rows_of_pass and step.peak_memory and step.steps:
            peaks[step.rows_of_pass] = step.peak_memory
    if len(peaks) < 2:
        other = measured.in_other_passes
        problem = other.problem if other is not None else ""
        return f"m: these steps can't say, as it takes passes of two sizes. {problem}".rstrip()

    found = MemoryOfPasses.through(peaks)
    if found is None or max(peaks.values()) < _GROWN * min(peaks.values()):
        few, many = sorted(peaks)
        return (
            f"m: passes of {many} rows took no more than those of {few}: generating decides, or"
            f" the weights do. Passes may have more rows than {many}"
        )

    said = f"m: {_how_many(found, size, of='passes')}"
    step = measured.grpo
    if step is not None and step.rows_of_pass and step.rows_of_prompt:
        most = found.rows_within(size) * step.rows_of_prompt // step.rows_of_pass
        if most >= 1:
            said += f", which is m = {most} with as many prompts and passes as now"
    return f"{said}. {_LARGER}"


#: Peaks that differ by less are the same: allocators round.
_GROWN = 1.02
_LARGER = (
    "Larger m takes gradient accumulation, and no more memory; n costs memory in generating alone"
)


def _how_many(found: MemoryOfPasses, size: float, of: str) -> str:
    """The number of rows that fit, in words, and what it rests on."""
    rows = found.rows_within(size)
    measured = ", ".join(map(str, found.sizes))
    how_many = f"up to {rows} rows in a pass" if rows >= 1 else "not even one row in a pass"
    return (
        f"{how_many} (per_device_train_batch_size; a prediction, by a line through {of} with"
        f" {measured})"
    )
