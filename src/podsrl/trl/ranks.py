"""Groups over several processes: who generates which rows, and who trains on which kept ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from accelerate.utils import gather_object

Columns = dict[str, Sequence[Any] | None]  # a batch: name -> one value per row, or nothing at all


def select_rows(columns: Mapping[str, Sequence[Any] | None], rows: Sequence[int]) -> Columns:
    """Every column at the same rows, in the order of `rows`; the one way rows are dropped here."""
    return {k: None if v is None else [v[i] for i in rows] for k, v in columns.items()}


def gather_rows(columns: Mapping[str, Sequence[Any] | None], total: int) -> Columns:
    """The rows of all ranks on every rank, without the padding beyond `total`.

    Rows are text and token ids, small beside what an update moves, so everyone gets everything.
    """
    return {k: None if v is None else gather_object(list(v))[:total] for k, v in columns.items()}


def share_of_rows(total: int, rank: int, world: int) -> range:
    """The rows that `rank` generates: equal shares, the last ones padded beyond `total`."""
    share = -(-total // world)
    return range(rank * share, (rank + 1) * share)


def balance(tokens_K: Sequence[int], world: int) -> list[list[int]]:
    """Split K kept rows over ranks: the same number each, and nearly the same number of tokens.

    Longest first, each to the rank with the fewest tokens that still has room (LPT scheduling with
    a cardinality bound: Graham 1969, doi:10.1137/0117039), then swaps between the fullest and the
    emptiest rank while they help.

    Args:
        tokens_K: tokens of each row; K is a multiple of `world`.
        world: number of ranks.

    Returns:
        For each rank its rows, ascending.

    >>> balance([9, 1, 1, 7], world=2)
    [[0, 2], [1, 3]]
    """
    if world == 1:
        return [list(range(len(tokens_K)))]
    tokens = np.asarray(tokens_K, dtype=np.int64)
    room = len(tokens) // world
    ranks: list[list[int]] = [[] for _ in range(world)]
    load = np.zeros(world, dtype=np.int64)
    for row in np.argsort(-tokens, kind="stable").tolist():
        rank = min((r for r in range(world) if len(ranks[r]) < room), key=lambda r: load[r])
        ranks[rank].append(row)
        load[rank] += tokens[row]
    while _swap_helps(tokens, ranks, load):
        pass
    return [sorted(rows) for rows in ranks]


def _swap_helps(tokens: np.ndarray, ranks: list[list[int]], load: np.ndarray) -> bool:
    """Swap the pair of rows that best evens out the fullest and the emptiest rank, if any does."""
    full, empty = int(np.argmax(load)), int(np.argmin(load))
    gap = load[full] - load[empty]
    moved = tokens[ranks[full]][:, None] - tokens[ranks[empty]][None, :]
    gap_after = np.abs(gap - 2 * moved)
    i, j = np.unravel_index(np.argmin(gap_after), gap_after.shape)
    if gap_after[i, j] >= gap:
        return False
    ranks[full][i], ranks[empty][j] = ranks[empty][j], ranks[full][i]
    load[full] -= moved[i, j]
    load[empty] += moved[i, j]
    return True
