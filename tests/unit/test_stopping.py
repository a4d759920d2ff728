"""Rounds: the stop against every completion, and the law of what is kept against a full run."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from podsrl.advantages import group_advantages
from podsrl.downsampling import can_improve, downsample
from podsrl.errors import InvalidInputError
from podsrl.recommend.populations import KnownRates

DRAWS = 100_000


def best_variance(rewards: tuple[float, ...], m: int) -> float:
    """Of all m scored rewards; below 0 by as many as are missing."""
    scored = [r for r in rewards if r == r]
    missing = len(scored) - m
    return max((float(np.var(s)) for s in itertools.combinations(scored, m)), default=missing)


@pytest.mark.parametrize(("n", "m"), [(4, 2), (5, 2), (6, 4), (6, 2)])
@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 0.5, 3.0)])
def test_a_group_can_improve_exactly_when_some_completion_has_a_larger_best_variance(n, m, values):
    none = float("nan")
    for made in range(m, n):
        for rewards in itertools.combinations_with_replacement((*values, none), made):
            best = max(
                best_variance((*rewards, *rest), m)
                for rest in itertools.combinations_with_replacement(values, n - made)
            )
            so_far = np.array([[*rewards, *[none] * (n - made)]])
            judged = can_improve(so_far, m, (values[0], values[-1]))
            assert judged.tolist() == [best > best_variance(rewards, m) + 1e-12], rewards


def test_an_approximate_stop_asks_for_that_share_of_the_largest_standard_deviation():
    rewards = np.zeros((17, 32))
    for right in range(17):
        rewards[right, :right] = 1
    # the best 16 of k right and many wrong: std sqrt(k (16 - k)) / 16, at most 1/2
    shares = [np.sqrt(min(k, 8) * (16 - min(k, 8))) / 8 for k in range(17)]
    for stop_at in (0.5, 0.95, 1.0):
        open_P = can_improve(rewards, 16, (0, 1), stop_at)
        assert open_P.tolist() == [share < stop_at - 1e-9 for share in shares]
    assert can_improve([[0, 0, 1, np.nan]], 3, (0, 1), stop_at=1.0).tolist() == [False]  # odd m
    assert can_improve([[0, 1, np.nan, np.nan]], 3, (0, 1), stop_at=0.1).tolist() == [True]
    assert can_improve([[0.5, 0.5]], 2, (0.5, 0.5), stop_at=0.1).tolist() == [True]  # no range yet


def test_rewards_summed_in_float32_count_as_the_ends_of_their_range():
    third = np.float32(0.1) + np.float32(0.2) + np.float32(0.3)
    assert float(third) != 0.6
    assert not can_improve(np.array([[0.0, third, 0.0]], dtype=np.float32), 2, (0, 0.6))[0]


def test_an_odd_m_has_no_exact_stop():
    with pytest.raises(InvalidInputError, match="m = 3 is odd"):
        can_improve([[0, 1, 1]], 3, (0, 1))


@pytest.mark.parametrize(("p", "n", "m", "r"), [(0.3, 8, 2, 2), (0.8, 16, 4, 6), (0.0, 8, 2, 4)])
def test_the_expected_rollouts_are_those_of_the_stop_itself(p, n, m, r):
    rewards = np.random.default_rng(0).random((DRAWS, r)) < p
    made = r + (n - r) * can_improve(rewards, m, (0, 1)).mean()
    expected = KnownRates((p,)).expected_rollouts(n, m, r)
    assert expected == pytest.approx(made, abs=0.05)


# ---- the law -------------------------------------------------------------------------------------

#: A softmax policy over six texts: their probabilities, rewards (None: not scored) and lengths.
POLICY = np.exp([0.0, 0.6, -0.4, 0.3, 0.9, -1.0]) / np.exp([0.0, 0.6, -0.4, 0.3, 0.9, -1.0]).sum()
REWARDS = np.array([1.0, 1.0, 0.0, 0.0, 0.0, np.nan])
LENGTHS = np.array([5, 1, 2, 7, 3, 4])
N, M, R = 8, 4, 4


def by_rule(texts: np.ndarray, rewards: np.ndarray, seed: int) -> np.ndarray:
    return downsample(rewards, M, seed=seed)


def kept_cells(
    rewards_of_text: np.ndarray,
    seed: int,
    rounds: bool,
    finished_first: bool = False,
    keep: Callable[..., np.ndarray] = by_rule,
    stop_at: float | None = None,
    baseline: Any = "kept",
) -> Counter[bytes]:
    """How often each kept set (its texts, with their advantages) comes of `DRAWS` prompts."""
    texts = np.random.default_rng(seed).choice(len(POLICY), p=POLICY, size=(DRAWS, N))
    if finished_first:
        texts = texts[np.arange(DRAWS)[:, None], LENGTHS[texts].argsort(axis=1, kind="stable")]
    rewards = rewards_of_text[texts]
    if rounds:
        so_far = rewards.copy()
        so_far[:, R:] = np.nan
        goes_on = can_improve(so_far, M, (0.0, 1.0), stop_at)
        rewards = np.where(goes_on[:, None], rewards, so_far)
        assert 0.1 < goes_on.mean() < 0.9
    kept = keep(texts, rewards, seed + 1)
    advantages = group_advantages(rewards, kept, baseline)
    kept_texts = np.take_along_axis(texts, kept, axis=1)
    cells = np.sort(kept_texts * 10_000 + (advantages * 1000).round().astype(int), axis=1)
    found, counts = np.unique(cells, axis=0, return_counts=True)
    return Counter({row.tobytes(): int(count) for row, count in zip(found, counts, strict=True)})


def p_value(one: Counter[bytes], other: Counter[bytes]) -> float:
    """That both are drawn from one law: chi-square, rare cells together."""
    often = [cell for cell in one | other if one[cell] + other[cell] >= 20]
    table = np.array([[counts[cell] for cell in often] for counts in (one, other)])
    rare = DRAWS - table.sum(axis=1, keepdims=True)
    table = np.hstack([table, rare]) if rare.sum() >= 20 else table
    return float(chi2_contingency(table).pvalue)


@pytest.mark.parametrize("rewards", [REWARDS, np.nan_to_num(REWARDS), REWARDS[::-1]])
def test_what_rounds_keep_has_the_law_of_what_all_n_keep(rewards):
    full = kept_cells(rewards, seed=1, rounds=False)
    assert len(full) > 40
    assert p_value(full, kept_cells(rewards, seed=3, rounds=True)) > 1e-3


def shortest_of_equal(texts: np.ndarray, rewards: np.ndarray, seed: int) -> np.ndarray:
    order = LENGTHS[texts].argsort(axis=1, kind="stable")
    kept = downsample(np.take_along_axis(rewards, order, axis=1), M)
    return np.take_along_axis(order, kept, axis=1)


@pytest.mark.parametrize(
    "mistake",
    [
        {"finished_first": True},  # the round is whatever ended first
        {"keep": shortest_of_equal},  # ties are broken by the text
        {"stop_at": 0.8},  # 1 right and 3 wrong are enough
        {"baseline": "group"},  # advantages against rollouts that are not kept
    ],
)
def test_the_law_test_sees_each_condition_broken(mistake):
    same_in_both = {key: value for key, value in mistake.items() if key in ("keep", "baseline")}
    full = kept_cells(REWARDS, seed=1, rounds=False, **same_in_both)
    assert p_value(full, kept_cells(REWARDS, seed=3, rounds=True, **mistake)) < 1e-9
