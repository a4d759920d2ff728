"""Rewards that are no plain numbers: one table of policies, which every host follows.

`Rewards` is the table at work. TRL has rewards by function. verl, slime and tinker have one reward
of a rollout, perhaps with named parts, in groups that may differ in size: `rewards_of_groups`.

| what happened | what the rule sees | what advantages compare | where it is kept |
|---|---|---|---|
| no function that counts scored the rollout | NaN: it is kept last | leave it out | advantage 0 |
| a function scored others of the prompt, but not this one ("partly scored") | NaN: it is kept \
last | leave it out | advantage 0 |
| a function scored no rollout of the prompt | the sum of the others | the sum of the others | as \
any other |
| a function has weight 0 | nothing of it | nothing of it | as any other |
| the host's loss leaves the rollout out: it was cut off, or removed | NaN: it is kept last | its \
reward | no gradient, by the host |
| the host normalises each function's rewards before it sums them (`normalises_first`) | the sum \
of what is normalised over all n | what the host makes of the kept ones | as any other |
| it differs from another of its prompt by rounding, as .1 + .2 from .3 | it is equal | it is \
equal | as any other |
| a reward is infinite, or too large to be squared | an error, which in TRL names function and \
step | | |

None, in a list, is NaN. A function counts if its weight is not 0: for what the rule sees its weight
in the selection, for what advantages compare its weight in the reward. Where nothing is dropped (n
= m) advantages are the host's own, which counts 0 for a missing part. A rollout that is partly
scored is left out because the host's sum counts 0 for the missing part, though nobody judged it
wrong.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from podsrl.errors import InvalidInputError

Floats = npt.NDArray[np.floating[Any]]
Mask = npt.NDArray[np.bool_]

#: Sums that differ by no more than this are equal, however small their parts are. TRL adds 1e-4 to
#: the deviation that it divides by, so such a difference would give advantages of 1e-8.
_NOTHING = 1e-12


@dataclass(frozen=True, repr=False)
class Rewards:
    """The rewards of P prompts with N rollouts each, by F functions, as the table above says.

    Args:
        by_function_P_N_F: What each function gave, NaN where it gave none.
        reward_weights_F: The weight of each function in the reward that is trained on.
        selection_weights_F: The weight of each function in what the rule selects by.
        masked_P_N: True where the host's loss leaves the rollout out, such as one that was cut off.
        names_F: The names of the functions, for metrics; () for none.
        given_total_P_N: The rewards that are trained on, where the host has summed them itself.
        given_scores_P_N: What the rule sees, where it is no weighted sum of what functions gave.
        generated_P_N: True where there is a rollout, if groups differ in size.
        normalises_first: Whether the host normalises each function's rewards within their group,
            and then sums them.
    """

    by_function_P_N_F: Floats
    reward_weights_F: Floats
    selection_weights_F: Floats
    masked_P_N: Mask
    names_F: Sequence[str] = ()
    given_total_P_N: Floats | None = None
    given_scores_P_N: Floats | None = None
    generated_P_N: Mask | None = None
    normalises_first: bool = False

    @cached_property
    def total_P_N(self) -> Floats:
        """The rewards that are trained on: the weighted sums; NaN where no function counts."""
        return self._sums(self.reward_weights_F, self.given_total_P_N)

    @cached_property
    def partly_scored_P_N_F(self) -> Mask:
        """Where a function that is selected by gave none, though it scored others."""
        return partly_scored(self.by_function_P_N_F, self.selection_weights_F)

    @cached_property
    def scores_P_N(self) -> Floats:
        """The scores that the rule sees, shape (P, N); NaN for what is kept last."""
        if self.normalises_first and self.given_scores_P_N is None:
            everything_P_N = np.ones(self.masked_P_N.shape, dtype=bool)
            sums_P_N = self.normalised_sums(self.selection_weights_F, everything_P_N)
        else:
            sums_P_N = self._sums(self.selection_weights_F, self.given_scores_P_N)
        last_P_N = self.masked_P_N | self.partly_scored_P_N_F.any(axis=-1)
        return np.where(last_P_N, np.nan, sums_P_N)

    @cached_property
    def compared_P_N(self) -> Floats:
        """The rewards that advantages compare, shape (P, N); NaN for what they leave out."""
        partly_P_N_F = partly_scored(self.by_function_P_N_F, self.reward_weights_F)
        return np.where(partly_P_N_F.any(axis=-1), np.nan, self.total_P_N)

    @property
    def mean(self) -> float:
        """The mean of all rewards that are known; NaN if none is."""
        known = self.total_P_N[~np.isnan(self.total_P_N)]
        return float(known.mean()) if known.size else math.nan

    def normalised_sums(self, weights_F: Floats, counted_P_N: Mask) -> Floats:
        r"""The weighted sums of each function's rewards, normalised within their group.

        .. math:: s_i = \sum_f w_f (r_{if} - \mathrm{mean}_f) / (\mathrm{std}_f + 10^{-4})

        This is TRL's "normalize_then_sum" (GDPO, arXiv 2601.05242), up to its second
        normalisation, which is one of the whole batch and changes no order.

        Args:
            weights_F: The weight of each function.
            counted_P_N: The rollouts whose mean and deviation are meant: all n, or the kept ones.
        """
        parts_P_N_F = self.by_function_P_N_F.astype(np.float64)
        counted_P_N_F = counted_P_N[..., None] & ~np.isnan(parts_P_N_F)
        count_P_1_F = counted_P_N_F.sum(axis=1, keepdims=True)

        known_P_N_F = np.where(counted_P_N_F, parts_P_N_F, 0.0)
        mean_P_1_F = known_P_N_F.sum(axis=1, keepdims=True) / np.maximum(count_P_1_F, 1)
        away_P_N_F = parts_P_N_F - mean_P_1_F

        # The mean of equal rewards may differ from them by rounding, which is no difference.
        precision = np.finfo(self.by_function_P_N_F.dtype).eps
        rounding_P_N_F = 4 * precision * np.abs(parts_P_N_F)
        away_P_N_F = np.where(np.abs(away_P_N_F) <= rounding_P_N_F, 0.0, away_P_N_F)
        square_P_N_F = np.where(counted_P_N_F, away_P_N_F**2, 0.0)
        variance_P_1_F = square_P_N_F.sum(axis=1, keepdims=True) / np.maximum(count_P_1_F - 1, 1)

        normalised_P_N_F = away_P_N_F / (np.sqrt(variance_P_1_F) + 1e-4)
        sums_P_N = weighted_sum(normalised_P_N_F, weights_F)
        size_P_N = weighted_sum(np.abs(normalised_P_N_F), np.abs(weights_F))
        return without_rounding(sums_P_N, np.maximum(4 * precision * size_P_N, _NOTHING))

    def _sums(self, weights_F: Floats, given_P_N: Floats | None = None) -> Floats:
        """The weighted sums, or what the host made of them, without what is rounding."""
        parts_P_N_F = self.by_function_P_N_F
        if given_P_N is None:
            sums_P_N = weighted_sum(parts_P_N_F, weights_F)
            size_P_N = weighted_sum(np.abs(parts_P_N_F), np.abs(weights_F))
        else:
            sums_P_N = given_P_N
            size_P_N = np.abs(given_P_N)

        # A sum is as imprecise as its largest part: 1000.3 - 1000.2 is no better known than 1000.
        rounding_P_N = 4 * np.finfo(parts_P_N_F.dtype).eps * size_P_N
        return without_rounding(sums_P_N, np.maximum(rounding_P_N, _NOTHING))


#: Numbers that a reward function gives beside the parts of its reward: the reward itself, and a
#: mark.
_NOT_PARTS = ("score", "unscorable")


def rewards_of_groups(
    rewards: Sequence[Sequence[float]],
    parts: Sequence[Sequence[Mapping[str, Any]]] | None = None,
    selection_weights: Mapping[str, float] | None = None,
    masked: Sequence[Sequence[bool]] | None = None,
) -> Rewards:
    """The rewards of groups that may differ in size, with one reward for each rollout.

    Args:
        rewards: The reward of each rollout of each group; NaN if it could not be scored.
        parts: The parts of each reward by their names; what is no number is left out.
        selection_weights: What to select by, as weights of parts; None: the reward.
        masked: True where the host's loss leaves the rollout out.

    Raises:
        InvalidInputError: An infinite reward, or a part that a weight names is missing.

    >>> rewards_of_groups([[1.0, 0.0], [0.5]]).scores_P_N.tolist()
    [[1.0, 0.0], [0.5, nan]]
    """
    total_P_N, generated_P_N = padded(rewards)
    refuse_infinite(total_P_N)
    if parts is None:
        parts = [[{}] * len(group) for group in rewards]

    scores_P_N = None
    if selection_weights is not None:
        scores: list[list[float]] = []
        for group, parts_of in zip(rewards, parts, strict=True):
            rollouts = zip(group, parts_of, strict=True)
            scores.append([score_of_parts(*rollout, selection_weights) for rollout in rollouts])
        scores_P_N, _ = padded(scores)
        refuse_infinite(scores_P_N)

    # A rollout that could not be scored has no parts either.
    names_F = _names_of_parts(parts)
    by_part_P_N_F = np.full((*total_P_N.shape, len(names_F)), math.nan)
    for f, name in enumerate(names_F):
        of_part_P_N, _ = padded([[as_number(of.get(name)) for of in group] for group in parts])
        by_part_P_N_F[..., f] = np.where(np.isnan(total_P_N), math.nan, of_part_P_N)

    return Rewards(
        by_function_P_N_F=by_part_P_N_F,
        reward_weights_F=np.zeros(len(names_F)),
        selection_weights_F=np.zeros(len(names_F)),
        masked_P_N=np.zeros_like(generated_P_N) if masked is None else padded(masked)[0] == 1,
        names_F=names_F,
        given_total_P_N=total_P_N,
        given_scores_P_N=total_P_N if scores_P_N is None else scores_P_N,
        generated_P_N=generated_P_N,
    )


def padded(groups: Sequence[Any]) -> tuple[npt.NDArray[np.float64], Mask]:
    """Groups of any sizes as one array, NaN where there is no rollout, and where there is one.

    There is a column also where no group has a rollout, since rewards have at least one.

    >>> padded([[1.0, 0.0], [1.0]])[1].tolist()
    [[True, True], [True, False]]
    """
    largest = max([1, *(len(group) for group in groups)])
    values_P_N = np.full((len(groups), largest), math.nan)
    there_P_N = np.zeros((len(groups), largest), dtype=bool)
    for place, group in enumerate(groups):
        values_P_N[place, : len(group)] = group
        there_P_N[place, : len(group)] = True
    return values_P_N, there_P_N


def _names_of_parts(parts: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """The names of the numbers that a reward function gave beside the reward."""
    names: set[str] = set()
    for group in parts:
        for of_rollout in group:
            names.update(name for name, value in of_rollout.items() if is_number(value))
    return sorted(names.difference(_NOT_PARTS))


def weighted_sum(parts_F: Floats, weights_F: Floats) -> Floats:
    """Sums over the last axis, in the parts' precision; NaN where no part that counts is there.

    Args:
        parts_F: Rewards by function, shape (..., F); NaN where a function gave none.
        weights_F: The weight of each function, shape (F,). One of weight 0 does not count, also
            where its part is NaN.

    >>> weighted_sum(np.array([[1.0, np.nan], [np.nan, np.nan]]), np.array([1.0, 0.5])).tolist()
    [1.0, nan]
    """
    weights_F = np.asarray(weights_F, dtype=parts_F.dtype)
    counts_F = weights_F != 0
    missing = (np.isnan(parts_F) | ~counts_F).all(axis=-1)
    sums = np.nansum(parts_F[..., counts_F] * weights_F[counts_F], axis=-1)
    return np.where(missing, np.nan, sums)


def without_rounding(values_P_N: Floats, rounding_P_N: Any) -> Floats:
    """The values, where those of a group that differ by rounding alone have become equal.

    Values of a group form a run where each differs from the next lower one by rounding. All values
    of a run become its lowest.

    Args:
        values_P_N: Rewards, shape (P, N); NaN stays NaN.
        rounding_P_N: The largest difference that is rounding, for each value or for all, in units
            of reward.

    >>> without_rounding(np.array([[0.1 + 0.2, 0.3, 1.0]]), 1e-15).tolist()
    [[0.3, 0.3, 1.0]]
    """
    order_P_N = np.argsort(values_P_N, axis=-1)
    ascending_P_N = np.take_along_axis(values_P_N, order_P_N, axis=-1)
    rounding_P_N = np.broadcast_to(rounding_P_N, values_P_N.shape)
    rounding_P_N = np.take_along_axis(rounding_P_N, order_P_N, axis=-1)

    # Halves are subtracted, since the difference of two large rewards may not be a finite number.
    half_gap_P_N = np.diff(ascending_P_N / 2, axis=-1)
    is_same_P_N = np.isfinite(half_gap_P_N) & (half_gap_P_N <= rounding_P_N[:, 1:] / 2)
    if not (is_same_P_N & (half_gap_P_N > 0)).any():
        return values_P_N

    # Where the run of each value begins. A value that continues a run gets the place 0, so that the
    # largest place up to it is that of the run's first value.
    run_start_P_N = np.broadcast_to(np.arange(values_P_N.shape[-1]), values_P_N.shape).copy()
    run_start_P_N[:, 1:][is_same_P_N] = 0
    run_start_P_N = np.maximum.accumulate(run_start_P_N, axis=-1)
    lowest_of_run_P_N = np.take_along_axis(ascending_P_N, run_start_P_N, axis=-1)

    result_P_N = np.empty_like(values_P_N)
    np.put_along_axis(result_P_N, order_P_N, lowest_of_run_P_N, axis=-1)
    return result_P_N


def partly_scored(parts_P_N_F: Floats, weights_F: Floats) -> Mask:
    """Where a function that counts gave no reward to a rollout that another one scored.

    A function that scored none of the prompt's rollouts lacks none, nor does a rollout that no
    function scored: see the table above.

    Args:
        parts_P_N_F: Rewards by function; NaN where a function gave none.
        weights_F: The weight of each function; one of weight 0 does not count.
    """
    scored_P_N_F = ~np.isnan(parts_P_N_F) & (np.asarray(weights_F) != 0)
    function_scored_others = scored_P_N_F.any(axis=1, keepdims=True)
    rollout_has_others = scored_P_N_F.any(axis=2, keepdims=True)
    return function_scored_others & rollout_has_others & ~scored_P_N_F


def score_of_parts(reward: float, parts: Mapping[str, Any], weights: Mapping[str, float]) -> float:
    """The score of one rollout whose reward has named parts: their weighted sum.

    The name "score" stands for the reward itself. A rollout whose reward is NaN stays NaN.

    Raises:
        InvalidInputError: A weight names a part that is missing, or that is no number.

    >>> score_of_parts(1.2, {"right": 1.0, "form": 0.2}, {"right": 2.0})
    2.0
    """
    if math.isnan(reward):
        return reward
    parts = {"score": reward, **parts}
    for name in weights:
        if name not in parts or not is_number(parts[name]):
            numbers = ", ".join(part for part, value in parts.items() if is_number(value))
            raise InvalidInputError(
                f"selection_weights names {name!r}, and the reward function gave no number of that"
                f" name; it gave: {numbers}"
            )
    values_F = np.array([as_number(parts[name]) for name in weights])
    weights_F = np.array(list(weights.values()), dtype=np.float64)
    return float(weighted_sum(values_F, weights_F))


def refuse_infinite(rewards: npt.NDArray[Any]) -> None:
    """Raise `InvalidInputError` if a reward is infinite."""
    if np.isinf(rewards).any():
        raise InvalidInputError(
            "rewards contain an infinite value; allowed are finite numbers, and NaN for a rollout"
            " that could not be scored"
        )


def are_weights(values: Iterable[Any]) -> bool:
    """Whether values are finite numbers, and not all of them 0."""
    values = list(values)
    return all(is_number(value) and math.isfinite(value) for value in values) and any(values)


def is_number(value: Any) -> bool:
    """Whether a value is a real number (or a boolean), NaN included."""
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def as_number(value: Any) -> float:
    """A value as a float, and NaN for what is no number or none that a float can hold."""
    try:
        return float(value) if is_number(value) else math.nan
    except OverflowError:  # an integer of more than 308 digits, as a model may write one
        return math.nan
