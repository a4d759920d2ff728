"""`downsample` and `downsample_batch`: the way to all rules, where what goes in is checked."""

import math
import operator
from typing import Any

import numpy as np

from podsrl.arrays import Array, as_rewards, like
from podsrl.errors import InvalidInputError
from podsrl.plugins import user_code
from podsrl.rewards import refuse_infinite, without_rounding
from podsrl.rules.ordering import Floats, Mask, Seed
from podsrl.rules.registry import Rule, RuleName, resolve_rule, rule_name


def downsample(rewards_P_N: Any, m: int, rule: RuleName = "max_variance", seed: Seed = None) -> Any:
    """Indices of the m rollouts to keep in each group.

    Args:
        rewards_P_N: Rewards, shape (..., n): leading dimensions are batch, the last is the group.
            A numpy array, a torch tensor on any device, or nested lists. NaN (or None in a list)
            means "could not be scored": such a rollout is kept only when fewer than m others exist.
        m: The number of rollouts to keep per group, 1 <= m <= n.
        rule: A prompt rule: a name in `RULES`, "file.py:function", "module:function", or a callable
            (rewards_P_N, m, seed) -> kept_P_M.
        seed: The seed that breaks ties, and that of the rule "random"; None: the lowest index wins
            a tie.

    Returns:
        Integer indices, shape (..., m), ascending along the last axis, of the same kind and on the
        same device as `rewards_P_N`.

    Raises:
        InvalidInputError: Infinite rewards, m < 1, m > n, a wrong rank, a batch rule, or an invalid
            seed; or your own rule raised, takes other arguments, or returned an invalid result.
        UnknownNameError: There is no such rule.

    >>> downsample([[0.0, 0.0, 0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.1, 0.9, 1.0, 0.5]], m=2)
    [[0, 4], [0, 4]]
    """
    rewards = as_rewards(rewards_P_N)
    *batch, n = rewards.shape
    m = check_count(m, "m", least=1, most=n, among=f"of n = {n} rollouts")

    resolved = resolve_rule(rule)
    if resolved.across_prompts:
        raise InvalidInputError(
            f"rule {rule_name(rule)} keeps rows across prompts; give it to downsample_batch, with"
            " the number of rows"
        )
    refuse_infinite(rewards)
    _check_seed(seed)

    flat_P_N = rewards.reshape(math.prod(batch), n)
    chosen_P_M = _apply(resolved, rule, flat_P_N, m, seed)

    # Sorted by: chosen and scored, other scored ones, unscorable ones. So an unscorable rollout
    # comes last whatever a rule of the user's own makes of NaN.
    class_P_N = np.ones(flat_P_N.shape)
    np.put_along_axis(class_P_N, chosen_P_M, 0, axis=-1)
    class_P_N += 2 * np.isnan(flat_P_N)
    kept_P_M = np.sort(np.argsort(class_P_N, axis=-1, kind="stable")[:, :m], axis=-1)
    return like(rewards_P_N, kept_P_M.reshape(*batch, m))


def downsample_batch(
    rewards_P_N: Any, rows: int, rule: RuleName = "max_contrast", seed: Seed = None
) -> Any:
    """Mask of the rows to keep across the prompts of a batch, with exactly `rows` true.

    A rollout that could not be scored is kept only if too few others exist.

    Args:
        rewards_P_N: Rewards, shape (P, n), of the kinds that `downsample` takes.
        rows: The number of rows to keep in all, 0 <= rows <= P n.
        rule: A batch rule: a name in `RULES`, "file.py:function", "module:function", or a callable
            (rewards_P_N, rows, seed) -> kept_P_N that is marked by `podsrl.rule(scope="batch")`.
        seed: The seed that breaks ties between rollouts and between prompts; None: the first wins.

    Returns:
        kept_P_N, booleans, of the same kind and on the same device as `rewards_P_N`.

    Raises:
        InvalidInputError, UnknownNameError: As in `downsample`; a prompt rule is refused.

    >>> downsample_batch([[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1]], rows=4)[1]
    [False, False, False, False]
    """
    rewards = as_rewards(rewards_P_N)
    if rewards.ndim != 2:
        raise InvalidInputError(f"rewards must have shape (P, n); got {rewards.shape}")
    groups, n = rewards.shape
    rows = check_count(rows, "rows", least=0, most=groups * n, among=f"of {groups} x {n} rollouts")

    all_there_P_N = np.ones((groups, n), dtype=bool)
    return like(rewards_P_N, keep_rows(rewards, all_there_P_N, rows, rule, seed))


def keep_rows(rewards_P_N: Floats, there_P_N: Mask, rows: int, rule: RuleName, seed: Seed) -> Mask:
    """`downsample_batch` for groups of different sizes, where `there_P_N` says what exists.

    If fewer rollouts than `rows` could be scored, all of them are kept, and then unscorable ones.
    """
    resolved = resolve_rule(rule)
    if not resolved.across_prompts:
        raise InvalidInputError(
            f"rule {rule_name(rule)} keeps m of each prompt; give it to downsample, or mark a"
            ' function of your own by @podsrl.rule(scope="batch")'
        )
    refuse_infinite(rewards_P_N)
    _check_seed(seed)

    scorable_P_N = ~np.isnan(rewards_P_N)
    from_rule = min(rows, int(scorable_P_N.sum()))
    if from_rule == scorable_P_N.sum():
        kept_P_N = scorable_P_N.copy()
    else:
        kept_P_N = _apply(resolved, rule, rewards_P_N, from_rule, seed).copy()

    unscorable = np.argwhere(there_P_N & ~scorable_P_N)[: rows - from_rule]
    kept_P_N[tuple(unscorable.T)] = True
    return kept_P_N


def _apply(rule: Rule, name: RuleName, rewards_P_N: Floats, count: int, seed: Seed) -> Array:
    """Apply a rule; a user's own may raise, or return what it should not."""
    seen_P_N = seen_by(rule, rewards_P_N)
    with user_code(_file_of(rule, name), f"rule {rule_name(name)} failed"):
        kept = np.asarray(rule(seen_P_N, count, seed))

    problem_of = _problem_of_mask if rule.across_prompts else _problem_of_indices
    must, problem = problem_of(kept, rewards_P_N, count)
    if problem:
        raise InvalidInputError(f"rule {rule_name(name)} must return {must}; got {problem}")
    return kept


def weights_of_kept(name: RuleName, rewards_P_N: Floats, kept_P_N: Mask) -> Floats:
    """What the advantages of kept rollouts are multiplied by, shape (P, N).

    Args:
        name: The rule that has kept them, which has weights.
        rewards_P_N: The rewards that it was given.
        kept_P_N: True for what it has kept.

    Raises:
        InvalidInputError: The rule's function of the weights raised, or returned something else
            than a number of at least 0 for every kept rollout.
    """
    rule = resolve_rule(name)
    assert rule.weights is not None  # one without is not asked
    with user_code(_file_of(rule, name), f"the weights of rule {rule_name(name)} failed"):
        given = np.asarray(
            rule.weights(seen_by(rule, rewards_P_N), kept_P_N.copy(), **rule.options)
        )

    must = f"the weights of rule {rule_name(name)} must be numbers of shape {kept_P_N.shape}"
    if given.shape != kept_P_N.shape or given.dtype.kind not in "fiu":
        raise InvalidInputError(f"{must}; got shape {given.shape} of {given.dtype}")
    weights_P_N = np.where(kept_P_N, given, 1.0)
    wrong = weights_P_N[~(np.isfinite(weights_P_N) & (weights_P_N >= 0))]
    if wrong.size:
        raise InvalidInputError(f"{must}, of at least 0 where one is kept; got {wrong[0]:g}")
    return weights_P_N


def seen_by(rule: Rule, rewards_P_N: Array) -> Array:
    """The rewards as a rule sees them.

    The sum .1 + .2 differs from .3 by rounding, which is no contrast, and is not shown to a rule.
    One that compares prompts sees no difference that is rounding beside the batch's largest reward.
    """
    size = np.abs(rewards_P_N)
    if rule.across_prompts:
        size = np.fmax.reduce(size, axis=None, initial=0.0)
    return without_rounding(rewards_P_N, 4 * np.finfo(np.float64).eps * size)


def _problem_of_mask(kept: Array, rewards_P_N: Floats, rows: int) -> tuple[str, str]:
    """The form that a batch rule must return, and the problem of this value, "" if it has none."""
    shape = rewards_P_N.shape
    must = f"booleans of shape {shape} with {rows} true, none of them where the reward is NaN"
    if kept.shape != shape or kept.dtype.kind != "b":
        return must, f"shape {kept.shape} of {kept.dtype}"
    if np.isnan(rewards_P_N[kept]).any():
        return must, "rollouts that could not be scored (NaN)"
    if kept.sum() != rows:
        return must, str(int(kept.sum()))
    return must, ""


def _problem_of_indices(kept: Array, rewards_P_N: Floats, m: int) -> tuple[str, str]:
    """The form that a prompt rule must return, and the problem of this value, "" if it has none."""
    groups, n = rewards_P_N.shape
    shape = (groups, m)
    must = f"integers of shape {shape}, different within a group and in 0..{n - 1}"
    if kept.shape != shape or kept.dtype.kind not in "iu":
        return must, f"shape {kept.shape} of {kept.dtype}"
    if groups and (kept.min() < 0 or kept.max() >= n):
        return must, f"indices from {kept.min()} to {kept.max()}"
    if (np.diff(np.sort(kept, axis=-1)) == 0).any():
        return must, "the same index twice in a group"
    return must, ""


def _file_of(rule: Rule, name: RuleName) -> str:
    """The file that a rule's errors are told to come from."""
    stem, in_file, _ = str(name).partition(".py:")
    if in_file:
        return f"{stem}.py"
    code = getattr(rule.function, "__code__", None)
    return str(getattr(code, "co_filename", "a function of C"))


def _check_seed(seed: Seed) -> None:
    """Refuse what numpy can't make random numbers of, here and not inside the rule."""
    if seed is None:
        return
    try:
        np.random.SeedSequence(seed)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"seed must be None, an integer >= 0 or a list of such ones; got {seed!r}"
        ) from error


def check_count(count: int, name: str, least: int, most: int, among: str) -> int:
    """A number of rollouts as Python's integer, if it is one within its bounds.

    Args:
        count: What was given.
        name: The argument's name, for messages.
        least, most: The bounds, included.
        among: What they are kept of, for messages.
    """
    try:
        if isinstance(count, bool):
            raise TypeError("True is no number of rollouts")
        count = operator.index(count)
    except TypeError as error:
        raise InvalidInputError(f"{name} must be an integer; got {count!r}") from error
    if not least <= count <= most:
        raise InvalidInputError(
            f"{name} = {count} can't be kept {among}; allowed is {least} <= {name} <= {most}"
        )
    return count
