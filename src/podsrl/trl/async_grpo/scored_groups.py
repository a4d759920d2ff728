"""Groups that were scored, on their way through TRL's queue of metrics to the trainer's log."""

import queue
from collections.abc import Callable
from typing import Any

from podsrl.trl.async_grpo.loop import SCORED

Record = dict[str, Any]


class ScoredGroups:
    """TRL's queue of metrics for the trainer's `log`, which empties it; groups become metrics.

    Args:
        items: TRL's queue.
        summarise: Makes metrics of the records of the groups since the last log.
    """

    def __init__(self, items: Any, summarise: Callable[[list[Record]], dict[str, float]]) -> None:
        self._items = items
        self._summarise = summarise
        self._records: list[Record] = []

    def get_nowait(self) -> dict[str, Any]:
        """The next metrics; `queue.Empty` if there are none."""
        while True:
            try:
                item = self._items.get_nowait()
            except queue.Empty:
                if not self._records:
                    raise
                records, self._records = self._records, []
                return self._summarise(records)

            self._records.extend(item.pop(SCORED, []))
            if item:
                return item
