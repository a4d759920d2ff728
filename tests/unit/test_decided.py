"""A choice is decided when no completion of its group can change it, and stopping then is fair."""

import itertools
import math
import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import podsrl
from podsrl.errors import InvalidInputError

VALUES = (0.0, 0.5, 1.0, math.nan)


# ---- by brute force


def kept_rewards(rewards: tuple[float, ...], m: int, rule: str) -> Counter[str]:
    """The rewards that a rule keeps, as a multiset."""
    return Counter(str(rewards[place]) for place in podsrl.downsample(list(rewards), m, rule=rule))


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("rule", ["max_variance", "balanced", "max_reward"])
def test_decided_means_that_no_completion_changes_what_is_kept(rule: str, m: int) -> None:
    """Of all groups of up to m + 2 rewards, with one or two rollouts still to come."""
    found = Counter[bool]()
    for size, to_come in itertools.product(range(1, m + 3), (1, 2)):
        completions = list(itertools.product(VALUES, repeat=to_come))
        for rewards in itertools.combinations_with_replacement(VALUES, size):
            if size < m:
                is_final = False
            else:
                now = kept_rewards(rewards, m, rule)
                is_final = all(kept_rewards(rewards + more, m, rule) == now for more in completions)
            assert podsrl.is_decided(list(rewards), m, to_come, rule=rule) == is_final, rewards
            found[is_final] += 1
    assert found[True] > 0
    assert found[False] > 0


@pytest.mark.parametrize("rule", sorted(podsrl.RULES))
def test_nothing_is_open_where_nothing_is_to_come(rule: str) -> None:
    assert podsrl.is_decided([[0.5, 0.5], [0.0, 1.0]], 2, to_come=0, rule=rule) == [True, True]


@pytest.mark.parametrize(
    "rule", sorted({*podsrl.RULES} - {"max_variance", "balanced", "max_reward"})
)
def test_other_rules_wait_for_all(rule: str) -> None:
    assert podsrl.is_decided([0.0, 1.0] * 8, 2, to_come=1, rule=rule) is False


def test_each_group_may_have_another_number_to_come() -> None:
    rewards_P_N = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    assert podsrl.is_decided(rewards_P_N, 2, [0, 1, 1]).tolist() == [True, False, True]


def test_bounds_are_those_of_the_reward() -> None:
    assert podsrl.is_decided([-1.0, 2.0], 2, 5, bounds=(-1.0, 2.0))
    assert not podsrl.is_decided([-1.0, 1.0], 2, 5, bounds=(-1.0, 2.0))
    assert not podsrl.is_decided([0.0, 1.0], 2, 5, bounds=(-math.inf, 1.0))
    assert podsrl.is_decided([1.0, 1.0], 2, 5, bounds=(-math.inf, 1.0), rule="max_reward")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bounds": (0.0, 0.9)}, "a reward is 1, outside the bounds 0 to 0.9"),
        ({"bounds": (1.0, 0.0)}, "must be below the highest"),
        ({"bounds": (0.0, math.nan)}, "must be below the highest"),
        ({"bounds": 1.0}, "two numbers"),
        ({"to_come": -1}, "at least 0"),
        ({"to_come": 0.5}, "integers"),
        ({"m": 0}, "m = 0"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        podsrl.is_decided([0.0, 1.0], **{"m": 2, "to_come": 1, **given})


def test_a_rule_that_travels_to_another_process_says_the_same() -> None:
    rule = pickle.loads(pickle.dumps(podsrl.RULES["max_variance"]))
    assert podsrl.is_decided([0.0, 1.0], 2, 1, rule=rule)


# ---- across the batch


@pytest.mark.parametrize("rows", [0, 2, 3, 5])
def test_a_batch_is_decided_when_no_further_group_is_taken(rows: int) -> None:
    """Of all batches of up to three pairs, with one or two pairs still to come."""
    pairs = list(itertools.combinations_with_replacement((0.0, 1.0, math.nan), 2))
    found = Counter[bool]()
    for size, to_come in itertools.product((1, 2, 3), (1, 2)):
        if rows > 2 * (size + to_come):
            continue  # so many rows will never be there
        completions = list(itertools.product(pairs, repeat=to_come))
        for groups in itertools.product(pairs, repeat=size):
            if rows > 2 * size:
                is_final = False
            else:
                now = kept_of_batch(groups, rows, size)
                is_final = all(
                    kept_of_batch(groups + more, rows, size) == now for more in completions
                )
            assert podsrl.is_decided_batch(list(groups), rows, to_come) == is_final, groups
            found[is_final] += 1
    assert found[True] > 0
    assert rows == 0 or found[False] > 0


def kept_of_batch(groups: tuple[tuple[float, ...], ...], rows: int, size: int) -> Any:
    """What dynamic_sampling keeps of the first groups, and how many rows of the others."""
    kept_P_N = podsrl.downsample_batch(np.array(groups), rows, rule="dynamic_sampling")
    return kept_P_N[:size].tolist(), int(kept_P_N[size:].sum())


def test_rules_that_compare_all_groups_wait_for_them() -> None:
    rewards_P_N = [[0.0, 1.0]] * 8
    for rule, of_rule in podsrl.RULES.items():
        if of_rule.across_prompts:
            is_first_come = rule == "dynamic_sampling"
            assert podsrl.is_decided_batch(rewards_P_N, 2, 1, rule=rule) == is_first_come
            assert podsrl.is_decided_batch(rewards_P_N, 2, 0, rule=rule)


def test_a_difference_of_rounding_fills_no_batch() -> None:
    assert not podsrl.is_decided_batch([[0.1 + 0.2, 0.3]], 2, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rule": "max_variance"}, "is_decided says"),
        ({"to_come": -1}, "at least 0"),
        ({"to_come": 0.5}, "an integer"),
        ({"rows": -1}, "rows = -1"),
        ({"rows": 7}, "rows = 7"),
        ({"rewards_P_N": [0.0, 1.0]}, "shape"),
        ({"rewards_P_N": [[0.0, math.inf]]}, "infinite"),
    ],
)
def test_what_makes_no_sense_across_the_batch_is_refused(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        podsrl.is_decided_batch(**{"rewards_P_N": [[0.0, 1.0]], "rows": 2, "to_come": 2, **given})


def test_a_batch_rule_that_travels_to_another_process_says_the_same() -> None:
    rule = pickle.loads(pickle.dumps(podsrl.RULES["dynamic_sampling"]))
    assert podsrl.is_decided_batch([[0.0, 1.0]], 2, 1, rule=rule)


# ---- the law of what is kept

GROUPS = 10_000
N = 12
M = 4
#: A difference of means beyond so many standard errors is none of chance.
CHANCE = 4.0


def draw_groups(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rewards of 0 and 1, and lengths, longer for right answers and harder prompts."""
    rng = np.random.default_rng(seed)
    pass_rate_P_1 = rng.beta(1, 1, size=(GROUPS, 1))
    rewards_P_N = (rng.random((GROUPS, N)) < pass_rate_P_1).astype(float)
    scale_P_N = 20 + 30 * rewards_P_N + 20 * (1 - pass_rate_P_1)
    return rewards_P_N, rng.exponential(scale_P_N)


def keep_of_all(rewards_N: np.ndarray, lengths_N: np.ndarray, seed: list[int]) -> np.ndarray:
    return np.array(podsrl.downsample(rewards_N, M, seed=seed))


def keep_in_rounds(rewards_N: np.ndarray, lengths_N: np.ndarray, seed: list[int]) -> np.ndarray:
    """Of whole rounds of m rollouts, until the choice is decided."""
    for generated in range(M, N + 1, M):
        if podsrl.is_decided(rewards_N[:generated], M, N - generated):
            break
    return np.array(podsrl.downsample(rewards_N[:generated], M, seed=seed))


def keep_of_first_finished(
    rewards_N: np.ndarray, lengths_N: np.ndarray, seed: list[int]
) -> np.ndarray:
    """All n begin at once, and those that run are stopped when the choice is decided."""
    order_N = np.argsort(lengths_N)
    for finished in range(M, N + 1):
        if podsrl.is_decided(rewards_N[order_N[:finished]], M, N - finished):
            break
    kept = podsrl.downsample(rewards_N[order_N[:finished]], M, seed=seed)
    return order_N[kept]


def numbers_of_kept(keep: Callable[..., np.ndarray], seed: int) -> np.ndarray:
    """Of each group: how many right ones are kept, and the lengths of the kept ones by reward.

    Shape (groups, 4): the number, the sums of lengths of right and wrong ones, and the sum of the
    squares of all lengths.
    """
    rewards_P_N, lengths_P_N = draw_groups(seed)
    numbers = []
    for group, (rewards_N, lengths_N) in enumerate(zip(rewards_P_N, lengths_P_N, strict=True)):
        kept = keep(rewards_N, lengths_N, [seed, group])
        right = rewards_N[kept] == 1
        length = lengths_N[kept]
        numbers.append([right.sum(), length[right].sum(), length[~right].sum(), (length**2).sum()])
    return np.array(numbers, dtype=float)


def differences(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Differences of means, in standard errors."""
    error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / len(one))
    return np.abs(one.mean(axis=0) - other.mean(axis=0)) / error


@pytest.mark.slow
def test_what_is_kept_after_stopping_has_the_law_of_what_is_kept_of_all() -> None:
    of_all = numbers_of_kept(keep_of_all, seed=1)
    in_rounds = numbers_of_kept(keep_in_rounds, seed=2)
    assert differences(of_all, in_rounds).max() < CHANCE

    # The same groups: the kept rewards are the same one by one.
    of_the_same = numbers_of_kept(keep_in_rounds, seed=1)
    assert (of_the_same[:, 0] == of_all[:, 0]).all()
    assert (of_the_same[:, 1] != of_all[:, 1]).mean() > 0.2

    # What stops at the first ones that finish keeps as many right ones, and they are shorter.
    of_first = numbers_of_kept(keep_of_first_finished, seed=3)
    assert differences(of_all, of_first)[0] < CHANCE
    assert differences(of_all, of_first)[1:].min() > 2 * CHANCE


# ---- the law of what is kept of a batch

#: Prompts of a batch, rollouts of each, and the rows that are kept: two groups.
PROMPTS, ROLLOUTS, ROWS = 6, 4, 8
BATCHES = 3_000


def draw_batch(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rewards of 0 and 1, and lengths, longer for right answers and harder prompts."""
    pass_rate_P_1 = rng.beta(0.7, 0.7, size=(PROMPTS, 1))
    rewards_P_N = (rng.random((PROMPTS, ROLLOUTS)) < pass_rate_P_1).astype(float)
    return rewards_P_N, rng.exponential(20 + 30 * rewards_P_N + 40 * (1 - pass_rate_P_1))


def all_prompts(rewards_P_N: np.ndarray, lengths_P_N: np.ndarray) -> np.ndarray:
    return np.arange(PROMPTS)


def prompts_in_rounds(rewards_P_N: np.ndarray, lengths_P_N: np.ndarray) -> np.ndarray:
    """Two prompts a round, until groups with contrast fill the batch."""
    return until_full(rewards_P_N, np.arange(PROMPTS), 2)


def prompts_that_finish_first(rewards_P_N: np.ndarray, lengths_P_N: np.ndarray) -> np.ndarray:
    """All begin at once, and those that run are stopped when the batch is full."""
    return until_full(rewards_P_N, np.argsort(lengths_P_N.max(axis=1)), 1)


def until_full(rewards_P_N: np.ndarray, order_P: np.ndarray, at_a_time: int) -> np.ndarray:
    for some in range(at_a_time, PROMPTS + 1, at_a_time):
        made = order_P[:some]
        if podsrl.is_decided_batch(rewards_P_N[made], ROWS, PROMPTS - some):
            break
    return made


def numbers_of_batches(made_of: Callable[..., np.ndarray], seed: int) -> np.ndarray:
    """Of each batch: how many right ones are kept, groups with contrast, and lengths.

    Shape (batches, 5): the numbers, the sums of the kept lengths and of their squares, and the
    prompts that were generated.
    """
    rng = np.random.default_rng(seed)
    numbers = []
    for batch in range(BATCHES):
        rewards_P_N, lengths_P_N = draw_batch(rng)
        made = made_of(rewards_P_N, lengths_P_N)
        kept_P_N = podsrl.downsample_batch(
            rewards_P_N[made], ROWS, rule="dynamic_sampling", seed=[seed, batch]
        )
        right = (rewards_P_N[made] * kept_P_N).sum(axis=1)
        length = lengths_P_N[made][kept_P_N]
        contrast = ((right > 0) & (right < ROLLOUTS)).sum()
        numbers.append([right.sum(), contrast, length.sum(), (length**2).sum(), len(made)])
    return np.array(numbers, dtype=float)


@pytest.mark.slow
def test_what_is_kept_of_a_batch_in_rounds_has_the_law_of_what_is_kept_of_all_prompts() -> None:
    of_all = numbers_of_batches(all_prompts, seed=1)
    in_rounds = numbers_of_batches(prompts_in_rounds, seed=2)
    assert differences(of_all, in_rounds)[:4].max() < CHANCE
    assert in_rounds[:, 4].mean() < 0.8 * PROMPTS

    # The same batches: as many groups with contrast are kept, and often others.
    of_the_same = numbers_of_batches(prompts_in_rounds, seed=1)
    assert (of_the_same[:, 1] == of_all[:, 1]).all()
    assert (of_the_same[:, 2] != of_all[:, 2]).mean() > 0.2

    # Groups that finish first are as many, and they are shorter.
    of_first = numbers_of_batches(prompts_that_finish_first, seed=3)
    assert differences(of_all, of_first)[1] < CHANCE
    assert differences(of_all, of_first)[2:4].min() > 2 * CHANCE
