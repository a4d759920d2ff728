"""How many rows of a pass fit into a given memory, from runs with passes of different sizes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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

    def rows_within(self, size: float) -> int:
        """The most rows of a pass within so many bytes; less than 1 where not even one fits."""
        return int((size - self.fixed) // self.row)


def read_memory(runs: Sequence[RunFolder]) -> MemoryOfPasses | None:
    """The line through the runs; None where they can't say how memory grows with the rows.

    That is so with passes of one size alone, and where larger ones took no more.
    """
    peak_of_size: dict[int, float] = {}
    for run in runs:
        size = run.config().get("per_device_train_batch_size")
        peaks = [row["pods/peak_memory"] for row in run.metrics() if row.get("pods/peak_memory")]
        if size and peaks:
            peak_of_size[int(size)] = max(*peaks, peak_of_size.get(int(size), 0.0))
    if len(peak_of_size) < 2:
        return None

    sizes = sorted(peak_of_size)
    row, fixed = np.polyfit(sizes, [peak_of_size[size] for size in sizes], deg=1)
    return MemoryOfPasses(float(fixed), float(row), tuple(sizes)) if row > 0 else None


def memory_in_words(runs: Sequence[RunFolder], size: float) -> str:
    """How many rows fit into so many bytes, or what is needed to say so."""
    found = read_memory(runs)
    if found is None:
        return (
            f"Within {memory(size)}: these runs can't say, as it takes runs with different"
            " per_device_train_batch_size to see how memory grows with the rows of a pass"
        )

    rows = found.rows_within(size)
    measured = ", ".join(str(rows_of_pass) for rows_of_pass in found.sizes)
    how_many = f"up to {rows} rows in a pass" if rows >= 1 else "not even one row in a pass"
    return (
        f"Within {memory(size)}: {how_many} (per_device_train_batch_size; a prediction, by a line"
        f" through runs with {measured}). Larger m takes gradient accumulation; n costs memory in"
        " generating alone"
    )
