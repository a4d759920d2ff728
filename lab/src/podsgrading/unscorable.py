"""Counting what could not be graded, and stopping when it is too much."""

from collections import Counter, deque
from collections.abc import Iterable

from podsrl.errors import InvalidInputError, PodsError

#: What happened to gradings in this process: "graded", "timeouts", "crashes", "errors".
COUNTS: Counter[str] = Counter()
#: How many gradings are looked back on ...
WINDOW = 1024
#: ... and how many there must be before anything is said.
AT_LEAST = 64


class UnscorableError(PodsError, RuntimeError):
    """Too many answers could not be graded; training on would be on a biased rest."""


class UnscorableWatch:
    """Raises when more than a share of the last gradings were unscorable.

    share: the largest share that is fine, in [0, 1]; 1 never raises.
    """

    def __init__(self, share: float) -> None:
        if not 0 <= share <= 1:
            raise InvalidInputError(f"max_unscorable must be in [0, 1]; got {share}")
        self.share = share
        self._recent: deque[bool] = deque(maxlen=WINDOW)

    def record(self, unscorable: Iterable[bool]) -> None:
        """Note gradings, True for one that could not be made; raise if the share is passed."""
        self._recent.extend(unscorable)
        count = len(self._recent)
        failed = sum(self._recent)
        if count < AT_LEAST or failed <= self.share * count:
            return

        self._recent.clear()  # who catches the error and goes on is told again, but not each time
        counts = ", ".join(f"{times} {what}" for what, times in COUNTS.items())
        raise UnscorableError(
            f"{failed} of the last {count} answers could not be graded"
            f" ({failed / count:.0%}, the limit is max_unscorable = {self.share:.0%})."
            f" The grading processes so far: {counts or 'not used'}."
            " Look at those completions and at the gold answers (`pods tasks check`); the"
            " task's max_unscorable sets the share that is tolerated"
        )
