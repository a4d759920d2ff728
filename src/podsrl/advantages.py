"""Group-relative advantages of the kept rollouts: the one formula, which every host calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from podsrl.arrays import Array, as_array, as_rewards, like
from podsrl.errors import InvalidInputError
from podsrl.rewards import refuse_infinite


@dataclass(frozen=True)
class Baseline:
    """The rewards that the kept ones of a group are compared with, and what follows for a host.

    Args:
        counted: The mask of these rewards, from the mask of the kept rollouts. Their mean is
            subtracted, and by their deviation is divided.
        sums_to_zero: Whether the advantages that are kept of a group sum to 0. If not, a row may be
            kept alone, a host must not subtract their mean once more, and it can't compute them
            itself from the kept rows.
    """

    counted: Callable[[Any], Any]
    sums_to_zero: bool


#: The kept rewards (arXiv 2504.13818, algorithm 1), or all n (Reinforce-Ada, arXiv 2510.04996).
#: Another mask is a line here; another formula is a change of `group_advantages`.
BASELINES: dict[str, Baseline] = {
    "kept": Baseline(counted=lambda kept_P_N: kept_P_N, sums_to_zero=True),
    "group": Baseline(counted=lambda kept_P_N: kept_P_N | True, sums_to_zero=False),
}


def group_advantages(
    rewards_P_N: Any,
    kept: Any,
    baseline: Literal["kept", "group"] = "kept",
    scale: bool = True,
    eps: float = 1e-4,
    correction: int = 1,
) -> Any:
    r"""Advantages of the kept rollouts, normalised within their group.

    .. math:: a_i = (r_i - \mathrm{mean}(R)) / (\mathrm{std}(R) + \epsilon), \quad i \in S

    R are the rewards of the baseline. A NaN reward (could not be scored) counts neither in the mean
    nor in the standard deviation, and gets advantage 0.

    Args:
        rewards_P_N: Rewards, shape (..., n); numpy, torch or nested lists.
        kept: Indices from `downsample`, shape (..., m), or booleans from `downsample_batch`, shape
            (..., n).
        baseline: "kept": R are the kept rewards. "group": R are the rewards of all n rollouts.
        scale: Whether to divide by the standard deviation; False gives r - mean (Dr. GRPO).
        eps: The number that is added to the standard deviation, in units of reward.
        correction: 1 for the sample standard deviation (divided by count - 1), 0 for that of the
            population.

    Returns:
        The advantages, of the kind of `rewards_P_N` and of the shape of `kept`; 0 where `kept` is
        False.

    Raises:
        InvalidInputError: An unknown baseline, shapes that don't match, indices out of range, an
            infinite reward, or rewards so far apart that their deviation is not a finite number.

    >>> group_advantages([0.0, 0.0, 1.0], [0, 2], eps=0.0)  # mean 1/2, std sqrt(1/2)
    [-0.7071067811865475, 0.7071067811865475]
    """
    given_P_N = as_rewards(rewards_P_N)
    chosen = as_array(kept)
    if baseline not in BASELINES:
        raise InvalidInputError(f"unknown baseline {baseline!r}; allowed: {', '.join(BASELINES)}")
    refuse_infinite(given_P_N)
    kept_P_N = _mask_of(chosen, given_P_N.shape)

    counted_P_N = BASELINES[baseline].counted(kept_P_N) & ~np.isnan(given_P_N)
    count_P_1 = counted_P_N.sum(axis=-1, keepdims=True)
    total_P_1 = np.where(counted_P_N, given_P_N, 0.0).sum(axis=-1, keepdims=True)
    away_P_N = given_P_N - total_P_1 / np.maximum(count_P_1, 1)

    # The mean of equal rewards may differ from them by rounding, which is no advantage.
    rounding_P_N = count_P_1 * np.finfo(np.float64).eps * np.abs(given_P_N)
    advantages_P_N = np.where(np.abs(away_P_N) <= rounding_P_N, 0.0, away_P_N)

    if scale:
        with np.errstate(over="ignore"):  # it is refused below
            square_P_1 = np.where(counted_P_N, advantages_P_N**2, 0.0).sum(axis=-1, keepdims=True)
        if np.isinf(square_P_1).any():
            raise InvalidInputError(
                "rewards of a group lie so far apart that the square of their difference is"
                " infinite, and every advantage would be 0; give smaller rewards"
            )

        divisor_P_1 = np.sqrt(square_P_1 / np.maximum(count_P_1 - correction, 1)) + eps
        # With eps = 0 and equal rewards this would be 0/0; the advantage is 0.
        advantages_P_N = advantages_P_N / np.where(divisor_P_1 > 0, divisor_P_1, 1.0)

    advantages_P_N = np.where(kept_P_N & ~np.isnan(advantages_P_N), advantages_P_N, 0.0)
    if chosen.dtype != bool:
        return like(rewards_P_N, np.take_along_axis(advantages_P_N, chosen, axis=-1))
    return like(rewards_P_N, advantages_P_N)


def _mask_of(chosen: Array, shape: tuple[int, ...]) -> Array:
    """The kept rollouts as booleans of this shape, from such booleans or from indices."""
    by_index = chosen.dtype != bool
    compared = slice(-1) if by_index else slice(None)  # dimensions that must be the same
    if shape[compared] != chosen.shape[compared]:
        raise InvalidInputError(
            f"rewards {shape} and kept {chosen.shape} must have the same dimensions,"
            " except for the last where kept holds indices"
        )
    if not by_index:
        return chosen

    if chosen.dtype.kind not in "iu" or ((chosen < 0) | (chosen >= shape[-1])).any():
        raise InvalidInputError(f"kept must hold booleans, or integers in 0..{shape[-1] - 1}")
    kept_P_N = np.zeros(shape, dtype=bool)
    np.put_along_axis(kept_P_N, chosen, True, axis=-1)
    return kept_P_N
