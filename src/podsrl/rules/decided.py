"""Whether a choice is decided before all rollouts of a group, or all groups, are there."""

from typing import Any

import numpy as np

from podsrl.arrays import as_rewards, like
from podsrl.errors import InvalidInputError
from podsrl.rewards import refuse_infinite
from podsrl.rules.api import check_count, seen_by
from podsrl.rules.registry import RuleName, resolve_rule, rule_name


def is_decided(
    rewards_P_N: Any,
    m: int,
    to_come: Any,
    bounds: tuple[float, float] = (0.0, 1.0),
    rule: RuleName = "max_variance",
) -> Any:
    """Say whether the kept rewards of a group are final, whatever further rollouts are rewarded.

    The choice of every rule is decided when no rollout is to come. `max_variance`, `balanced` and
    `max_reward` keep some of the lowest and some of the highest rewards (`Rule.kept_at_bounds`).
    Their choice is decided earlier, as soon as this many rewards are at the lowest and at the
    highest possible reward. Before that, one more rollout may change it.

    If generation stops at decided groups, the kept rollouts have the same distribution as if all n
    had been generated (docs/theory.md).

    Args:
        rewards_P_N: The rewards so far, shape (..., rollouts so far), as `downsample` takes them;
            NaN where a rollout could not be scored.
        m: The number of rollouts to keep of a group.
        to_come: The number of rollouts that each group will still get: one number, or one for each
            group.
        bounds: The lowest and the highest possible reward; -inf or inf where there is none.
        rule: A rule, as `downsample` takes it.

    Returns:
        A boolean for each group, of the kind of `rewards_P_N`; True or False for one group.

    Raises:
        InvalidInputError: A reward outside the bounds, invalid bounds, or a number below 0.
        UnknownNameError: There is no such rule.

    >>> is_decided([[0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 1.0]], m=4, to_come=12)
    [True, False]
    >>> is_decided([1.0, 1.0], m=2, to_come=2, rule="max_reward")
    True
    """
    rewards = as_rewards(rewards_P_N)
    m = check_count(m, "m", least=1, most=10**9, among="of a group")
    low, high = _check_bounds(rewards, bounds)
    to_come_P = np.broadcast_to(np.asarray(to_come), rewards.shape[:-1])
    if to_come_P.dtype.kind not in "iu" or (to_come_P < 0).any():
        raise InvalidInputError(f"to_come must be integers of at least 0; got {to_come!r}")

    decided_P = to_come_P == 0
    kept_at_bounds = resolve_rule(rule).kept_at_bounds
    if kept_at_bounds is not None:
        lowest, highest = kept_at_bounds(m)
        at_low_P = (rewards == low).sum(axis=-1)
        at_high_P = (rewards == high).sum(axis=-1)
        decided_P = decided_P | ((at_low_P >= lowest) & (at_high_P >= highest))
    return bool(decided_P) if rewards.ndim == 1 else like(rewards_P_N, decided_P)


def is_decided_batch(
    rewards_P_N: Any, rows: int, to_come: int, rule: RuleName = "dynamic_sampling"
) -> bool:
    """Say whether the choice of a batch rule is final, whatever further groups are generated.

    `dynamic_sampling` takes whole groups with contrast, one after the other. Its choice is decided
    as soon as these groups have `rows` rows. Before that, the next group may be one of them. Every
    other batch rule compares all groups, so its choice is decided when no group is to come.

    If groups come in random order and all their n rollouts are scored, the kept rows have the same
    distribution as those that the rule, with a seed, would keep of all groups (docs/theory.md).

    Args:
        rewards_P_N: The rewards of the groups so far, shape (groups so far, n); NaN where a rollout
            could not be scored.
        rows: The number of rows to keep of all groups.
        to_come: The number of groups that are still to come, with n rollouts each.
        rule: A batch rule, as `downsample_batch` takes it.

    Raises:
        InvalidInputError: A prompt rule, an infinite reward, or a number below 0.
        UnknownNameError: There is no such rule.

    >>> is_decided_batch([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]], rows=4, to_come=5)
    True
    >>> is_decided_batch([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0]], rows=4, to_come=5)
    False
    """
    rewards = as_rewards(rewards_P_N)
    if rewards.ndim != 2:
        raise InvalidInputError(f"rewards must have shape (P, n); got {rewards.shape}")
    if not isinstance(to_come, int | np.integer) or isinstance(to_come, bool) or to_come < 0:
        raise InvalidInputError(f"to_come must be an integer of at least 0; got {to_come!r}")
    most = (len(rewards) + to_come) * rewards.shape[1]
    rows = check_count(rows, "rows", least=0, most=most, among=f"of {most} rollouts")

    resolved = resolve_rule(rule)
    if not resolved.across_prompts:
        raise InvalidInputError(
            f"rule {rule_name(rule)} keeps m of each prompt; is_decided says whether its choice is"
            " decided"
        )
    refuse_infinite(rewards)
    if to_come == 0:
        return True
    return resolved.is_full is not None and resolved.is_full(seen_by(resolved, rewards), rows)


def _check_bounds(rewards: Any, bounds: tuple[float, float]) -> tuple[float, float]:
    refuse_infinite(rewards)
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"bounds must be two numbers; got {bounds!r}") from error
    if not low < high:
        raise InvalidInputError(
            f"bounds={bounds!r}: the lowest possible reward must be below the highest one"
        )
    outside = rewards[(rewards < low) | (rewards > high)]
    if outside.size:
        raise InvalidInputError(
            f"a reward is {outside[0]:g}, outside the bounds {low:g} to {high:g}: give the lowest"
            " and the highest reward that is possible"
        )
    return low, high
