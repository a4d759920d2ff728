"""`downsample` and `downsample_batch`: the doors to all rules, where what goes in is checked."""

import math
import operator
from typing import Any

import numpy as np

from podsrl.arrays import Array, as_rewards, like
from podsrl.downsampling.ordering import Floats, Seed
from podsrl.downsampling.registry import Rule, is_batch_rule, resolve_rule
from podsrl.errors import InvalidInputError
from podsrl.plugins import user_code


def downsample(
    rewards_P_N: Any, m: int, rule: str | Rule = "max_variance", seed: Seed = None
) -> Any:
    """Indices of the m rollouts to keep in each group.

    Args:
        rewards_P_N: Rewards, shape (..., n): leading dimensions are batch, the last is the group.
            A numpy array, a torch tensor on any device, or nested lists. NaN (or None in a list)
            means "could not be scored": such a rollout is kept only when fewer than m others exist.
        m: The number of rollouts to keep per group, 1 <= m <= n.
        rule: A group rule: a name in `RULES`, "file.py:function", "module:function", or a callable
            (rewards_P_N, m, seed) -> kept_P_M.
        seed: Breaks ties at random and drives the rule "random"; None breaks ties by lowest index.

    Returns:
        Integer indices, shape (..., m), ascending along the last axis, of the same kind and on the
        same device as `rewards_P_N`.

    Raises:
        InvalidInputError: Infinite rewards, m < 1, m > n, wrong rank, a batch rule; or a rule of
            yours raised, takes other arguments, or returned something else than it should.
        UnknownNameError: There is no such rule.

    >>> downsample([[0.0, 0.0, 0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.1, 0.9, 1.0, 0.5]], m=2)
    [[0, 4], [0, 4]]
    """
    rewards = as_rewards(rewards_P_N)
    *batch, n = rewards.shape
    m = _check_count(m, "m", least=1, most=n, of=f"of n = {n} rollouts")
    function = resolve_rule(rule)
    if is_batch_rule(function):
        raise InvalidInputError(
            f"rule {rule_name(rule)} keeps rows across prompts; give it to downsample_batch, with"
            " the number of rows"
        )
    refuse_infinite(rewards)
    flat_P_N = rewards.reshape(math.prod(batch), n)
    left_P_N = np.ones(flat_P_N.shape)
    np.put_along_axis(left_P_N, _called(function, rule, flat_P_N, m, seed), 0, axis=-1)
    left_P_N += 2 * np.isnan(flat_P_N)  # last, whatever a rule of the user's own makes of them
    kept = np.sort(np.argsort(left_P_N, axis=-1, kind="stable")[:, :m], axis=-1)
    return like(rewards_P_N, kept.reshape(*batch, m))


def downsample_batch(
    rewards_P_N: Any, rows: int, rule: str | Rule = "max_contrast", seed: Seed = None
) -> Any:
    """Mask of the rows to keep across the prompts of a batch, with exactly `rows` true.

    A rollout that could not be scored is kept only when no other is left.

    Args:
        rewards_P_N: Rewards, shape (P, n), of the kinds that `downsample` takes.
        rows: The number of rows to keep in all, 0 <= rows <= P n.
        rule: A batch rule: a name in `RULES`, "file.py:function", "module:function", or a callable
            (rewards_P_N, rows, seed) -> kept_P_N that is marked by `podsrl.batch_rule`.
        seed: Breaks ties between rollouts and between prompts at random; None: by their order.

    Returns:
        kept_P_N, booleans, of the same kind and on the same device as `rewards_P_N`.

    Raises:
        InvalidInputError, UnknownNameError: As in `downsample`; a group rule is refused.

    >>> downsample_batch([[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1]], rows=4)[1]
    [False, False, False, False]
    """
    rewards = as_rewards(rewards_P_N)
    if rewards.ndim != 2:
        raise InvalidInputError(f"rewards must have shape (P, n); got {rewards.shape}")
    groups, n = rewards.shape
    rows = _check_count(rows, "rows", least=0, most=groups * n, of=f"of {groups} x {n} rollouts")
    return like(rewards_P_N, keep_rows(rewards, np.ones((groups, n), bool), rows, rule, seed))


def keep_rows(
    rewards_P_N: np.ndarray, there_P_N: np.ndarray, rows: int, rule: str | Rule, seed: Seed
) -> np.ndarray:
    """`downsample_batch` where some rollouts are not there; all are kept if they are too few."""
    function = resolve_rule(rule)
    if not is_batch_rule(function):
        raise InvalidInputError(
            f"rule {rule_name(rule)} keeps m of each prompt; give it to downsample, or mark a"
            " function of your own by podsrl.batch_rule"
        )
    refuse_infinite(rewards_P_N)
    scorable_P_N = ~np.isnan(rewards_P_N)
    asked = min(rows, int(scorable_P_N.sum()))
    kept_P_N = scorable_P_N.copy()
    if asked < scorable_P_N.sum():
        kept_P_N = _called(function, rule, rewards_P_N, asked, seed).copy()
    spare = np.argwhere(there_P_N & ~scorable_P_N)[: rows - asked]
    kept_P_N[tuple(spare.T)] = True
    return kept_P_N


def rule_name(rule: str | Rule) -> str:
    """A rule as messages name it."""
    return repr(rule if isinstance(rule, str) else getattr(rule, "__qualname__", rule))


def refuse_infinite(rewards: Array) -> None:
    """Raise InvalidInputError if a reward is infinite."""
    if np.isinf(rewards).any():
        raise InvalidInputError(
            "rewards contain an infinite value; allowed are finite numbers, and NaN for a rollout"
            " that could not be scored"
        )


def _called(function: Rule, rule: str | Rule, rewards_P_N: Floats, count: int, seed: Seed) -> Array:
    """What a rule keeps; a user's own may raise, or return what it should not."""
    code = getattr(getattr(function, "func", function), "__code__", None)
    given, in_file, _ = str(rule).partition(".py:")
    file = f"{given}.py" if in_file else getattr(code, "co_filename", "a function of C")
    with user_code(file, f"rule {rule_name(rule)} failed"):
        kept = np.asarray(function(rewards_P_N, count, seed))
    groups, n = rewards_P_N.shape
    across = is_batch_rule(function)
    if across:
        shape, kinds = (groups, n), "b"
        must = f"booleans of shape {shape} with {count} true, none of them where the reward is NaN"
    else:
        shape, kinds = (groups, count), "iu"
        must = f"integers of shape {shape}, different within a group and in 0..{n - 1}"
    if kept.shape != shape or kept.dtype.kind not in kinds:
        problem = f"shape {kept.shape} of {kept.dtype}"
    elif across and np.isnan(rewards_P_N[kept]).any():
        problem = "rollouts that could not be scored (NaN)"
    elif across and kept.sum() != count:
        problem = str(int(kept.sum()))
    elif not across and groups and (kept.min() < 0 or kept.max() >= n):
        problem = f"indices from {kept.min()} to {kept.max()}"
    elif not across and (np.diff(np.sort(kept, axis=-1)) == 0).any():
        problem = "the same index twice in a group"
    else:
        return kept
    raise InvalidInputError(f"rule {rule_name(rule)} must return {must}; got {problem}")


def _check_count(count: int, name: str, least: int, most: int, of: str) -> int:
    try:
        count = operator.index(count)
    except TypeError as error:
        raise InvalidInputError(f"{name} must be an integer; got {count!r}") from error
    if not least <= count <= most:
        raise InvalidInputError(
            f"{name} = {count} can't be kept {of}; allowed is {least} <= {name} <= {most}"
        )
    return count
