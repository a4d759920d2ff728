"""Which prompts to generate for next, from their history. Pure functions."""

from collections.abc import Callable

import numpy as np

from podsrl.downsampling.ordering import Integers, Seed
from podsrl.errors import InvalidInputError
from podsrl.prompts.history import Numbers, PromptHistory

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


def allocate(history: PromptHistory, rollouts: int, most: int = 8) -> Integers:
    r"""How many rollouts of each prompt, for the most groups with contrast.

    .. math:: \max \sum_i P_i(n_i), \quad \sum_i n_i = rollouts, \quad
        P_i(n) = 1 - E[p_i^n] - E[(1 - p_i)^n]

    P(n) is the chance that n rollouts are neither all right nor all wrong, by the posterior. For
    `max_contrast` each such group is worth a pair of rows. It takes the largest gains per rollout,
    which never grow; the last rollout stays unused where only a pair would gain.

    Args:
        history: What is known of the D prompts.
        rollouts: The number of rollouts in all, at most D x `most`, at least 2.
        most: The most rollouts of one prompt, at least 2.

    Returns:
        The number of rollouts of each prompt, shape (D,); 0 or at least 2.

    >>> history = PromptHistory.of(3)
    >>> history.update([0, 1, 2], [[1.0] * 50, [0.0] * 45 + [1.0] * 5, [0.0, 1.0] * 25])
    >>> allocate(history, 10).tolist()
    [0, 5, 5]
    """
    a_D, b_D = history.posterior()
    spread_D = history.spread()
    pair_D = spread_D * a_D * b_D / ((a_D + b_D) * (a_D + b_D + 1))
    # the gain of a prompt's first pair is its largest, so no more of them can be wanted than pairs
    best = np.argpartition(-pair_D, min(rollouts // 2, len(pair_D)) - 1)[: rollouts // 2]
    best = best[np.lexsort((best, -pair_D[best]))]
    a_D, b_D = a_D[best], b_D[best]
    mixed_J_D = 1 - _power_mean(a_D, b_D, most) - _power_mean(b_D, a_D, most)
    mixed_J_D *= spread_D[best]
    gain_J_D = np.diff(mixed_J_D[1:], axis=0)  # of the second rollout and on; one gains nothing
    gain_J_D[0] /= 2  # it comes with the first
    order = np.argsort(-gain_J_D.round(12), axis=None, kind="stable")
    cost = np.where(order < len(best), 2, 1)
    taken = order[np.cumsum(cost) <= rollouts] % len(best)
    number_D = np.bincount(taken, minlength=len(best))
    share_D = np.zeros(len(pair_D), dtype=np.int64)
    share_D[best] = number_D + (number_D > 0)
    return share_D


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


def _power_mean(a_D: Numbers, b_D: Numbers, most: int) -> Numbers:
    """E[p^n] of p ~ Beta(a, b), for n = 0..most; shape (most + 1, D)."""
    n_J = np.arange(most)[:, None]
    ratios = (a_D + n_J) / (a_D + b_D + n_J)
    return np.concatenate([np.ones((1, len(a_D))), np.cumprod(ratios, axis=0)])


def _largest(worth_D: Numbers, count: int, rng: np.random.Generator) -> Integers:
    """The indices of the largest, the largest first; of equal ones at random."""
    if not count:
        return np.zeros(0, dtype=np.int64)
    least = np.partition(worth_D, -count)[-count]
    above = np.flatnonzero(worth_D > least)
    level = np.flatnonzero(worth_D == least)
    drawn = rng.choice(level, count - len(above), replace=False)
    return np.concatenate([above[np.argsort(-worth_D[above], kind="stable")], drawn])
