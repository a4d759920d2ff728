"""Whether to drop rows at all, predicted from costs and pass rates."""

from dataclasses import dataclass

import numpy as np

from podslab.recommend.choice import WITHIN, Cell
from podslab.recommend.costs import Batch, Costs


@dataclass(frozen=True)
class WhatPays:
    """Times as much learned per second as the best GRPO, if the better way is taken.

    Args:
        over: The GRPO that it is compared with, in words.
        ratio: g/u, the time of generating a rollout over that of updating on a row.
        drop: What dropping rows gains; 1 where the best of all is a GRPO.
    """

    over: str
    ratio: float
    drop: float

    @property
    def way(self) -> str:
        """The simplest way that is nearly the best."""
        return "drop rows" if self.drop > 1 / (1 - WITHIN) else "train on all rows"

    def __str__(self) -> str:
        """For people, the most important first."""
        return (
            f"g/u = {self.ratio:.2g}: the time of generating a rollout over that of updating on a"
            f" row.\nTimes the best {self.over}, predicted: drop rows {self.drop:.2f}.\n"
            f"Best by this: {self.way}."
        )


def what_pays(costs: Costs, cells: list[Cell], batch: Batch) -> WhatPays:
    """What dropping rows gains at these costs."""
    grpo = [cell for cell in cells if cell.sizes.n == cell.sizes.m] or cells
    best_of_grpo = max((cell.per_second for cell in grpo), default=np.nan)
    best = max((cell.per_second for cell in cells), default=np.nan)
    return WhatPays(
        over=batch.grpo,
        ratio=costs.ratio(cells[0].sizes.rows),
        drop=best / (best_of_grpo or np.nan),
    )
