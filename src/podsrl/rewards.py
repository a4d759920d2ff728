"""Rewards that are no plain numbers: one table of policies, which every host follows.

TRL has rewards by function, and follows it by `Rewards`. slime and verl have one reward of a
rollout, perhaps with named parts: it is NaN or a number, and `score_of_parts` is what the rule
sees.

| what happened | what the rule sees | what advantages compare | where it is kept |
|---|---|---|---|
| no function that counts scored the rollout | NaN: it is kept last | leave it out | advantage 0 |
| a function scored others of the prompt, but not this one ("partly scored") | NaN: it is kept \
last | leave it out | advantage 0 |
| a function scored no rollout of the prompt | the sum of the others | the sum of the others | as \
any other |
| a function has weight 0 | nothing of it | nothing of it | as any other |
| the rollout was cut off, and the host's loss leaves it out | NaN: it is kept last | its reward | \
no gradient, by the host |
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
from collections.abc import Iterable, Mapping
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
        cut_off_P_N: True where the host's loss leaves the rollout out because it was cut off.
        given_total_P_N: The rewards that are trained on, where the host has summed them itself.
    """

    by_function_P_N_F: Floats
    reward_weights_F: Floats
    selection_weights_F: Floats
    cut_off_P_N: Mask
    given_total_P_N: Floats | None = None

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
        """What the rule sees; NaN for what is kept last."""
        sums_P_N = self._sums(self.selection_weights_F)
        last_P_N = self.cut_off_P_N | self.partly_scored_P_N_F.any(axis=-1)
        return np.where(last_P_N, np.nan, sums_P_N)

    @cached_property
    def compared_P_N(self) -> Floats:
        """What advantages compare; NaN for what they leave out."""
        partly_P_N_F = partly_scored(self.by_function_P_N_F, self.reward_weights_F)
        return np.where(partly_P_N_F.any(axis=-1), np.nan, self.total_P_N)

    def _sums(self, weights_F: Floats, given_P_N: Floats | None = None) -> Floats:
        """The weighted sums, or what the host made of them, without what is rounding."""
        parts_P_N_F = self.by_function_P_N_F
        sums_P_N = weighted_sum(parts_P_N_F, weights_F) if given_P_N is None else given_P_N

        # A sum is as imprecise as its largest part: 1000.3 - 1000.2 is no better known than 1000.
        size_P_N = weighted_sum(np.abs(parts_P_N_F), np.abs(weights_F))
        rounding_P_N = 4 * np.finfo(parts_P_N_F.dtype).eps * size_P_N
        return without_rounding(sums_P_N, np.maximum(rounding_P_N, _NOTHING))


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
    """What a rule sees of one rollout whose reward has named parts: their weighted sum.

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
