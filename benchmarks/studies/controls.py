"""Rules that tell apart what makes a method lead: which rows it keeps, or what weights they get.

Rewards are 1 for a right answer and 0 for a wrong one. A plan names a rule by this file, such as
`benchmarks/studies/controls.py:right_alike`.
"""

import numpy as np

import podsrl
from podsrl.rules.ordering import Floats, Integers, Mask, Seed


def _of_right(rewards_P_N: Floats, kept_P_N: Mask) -> Floats:
    """1 for a right answer, 0 for a wrong one."""
    return (rewards_P_N > 0.5).astype(float)


def _alike(rewards_P_N: Floats, kept_P_N: Mask) -> Floats:
    """What makes the advantage of every right answer 1, as in RAFT; 0 for a wrong one.

    Of a prompt with right answers alone the advantages are 0, and stay so.
    """
    wrong_P_1 = 1 - rewards_P_N.mean(axis=-1, keepdims=True)
    deviation_P_1 = rewards_P_N.std(axis=-1, ddof=1, keepdims=True)
    of_advantage_P_1 = deviation_P_1 / np.maximum(wrong_P_1, 1e-9)
    return of_advantage_P_1 * _of_right(rewards_P_N, kept_P_N)


def _wrong_at_a_tenth(rewards_P_N: Floats, kept_P_N: Mask) -> Floats:
    """1 for a right answer, a tenth for a wrong one."""
    return np.where(rewards_P_N > 0.5, 1.0, 0.1)


@podsrl.rule(scope="batch", weights=_of_right)
def contrast_without_wrong(rewards_P_N: Floats, rows: int, seed: Seed = None) -> Mask:
    """The rows of `max_contrast`, of which wrong answers teach nothing."""
    return podsrl.RULES["max_contrast"].function(rewards_P_N, rows, seed)


@podsrl.rule(weights=_alike)
def right_alike(rewards_P_N: Floats, m: int, seed: Seed = None) -> Integers:
    """The rows of rejection sampling, of which right answers have equal weights."""
    return podsrl.RULES["max_reward"].function(rewards_P_N, m, seed)


@podsrl.rule(weights=_wrong_at_a_tenth)
def random_and_wrong_at_a_tenth(rewards_P_N: Floats, m: int, seed: Seed = None) -> Integers:
    """Rows at random, of which wrong answers teach a tenth."""
    return podsrl.RULES["random"].function(rewards_P_N, m, seed)
