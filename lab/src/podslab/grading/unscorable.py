"""Counting what could not be graded, and stopping when it is too much."""

from collections import Counter, deque
from collections.abc import Iterable

from podsrl.errors import InvalidInputError, PodsError

#: What happened to gradings in this process: "graded", "timeouts", "crashes", "errors".
COUNTS: Counter[str] = Counter()


class UnscorableError(PodsError, RuntimeError):
    """Too many answers could not be graded; training on would be on a biased rest."""


class UnscorableWatch:
    """Raises when more than a share of the last gradings were unscorable.

    Args:
        share: the largest share that is fine, in [0, 1]; 1 never raises.
        window: how many gradings are looked back on.
        at_least: gradings there must be before anything is said.
    """

    def __init__(self, share: float, window: int = 1024, at_least: int = 64) -> None:
        if not 0 <= share <= 1:
            raise InvalidInputError(f"max_unscorable must be in [0, 1]; got {share}")
        self.share = share
        self.at_least = min(at_least, window)
        self._recent: deque[bool] = deque(maxlen=window)
        self._bad = 0

    def record(self, unscorable: Iterable[bool]) -> None:
        """Note gradings, True for one that could not be made; raise if the share is passed."""
        for bad in unscorable:
            if len(self._recent) == self._recent.maxlen:
                self._bad -= self._recent[0]
            self._recent.append(bad)
            self._bad += bad
        count = len(self._recent)
        if count >= self.at_least and self._bad > self.share * count:
            failed, self._bad = self._bad, 0
            self._recent.clear()
            counts = ", ".join(f"{times} {what}" for what, times in COUNTS.items())
            raise UnscorableError(
                f"{failed} of the last {count} answers could not be graded"
                f" ({failed / count:.0%}, the limit is max_unscorable = {self.share:.0%})."
                f" The grading processes so far: {counts or 'not used'}."
                " Look at those completions and at the gold answers (`pods tasks check`); the"
                " task's max_unscorable sets the share that is tolerated"
            )
