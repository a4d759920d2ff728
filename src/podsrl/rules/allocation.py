r"""How many rows each group gets, for the largest sum of their worths; exact, and nearly linear.

Wanted are shares :math:`j_g` with :math:`\sum_g j_g = rows` and the largest
:math:`\sum_g w_g(j_g)`. Three steps find them (proofs are in docs/theory.md):

1. *A price.* At a price of :math:`\lambda` per row each group takes the share that maximises
   :math:`w_g(j) - \lambda j`, by itself. The higher the price, the fewer rows are taken, so
   bisection finds the price at which all take about as many as there are.
2. *Ties.* At that price some groups are indifferent between two shares. They take the larger one,
   in their order, while rows are left. Then fewer rows are missing than a group has.
3. *A few moves.* What a group loses at the price when its share changes by d is never negative. So
   the best shares are the changes with the least loss that add up to the missing rows. At most
   2n - 1 groups change, and for each d only the 2n - 1 groups that lose least can be among them.
"""

from typing import NamedTuple

import numpy as np

from podsrl.rules.ordering import Floats, Integers

#: The price is found as precisely as this, relative to the largest worth.
_PRECISE = 1e-14


def allocate_rows(worth_P_J: Floats, rows: int) -> Integers:
    """The number of rows of each group, with the largest sum of worths.

    Of equal sums it takes one that depends on the order of the groups alone.

    Args:
        worth_P_J: What j rows of a group are worth, j = 0..n; -inf where it has not as many.
        rows: The number of rows to share out, at most what all groups have.

    Returns:
        share_P, which sum to `rows`.

    >>> allocate_rows(np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 3.0], [0.0, 1.0, 1.0]]), 3).tolist()
    [0, 2, 1]
    """
    price, few_P, many_P = _shares_at_the_price(worth_P_J, rows)

    # Indifferent groups take the larger share while all of it is left.
    more_P = many_P - few_P
    fits_P = np.cumsum(more_P) <= rows - few_P.sum()
    share_P = few_P + more_P * fits_P

    missing = int(rows - share_P.sum())
    if missing:
        share_P = share_P + _least_loss(worth_P_J, share_P, price, missing)
    return share_P


def _shares_at_the_price(worth_P_J: Floats, rows: int) -> tuple[float, Integers, Integers]:
    """The price per row, and each group's least and largest share at it.

    The least ones are at most `rows` together, the largest ones at least. Only groups whose share
    is still open are looked at, and these become fewer with every bisection.
    """
    j_J = np.arange(worth_P_J.shape[1])
    is_there_P_J = worth_P_J > -np.inf
    largest = float(np.abs(worth_P_J[is_there_P_J]).max(initial=0.0)) or 1.0

    # No group takes a row at the upper price, and each takes all at the lower one.
    upper = 2 * largest + 1
    lower = -upper
    few_P = np.zeros(len(worth_P_J), dtype=np.int64)
    many_P = is_there_P_J.sum(axis=1) - 1

    while upper - lower > _PRECISE * largest and few_P.sum() < rows < many_P.sum():
        middle = (lower + upper) / 2
        open_groups = np.flatnonzero(few_P < many_P)
        taken = np.argmax(worth_P_J[open_groups] - middle * j_J, axis=1)

        if few_P.sum() + (taken - few_P[open_groups]).sum() <= rows:
            upper = middle
            few_P[open_groups] = taken
        else:
            lower = middle
            many_P[open_groups] = taken

    if few_P.sum() == rows:
        return upper, few_P, few_P
    if many_P.sum() == rows:
        return lower, many_P, many_P
    return upper, few_P, many_P


class _Changes(NamedTuple):
    """Changes of shares, those of a group one after the other, the cheapest group first."""

    group: Integers
    rows: Integers  # by which the share changes
    loss: Floats


def _least_loss(worth_P_J: Floats, share_P: Integers, price: float, missing: int) -> Integers:
    """The changes of the shares that add up to `missing`, with the least loss at the price.

    It is a knapsack over the few changes that can be among them. A sum of changes is dropped once
    it has lost more than a way to reach `missing` that is known.
    """
    changes, bound = _cheap_changes(worth_P_J, share_P, price, missing)

    # least[s - lowest] is the least loss of changes of the groups so far that add up to s.
    least = np.zeros(1)
    lowest = 0
    taken: list[tuple[int, int, Integers]] = []  # group, lowest, and the change for each sum
    starts = np.flatnonzero(np.diff(changes.group, prepend=-1))
    ends = np.append(starts[1:], len(changes.group))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        rows = changes.rows[start:end]
        below = min(0, int(rows.min()))
        above = max(0, int(rows.max()))
        wider = np.full(len(least) + above - below, np.inf)
        wider[-below : len(least) - below] = least
        change = np.zeros(len(wider), dtype=np.int64)

        for by, loss in zip(rows.tolist(), changes.loss[start:end].tolist(), strict=True):
            reached = slice(by - below, by - below + len(least))
            is_less = least + loss < wider[reached]
            wider[reached][is_less] = (least + loss)[is_less]
            change[reached][is_less] = by

        least, lowest = wider, lowest + below
        taken.append((int(changes.group[start]), lowest, change))
        if 0 <= missing - lowest < len(least):
            bound = min(bound, least[missing - lowest])
        least, lowest = _without_dear_sums(least, lowest, bound)

    changed_P = np.zeros_like(share_P)
    left = missing
    for group, lowest, change in reversed(taken):
        changed_P[group] = change[left - lowest]
        left -= int(changed_P[group])
    return changed_P


def _without_dear_sums(least: Floats, lowest: int, bound: float) -> tuple[Floats, int]:
    """The sums that lost no more than the bound, and the lowest of them."""
    least = np.where(least > bound, np.inf, least)
    (kept,) = np.nonzero(least < np.inf)
    return least[kept[0] : kept[-1] + 1], lowest + int(kept[0])


def _cheap_changes(
    worth_P_J: Floats, share_P: Integers, price: float, missing: int
) -> tuple[_Changes, float]:
    """The changes that the best ones are among, and a loss that they do not exceed."""
    groups, columns = worth_P_J.shape
    every_P = np.arange(groups)
    j_J = np.arange(columns)
    value_P_J = worth_P_J - price * j_J
    # What is below 0 is rounding.
    loss_P_J = np.maximum(value_P_J[every_P, share_P][:, None] - value_P_J, 0.0)
    rows_P_J = j_J - share_P[:, None]

    # Two simple ways to reach it: one group changes by all that is missing, or many by one row.
    of_all = loss_P_J[rows_P_J == missing]
    of_one = np.sort(loss_P_J[rows_P_J == 1])[:missing]
    ways = [of_all.min(initial=np.inf)]
    if len(of_one) == missing:
        ways.append(of_one.sum())
    bound = float(min(ways)) * (1 + 1e-12)

    group, j = np.nonzero((loss_P_J <= bound) & (rows_P_J != 0) & (loss_P_J < np.inf))
    rows = rows_P_J[group, j]
    loss = loss_P_J[group, j]
    kept = _cheapest_of_each(rows, loss, most=2 * columns)
    group, rows, loss = group[kept], rows[kept], loss[kept]

    # Cheap groups first, so that the bound falls soon.
    cheapest_P = np.full(groups, np.inf)
    np.minimum.at(cheapest_P, group, loss)
    order = np.lexsort((loss, group, cheapest_P[group]))
    return _Changes(group[order], rows[order], loss[order]), bound


def _cheapest_of_each(rows: Integers, loss: Floats, most: int) -> Integers:
    """Where the changes are that are among the `most` cheapest ones by as many rows."""
    order = np.lexsort((loss, rows))
    sorted_rows = rows[order]
    rank = np.arange(len(order)) - np.searchsorted(sorted_rows, sorted_rows)
    return np.sort(order[rank < most])
