"""Time: one deadline for everything, and what is left of it shared out over runs."""

import time
from dataclasses import dataclass
from types import FrameType
from typing import NamedTuple, NoReturn

#: Seconds kept back for tables and figures.
RESERVE = 12.0


class TimeIsUpError(BaseException):
    """The deadline has come; no library's `except Exception` may swallow it."""


def raise_time_is_up(number: int, frame: FrameType | None) -> NoReturn:
    """A signal's handler."""
    raise TimeIsUpError


@dataclass(frozen=True)
class Deadline:
    """When work must end, in seconds since the epoch: it holds across processes."""

    ends: float

    @classmethod
    def after(cls, minutes: float, began: float) -> "Deadline":
        """So many minutes after `began`, less what writing the results needs.

        >>> Deadline.after(2.0, began=1000.0).ends
        1108.0
        """
        return cls(began + 60.0 * minutes - min(RESERVE, 6.0 * minutes))

    @property
    def left(self) -> float:
        """Seconds of work that are left."""
        return self.ends - time.time()


class Rounds(NamedTuple):
    """How often every arm is run (one seed each time), and how long each run may train."""

    count: int  # type: ignore[assignment] # and no longer the method of a tuple
    training_seconds: float


def share_out(
    seconds: float, arms: int, overhead: float, least: float, most: float, rounds: int
) -> Rounds:
    """As many rounds as leave every run `least` seconds of training.

    Args:
        seconds: for all of them.
        arms: runs in a round.
        overhead: seconds of a run outside its training: loading and evaluations.
        least, most: training seconds of a run.
        rounds: no more than this many.

    Returns:
        Rounds(0, 0.0) if not even one fits.

    >>> share_out(390.0, arms=3, overhead=12.0, least=40.0, most=90.0, rounds=3)
    Rounds(count=2, training_seconds=53.0)
    """
    for count in range(rounds, 0, -1):
        each = seconds / (arms * count) - overhead
        if each >= least:
            return Rounds(count, min(each, most))
    return Rounds(0, 0.0)
