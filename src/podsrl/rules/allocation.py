r"""Sharing rows out to groups for the largest sum of their worths; exact, and nearly linear.

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

from collections.abc import Iterator
from itertools import pairwise
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
    loss: Floats  # of worth at the price

    def at(self, places: Integers | slice) -> "_Changes":
        """The changes at these places."""
        return _Changes(self.group[places], self.rows[places], self.loss[places])

    def by_group(self) -> "Iterator[_Changes]":
        """The changes of one group after the other."""
        starts = np.flatnonzero(np.diff(self.group, prepend=-1)).tolist()
        for start, end in pairwise([*starts, len(self.group)]):
            yield self.at(slice(start, end))


class _Sums(NamedTuple):
    """The least loss with which changes of the groups so far add up to each sum."""

    lowest: int
    least_loss: Floats  # of the sums lowest, lowest + 1, ...; inf where no changes add up to it

    def loss_of(self, total: int) -> float:
        """The least loss with which changes add up to this sum."""
        place = total - self.lowest
        is_there = 0 <= place < len(self.least_loss)
        return float(self.least_loss[place]) if is_there else np.inf

    def within(self, bound: float) -> "_Sums":
        """The sums with no larger loss, from the lowest of them to the highest."""
        least_loss = np.where(self.least_loss > bound, np.inf, self.least_loss)
        (kept,) = np.nonzero(least_loss < np.inf)
        first, last = int(kept[0]), int(kept[-1])
        return _Sums(self.lowest + first, least_loss[first : last + 1])


class _LastChange(NamedTuple):
    """By how much a group changes, where the sum with it is lowest, lowest + 1, ..."""

    group: int
    lowest: int
    rows: Integers


def _least_loss(worth_P_J: Floats, share_P: Integers, price: float, missing: int) -> Integers:
    """The changes of the shares that add up to `missing`, with the least loss at the price.

    It is a knapsack over the few changes that can be among them. A sum of changes is dropped once
    it has lost more than a way to reach `missing` that is known.
    """
    changes, bound = _cheap_changes(worth_P_J, share_P, price, missing)

    sums = _Sums(0, np.zeros(1))  # without a group: the sum 0, which loses nothing
    taken: list[_LastChange] = []
    for of_group in changes.by_group():
        sums, last_change = _with_group(sums, of_group)
        taken.append(last_change)
        bound = min(bound, sums.loss_of(missing))
        sums = sums.within(bound)

    # Back from `missing`: without the change of the last group, the sum is that of the others.
    changed_P = np.zeros_like(share_P)
    total = missing
    for group, lowest, rows in reversed(taken):
        changed_P[group] = rows[total - lowest]
        total -= int(changed_P[group])
    return changed_P


def _with_group(sums: _Sums, of_group: _Changes) -> tuple[_Sums, _LastChange]:
    """The sums with one more group, which changes by any of these or not at all."""
    before = sums.least_loss
    below = min(0, int(of_group.rows.min()))
    above = max(0, int(of_group.rows.max()))

    # As a group that does not change leaves them, in a range that all its changes stay in.
    least_loss = np.full(len(before) + above - below, np.inf)
    least_loss[-below : len(before) - below] = before
    last_rows = np.zeros(len(least_loss), dtype=np.int64)

    for rows, loss in zip(of_group.rows.tolist(), of_group.loss.tolist(), strict=True):
        reached = slice(rows - below, rows - below + len(before))
        with_change = before + loss
        is_less = with_change < least_loss[reached]
        least_loss[reached][is_less] = with_change[is_less]
        last_rows[reached][is_less] = rows

    lowest = sums.lowest + below
    return _Sums(lowest, least_loss), _LastChange(int(of_group.group[0]), lowest, last_rows)


def _cheap_changes(
    worth_P_J: Floats, share_P: Integers, price: float, missing: int
) -> tuple[_Changes, float]:
    """The changes that the best ones are among, and a loss that they do not exceed."""
    groups, columns = worth_P_J.shape
    j_J = np.arange(columns)
    rows_P_J = j_J - share_P[:, None]  # by which the share changes

    # No share is worth more at the price than the one a group has, except by rounding.
    value_P_J = worth_P_J - price * j_J
    value_of_share_P_1 = np.take_along_axis(value_P_J, share_P[:, None], axis=1)
    loss_P_J = np.maximum(value_of_share_P_1 - value_P_J, 0.0)

    bound = _loss_of_a_simple_way(loss_P_J, rows_P_J, missing)
    may_be_best_P_J = (rows_P_J != 0) & (loss_P_J <= bound) & (loss_P_J < np.inf)
    group, j = np.nonzero(may_be_best_P_J)
    changes = _Changes(group, rows_P_J[group, j], loss_P_J[group, j])

    # Of the changes by the same number of rows the 2n - 1 cheapest are enough; these are more.
    changes = changes.at(_cheapest_of_each(changes.rows, changes.loss, most=2 * columns))

    # Cheap groups first, so that the bound falls soon.
    cheapest_P = np.full(groups, np.inf)
    np.minimum.at(cheapest_P, changes.group, changes.loss)
    order = np.lexsort((changes.loss, changes.group, cheapest_P[changes.group]))
    return changes.at(order), bound


def _loss_of_a_simple_way(loss_P_J: Floats, rows_P_J: Integers, missing: int) -> float:
    """The loss of a way to reach `missing` that is found without a search; inf if none is.

    Either one group changes by all that is missing, or as many groups by one row each.
    """
    of_one_group = loss_P_J[rows_P_J == missing].min(initial=np.inf)

    by_one_row = np.sort(loss_P_J[rows_P_J == 1])[:missing]
    of_many_groups = by_one_row.sum() if len(by_one_row) == missing else np.inf

    # The same losses in another order may add up to a little more.
    return float(min(of_one_group, of_many_groups)) * (1 + 1e-12)


def _cheapest_of_each(rows: Integers, loss: Floats, most: int) -> Integers:
    """Where the changes are that are among the `most` cheapest ones by as many rows."""
    order = np.lexsort((loss, rows))
    sorted_rows = rows[order]
    rank = np.arange(len(order)) - np.searchsorted(sorted_rows, sorted_rows)
    return np.sort(order[rank < most])
