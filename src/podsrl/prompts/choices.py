"""Which prompts to generate for next, from their history. Pure functions."""

from collections.abc import Callable

import numpy as np

from podsrl.errors import InvalidInputError
from podsrl.prompts.history import Numbers, PromptHistory
from podsrl.rules.ordering import Integers, Seed

#: Called as rule(history, count, rng); returns `count` different indices of prompts.
PromptRule = Callable[..., Integers]


def thompson(
    history: PromptHistory, count: int, rng: np.random.Generator, target: float | None = None
) -> Integers:
    r"""The prompts with the largest contrast by a draw from the posterior (MoPPS, 2507.04632).

    .. math:: p_i \sim \mathrm{Beta}(a_i, b_i), \quad \text{the largest } s_i p_i (1 - p_i)
        \text{, or the smallest } |p_i - target|

    s_i is `PromptHistory.spread`. The draw has the mean and the standard deviation of the Beta
    posterior, and is normal: a million of them take milliseconds.

    Args:
        history: What is known of the D prompts.
        count: The number of prompts to choose, at most D.
        rng: Where chance comes from.
        target: The pass rate that is wanted; None: the largest contrast.

    Returns:
        Their indices, shape (count,), all different.

    >>> history = PromptHistory.of(3)
    >>> history.update([0, 1, 2], [[1.0] * 50, [0.0] * 50, [0.0, 1.0] * 25])
    >>> thompson(history, 1, np.random.default_rng(0))
    array([2])
    """
    drawn_D, b_D = history.posterior()
    all_D = drawn_D + b_D
    drawn_D /= all_D  # the mean; in place, as a million new numbers cost a millisecond
    deviation_D = drawn_D * (1 - drawn_D)
    deviation_D /= all_D + 1
    np.sqrt(deviation_D, out=deviation_D)
    deviation_D *= rng.standard_normal(len(b_D), dtype=np.float32)
    drawn_D += deviation_D
    np.clip(drawn_D, 0.0, 1.0, out=drawn_D)
    if target is None:
        worth_D = drawn_D * (1 - drawn_D)
        worth_D *= history.spread()
        return _largest(worth_D, count, rng)
    return _largest(-np.abs(drawn_D - target), count, rng)


def skip(history: PromptHistory, count: int, rng: np.random.Generator, p: float = 0.5) -> Integers:
    r"""All prompts in turn, those that taught nothing more rarely (GRESO, arXiv 2506.02177).

    .. math:: \text{the largest } age_i \, \max(p^{z_i}, .01)

    z is the number of its last visits in a row with equal rewards, and its age the number of
    generations since. So its turn comes as often as where it is skipped with probability
    1 - max(p^z, .01) each time. Arguments and result are those of `thompson`.

    >>> history = PromptHistory.of(2)
    >>> for _ in range(4):
    ...     history.update([0], [[1.0, 1.0]]); history.update([1], [[0.0, 1.0]])
    >>> skip(history, 1, np.random.default_rng(0))  # 0 is older, and has taught nothing
    array([1])
    """
    age_D = np.where(history.seen_D < 0, np.inf, history.step - history.seen_D)
    often_Z = np.maximum(p ** np.arange(history.flat_D.max() + 1), 0.01)
    return _largest(age_D * often_Z[history.flat_D], count, rng)


def choose(
    history: PromptHistory, count: int, rule: PromptRule, seed: Seed = None, floor: float = 0.125
) -> Integers:
    """The prompts of the next generation: by a rule, and a share of them seen longest ago.

    So none is starved: each of D prompts is visited in D / (floor x count) generations, about.

    Args:
        history, count: As in `thompson`.
        rule: `thompson`, `skip`, or a function of the same arguments and result.
        seed: The same history, rule and seed give the same choice; None: chance.
        floor: The share that goes to those seen longest ago.

    Raises:
        InvalidInputError: A rule of the user's own returned something else than it should.

    >>> choose(PromptHistory.of(4), 2, thompson, seed=0)
    array([2, 3])
    """
    rng = np.random.default_rng(seed)
    due = int(floor * count * (history.step + 1)) - int(floor * count * history.step)
    oldest = _largest(-history.seen_D, due, rng)
    wanted = np.asarray(rule(history, count, rng))
    prompts = len(history.seen_D)
    inside = wanted[(wanted >= 0) & (wanted < prompts)] if wanted.dtype.kind in "iu" else ()
    if wanted.shape != (count,) or len(np.unique(inside)) < count:
        raise InvalidInputError(
            f"a rule for prompts must return {count} different integers in 0..{prompts - 1}; got"
            f" {wanted!r:.80}"
        )
    others = wanted[~np.isin(wanted, oldest)]
    return np.concatenate([oldest, others[: count - due]])


def _largest(worth_D: Numbers, count: int, rng: np.random.Generator) -> Integers:
    """The indices of the largest, the largest first; of equal ones at random."""
    if not count:
        return np.zeros(0, dtype=np.int64)
    least = np.partition(worth_D, -count)[-count]
    above = np.flatnonzero(worth_D > least)
    level = np.flatnonzero(worth_D == least)
    drawn = rng.choice(level, count - len(above), replace=False)
    return np.concatenate([above[np.argsort(-worth_D[above], kind="stable")], drawn])
