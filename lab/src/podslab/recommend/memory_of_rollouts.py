"""The rollouts of a prompt that fit into a given memory, from measured steps of several n."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from podslab.recommend.measured_steps import GRPO, MeasuredStep, MeasuredSteps
from podslab.report.summary import memory

#: Peaks that differ by less are the same: allocators round.
_SAME = 1.02


@dataclass(frozen=True)
class MemoryOfRollouts:
    """The peak of a step by the rollouts for each row: the larger one of two phases.

    Rows of a pass are the same in all of these steps, so the update takes the same for any n. What
    generating takes grows with n, and shows where it is more than that.

    Args:
        update: Bytes, whatever n.
        fixed, ratio: Bytes of generating: fixed + ratio x n/m; None where it was never the more.
        most: The largest n/m that was measured.
    """

    update: float
    fixed: float | None
    ratio: float | None
    most: float

    @classmethod
    def of(cls, steps: Sequence[MeasuredStep]) -> "MemoryOfRollouts | None":
        """The two phases of steps with n = m and more; None where no peak is known."""
        peaks = {
            step.rollouts_per_row: step.peak_memory
            for step in reversed(steps)  # of several with n = m the first one, with the fewest rows
            if step.steps and step.peak_memory is not None
        }
        if len(peaks) < 2:
            return None
        update = min(peaks.values())
        grown = [size for size in sorted(peaks) if peaks[size] > update * _SAME]
        if len(grown) < 2:
            return cls(update, None, None, max(peaks))
        ratio, fixed = np.polyfit(grown, [peaks[size] for size in grown], deg=1)
        return cls(update, float(fixed), float(ratio), max(peaks))

    def most_within(self, size: float) -> float | None:
        """The largest n/m within so many bytes; 0 where not even the update fits.

        None where generating was never the larger phase, so that its growth is not known.
        """
        if self.update > size:
            return 0.0
        if self.fixed is None or self.ratio is None or self.ratio <= 0:
            return None
        rounding = 1e-6  # of the line
        return max(1.0, float(int((size - self.fixed) / self.ratio + rounding)))


def rollouts_in_words(measured: MeasuredSteps, size: float) -> str:
    """The largest n within so many bytes."""
    found = MemoryOfRollouts.of(measured.steps)
    if found is None:
        return (
            f"Within {memory(size)}: these steps can't say, as it takes the peaks of steps with"
            " different n"
        )
    most = found.most_within(size)
    if most == 0:
        return (
            f"Within {memory(size)}: not even {GRPO} with n = m, whose update takes"
            f" {memory(found.update)}: lower per_device_train_batch_size and raise"
            " gradient_accumulation_steps"
        )
    if most is None:
        return (
            f"Within {memory(size)}: n = {found.most:g} m and less, as measured. The update decides"
            f" ({memory(found.update)}): generating more never took more, so n may be larger"
            " still"
        )
    measured_too = "measured" if most <= found.most else "a prediction, by a line through the peaks"
    return f"Within {memory(size)}: up to n = {most:g} m ({measured_too})"
