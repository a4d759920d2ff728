"""Down-sampling across a batch: any number of rows of each prompt, where they teach most."""

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from podsrl.downsampling.max_variance import best_of_sorted
from podsrl.downsampling.ordering import Order, Seed, sort_groups
from podsrl.downsampling.registry import as_rewards, refuse_infinite
from podsrl.errors import InvalidInputError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Rewards are scaled so that the widest group spans 2. Sums closer than this count as equal.
_EQUAL = 1e-9
_FILLER = 1e-5  # taken off for a row of a group without contrast; twice that if not scorable
_ROUNDING = 1e-12


def downsample_batch(rewards_P_N: Any, rows: int, seed: Seed = None) -> Any:
    r"""Mask of the rows to keep across the prompts of a batch, with exactly `rows` true.

    .. math:: \arg\max \sum_g \Big(\sum_{i \in S_g} (r_i - \bar r_{S_g})^2\Big)^{1/2},
        \quad \sum_g |S_g| = rows

    S_g are the kept rollouts of prompt g, and any number of them may be. Of equal choices (up to
    1e-9 of the widest group's spread) the most even spread over prompts is taken. Exact;
    docs/rules.md has the proof. A group without contrast gets no row while another has one left,
    and an unscorable rollout is taken last; both have advantage 0. Of one prompt it keeps what
    `downsample` keeps.

    Args:
        rewards_P_N: rewards, shape (P, n): a numpy array, a torch tensor on any device, or nested
            lists. NaN (or None in a list) means "could not be scored".
        rows: to keep in all, 0 <= rows <= P n.
        seed: breaks ties between rollouts and between prompts at random; None: by their order.

    Returns:
        kept_P_N, booleans, of the same kind and on the same device as `rewards_P_N`.

    Raises:
        InvalidInputError: infinite rewards, rows out of range, wrong rank.

    >>> downsample_batch([[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1]], rows=4)[1]
    [False, False, False, False]
    """
    rewards, as_lists = as_rewards(rewards_P_N)
    if rewards.ndim != 2:
        raise InvalidInputError(f"rewards must have shape (P, n); got {tuple(rewards.shape)}")
    values = np.asarray(rewards if as_lists else _on_cpu(rewards), dtype=np.float64)
    refuse_infinite(values)
    rows = _check_rows(rows, values)
    random = np.random.default_rng(seed) if seed is not None else None
    order = sort_groups(values, seed)
    kept = np.zeros(values.shape, dtype=bool)
    if rows:
        shares = _share_rows(_worths(order.ascending_P_N, order.count_P_1[:, 0]), rows, random)
        for share in np.unique(shares[shares > 0]).tolist():
            groups = np.flatnonzero(shares == share)
            best = best_of_sorted(Order(*(part[groups] for part in order)), share)
            kept[groups[:, None], best] = True
    if as_lists:
        return kept.tolist()
    if isinstance(rewards, np.ndarray):
        return kept
    import torch

    return torch.from_numpy(kept).to(rewards.device)


def _on_cpu(rewards: Any) -> Any:
    return rewards if isinstance(rewards, np.ndarray) else rewards.detach().double().cpu().numpy()


def _check_rows(rows: int, values: Floats) -> int:
    try:
        rows = operator.index(rows)
    except TypeError as error:
        raise InvalidInputError(f"rows must be an integer; got {rows!r}") from error
    if not 0 <= rows <= values.size:
        raise InvalidInputError(
            f"{rows} rows can't be kept of {values.shape[0]} x {values.shape[1]}; allowed is"
            f" 0 <= rows <= {values.size}"
        )
    return rows


def _worths(ascending_P_N: Floats, count_P: Integers) -> Floats:
    """What the best j rollouts of each group are worth, j = 0..n; shape (P, n + 1).

    The best j + 1 rollouts of a group are the best j and the one at an end that is farther from
    their mean: the lowest or the highest of those left.
    """
    groups, n = ascending_P_N.shape
    every = np.arange(groups)
    lowest, highest = ascending_P_N[:, 0] / 2, ascending_P_N[every, np.maximum(count_P - 1, 0)] / 2
    half_range = np.nan_to_num(highest - lowest)
    widest = half_range.max() or 1.0
    x_N_P = np.nan_to_num((ascending_P_N - (lowest + highest)[:, None]) / widest).T.copy()
    squares = np.zeros((n + 1, groups))
    low, high, mean = every.copy(), (count_P - 1) * groups + every, np.zeros(groups)  # places in x
    for j in range(n):
        below = mean - x_N_P.take(low, mode="clip")
        above = x_N_P.take(high, mode="clip") - mean
        is_high = above > below
        step = np.where(is_high, above, -below)
        squares[j + 1] = squares[j] + step * step * (j / (j + 1)) * (j < count_P)
        mean += step / (j + 1)
        low += groups * ~is_high
        high -= groups * is_high
    j_J = np.arange(n + 1)
    flat = _FILLER * (half_range <= 0)[:, None] * j_J
    unscorable = 2 * _FILLER * np.maximum(j_J - count_P[:, None], 0)
    worths: Floats = np.sqrt(squares).T - flat - unscorable - _EQUAL * j_J**2.0
    return worths


def _share_rows(worth_P_J: Floats, rows: int, random: np.random.Generator | None) -> Integers:
    """How many rows each group gets: those with the largest sum of worths."""
    price, least, most = _find_price(worth_P_J, rows)
    missing = rows - int(least.sum())
    order = np.flatnonzero(most > least)
    if random is not None:
        order = random.permutation(order)
    spans = np.cumsum((most - least)[order])
    filled = int(np.searchsorted(spans, missing, side="right"))
    shares = least.copy()
    shares[order[:filled]] = most[order[:filled]]
    missing -= int(spans[filled - 1]) if filled else 0
    if missing:
        surplus = worth_P_J - price * np.arange(worth_P_J.shape[1])
        loss = np.maximum(surplus.max(axis=1, keepdims=True) - surplus, 0.0)
        loss[loss < _ROUNDING] = 0.0
        for group, rows_of_group in _cheapest_change(loss, shares, missing).items():
            shares[group] = rows_of_group
    return shares


def _find_price(worth_P_J: Floats, rows: int) -> tuple[float, Integers, Integers]:
    """The price of a row at which the groups together want `rows`, and the fewest and most of each.

    At a price c group g wants the j with the largest worth_g(j) - c j. The sum of these, plus
    c rows, is convex in c and piecewise linear: its minimum is found where two tangents meet.
    """
    top = float(np.ptp(worth_P_J)) + 1.0
    (few, _), (_, many) = _wanted(worth_P_J, top), _wanted(worth_P_J, -top)
    while True:
        open_P = np.flatnonzero(many > few)  # the others want the same at all prices between
        worth, few_open, many_open = worth_P_J[open_P], few[open_P], many[open_P]
        every = np.arange(len(open_P))
        gain = np.sum(worth[every, many_open] - worth[every, few_open])
        price = float(gain / max(1, (many_open - few_open).sum()))
        least, most = few.copy(), many.copy()
        least[open_P], most[open_P] = _wanted(worth, price)
        if least.sum() > rows and least.sum() < many.sum():
            many = least
        elif most.sum() < rows and most.sum() > few.sum():
            few = most
        else:
            return price, least, most


def _wanted(worth_P_J: Floats, price: float) -> tuple[Integers, Integers]:
    """The fewest and the most rows that are best for each group at that price."""
    surplus = worth_P_J - price * np.arange(worth_P_J.shape[1])
    best = surplus >= surplus.max(axis=1, keepdims=True) - _ROUNDING
    return best.argmax(axis=1), best.shape[1] - 1 - best[:, ::-1].argmax(axis=1)


def _cheapest_change(loss_P_J: Floats, base_P: Integers, missing: int) -> dict[int, int]:
    """Which groups to give other numbers of rows, `missing` more in all, at the smallest loss.

    Some best change has no part that sums to 0 (undoing that part loses nothing), so its shifts
    can be ordered such that their partial sums differ and stay within n of 0: at most 2 n groups.

    Args:
        loss_P_J: of each number of rows; 0 at `base_P`.
        base_P: rows of each group.
        missing: 1..n.

    Returns:
        The new number of rows by group.
    """
    n = loss_P_J.shape[1] - 1
    able = np.flatnonzero(base_P + missing <= n)
    alone = loss_P_J[able, base_P[able] + missing]
    best, change = float(alone.min()), {int(able[alone.argmin()]): missing}
    group_E, to_E = np.nonzero(loss_P_J < best - _ROUNDING)  # no other entry can do better
    loss_E, shift_E = loss_P_J[group_E, to_E], to_E - base_P[group_E]
    at_least = _losses_without_limits(loss_E, shift_E, n)
    for most in (2, 2 * n):  # groups to try for each shift: those that lose least by it
        if best <= at_least[missing + 2 * n] + _ROUNDING:
            break
        hopeful = loss_E + at_least[missing - shift_E + 2 * n] < best - _ROUNDING
        entries = np.flatnonzero(hopeful & (shift_E != 0))
        entries = entries[np.lexsort((loss_E[entries], shift_E[entries]))]
        sorted_shifts = shift_E[entries]
        place = np.arange(len(entries)) - np.searchsorted(sorted_shifts, sorted_shifts)
        entries = np.sort(entries[place < most])  # group by group
        reached: dict[int, tuple[float, dict[int, int]]] = {0: (0.0, {})}
        for of_group in np.split(entries, np.flatnonzero(np.diff(group_E[entries])) + 1):
            steps = list(zip(shift_E[of_group].tolist(), loss_E[of_group].tolist(), strict=True))
            for total, (loss, path) in list(reached.items()):
                for shift, more in steps:
                    new, to = loss + more, total + shift
                    left = missing - to + 2 * n
                    bound = at_least[left] if 0 <= left < len(at_least) else 0.0
                    if new + bound < min(best, reached.get(to, (np.inf,))[0]) - _ROUNDING:
                        reached[to] = (new, {**path, int(group_E[of_group[0]]): shift})
        if missing in reached:
            best, change = reached[missing]
    return {group: int(base_P[group]) + shift for group, shift in change.items()}


def _losses_without_limits(loss_E: Floats, shift_E: Integers, n: int) -> Floats:
    """A bound: the smallest loss of any shifts that sum to -2n..2n, each as often as one likes."""
    sums = np.full(4 * n + 1, np.inf)
    sums[2 * n] = 0.0
    np.minimum.at(sums, shift_E + 2 * n, loss_E)
    while True:
        padded = np.pad(sums, 2 * n, constant_values=np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, 4 * n + 1)
        shorter = np.minimum(sums, (windows + sums[::-1]).min(axis=1))
        if not (shorter < sums).any():
            return sums
        sums = shorter
