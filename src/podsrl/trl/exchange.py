"""What travels between processes: which rollouts each of them makes, and their gathering.

A rollout's *place* is its index in the flattened P x N batch, which is the same on all processes.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from accelerate.utils import gather_object

from podsrl.trl.columns import Columns
from podsrl.trl.images import dataset_images

Pair = tuple[Any, Any]  # a dataset row and its prompt


def n_of_each(pairs: Sequence[Pair], *, m: int, n: int, rank: int, world: int) -> list[Pair]:
    """Of TRL's m rows of each prompt: this process's share of n of each.

    TRL lays a prompt's m rows out one after the other over all processes, so the first of them may
    lie on another process than the last. With m = 4 and two processes of 6 rows each, the prompts
    are AAAA BB | BB CCCC: process 0 has the first rows of A and B, process 1 that of C (first = 2).
    With n = 6 each process makes 9 of 18 rollouts.

    Args:
        pairs: The dataset rows and prompts of this process, m of each prompt.
        m, n: The rows of a prompt in the update, and its rollouts.
        rank, world: The number of this process, and how many there are.
    """
    first = -rank * len(pairs) % m  # of the first prompt that begins on this process
    pairs_P = gather_object(list(pairs[first::m]))

    last = len(pairs_P) * n - 1
    places = share_of_places(last + 1, rank, world)
    return [_own_copy(*pairs_P[min(place, last) // n]) for place in places]


def share_of_places(total: int, rank: int, world: int) -> range:
    """The places that a process generates: equal shares, the last ones padded beyond `total`."""
    share = -(-total // world)
    return range(rank * share, (rank + 1) * share)


def gather_columns(columns: Mapping[str, Sequence[Any] | None], total: int) -> Columns:
    """The columns of all processes on every one, without the padding of the last shares.

    A column that some processes have not is None in their rows.
    """
    shares: list[Columns] = gather_object([dict(columns)])
    names = dict.fromkeys(name for share in shares for name in share)
    return {name: _joined(shares, name, total) for name in names}


def _joined(shares: Sequence[Columns], name: str, total: int) -> list[Any] | None:
    """A column of all shares; None if none of them has it."""
    if all(share.get(name) is None for share in shares):
        return None
    values: list[Any] = []
    for share in shares:
        part = share.get(name)
        values.extend([None] * _rows(share) if part is None else part)
    return values[:total]


def _rows(share: Columns) -> int:
    return max((len(values) for values in share.values() if values is not None), default=0)


def _own_copy(row: Any, prompt: Any) -> Pair:
    """A row and its prompt for one rollout, which a user's function may change; not its images."""
    images = (dataset_images([row]) or [None])[0] or ()
    return copy.deepcopy((row, prompt), {id(image): image for image in images})
