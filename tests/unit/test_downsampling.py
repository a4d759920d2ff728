"""The rules against brute force, independent references and laws."""

import functools
import itertools
import math
import types

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import podsrl
from podsrl.errors import InvalidInputError, UnknownNameError
from podsrl.rules import prompt_rules

BUILT_IN = [
    name for name, rule in podsrl.rules.RULES.items() if rule.__module__ == prompt_rules.__name__
]


def variance(rewards: np.ndarray, kept: list[int]) -> float:
    """In extended precision, so that the reference is better than what it judges."""
    return float(np.var(rewards[list(kept)].astype(np.longdouble)))


def random_batches(groups: int):
    """Groups of every kind the rule meets: binary, continuous, repeated, shifted, scaled, NaN.

    One batch (rewards_P_N, m) for each 1 <= m <= n <= 12.
    """
    rng = np.random.default_rng(0)
    for n in range(1, 13):
        for m in range(1, n + 1):
            shape = (groups // 5, n)
            rewards = np.concatenate(
                [
                    rng.integers(0, 2, shape).astype(float),
                    rng.normal(size=shape),
                    rng.integers(0, 4, shape) / 3,
                    1e6 + rng.integers(0, 3, shape),
                    rng.normal(size=shape) * 1e-6,
                ]
            )
            rewards[::3][rng.random(rewards[::3].shape) < 0.2] = np.nan
            yield rewards, m


def test_max_variance_is_never_below_brute_force_on_10000_random_groups():
    judged = 0
    for rewards, m in random_batches(150):
        rewards = rewards[(~np.isnan(rewards)).sum(axis=1) >= m]
        kept = np.take_along_axis(rewards, podsrl.downsample(rewards, m), axis=1)
        subsets = np.array(list(itertools.combinations(range(rewards.shape[1]), m)))
        # in extended precision, so that the reference is better than what it judges
        every = np.var(rewards[:, subsets].astype(np.longdouble), axis=-1)
        best = np.max(every, axis=1, where=~np.isnan(every), initial=0)  # NaN: one not scored
        assert (np.var(kept.astype(np.longdouble), axis=1) >= best * (1 - 1e-8)).all()
        judged += len(rewards)
    assert judged >= 10_000


@pytest.mark.parametrize("n", [64, 256, 1024])
def test_max_variance_equals_an_independent_scan_over_the_number_of_high_rewards(n):
    rng = np.random.default_rng(n)
    for rewards in (rng.normal(size=n), rng.integers(0, 2, n) * 1.0, rng.integers(0, 5, n) / 4):
        ascending = np.sort(rewards)
        for m in (2, 5, 16, n // 2, n):
            scan = max(  # Lemma 3.1, each candidate's variance from scratch
                np.var(np.concatenate([ascending[: m - k], ascending[n - k :]]))
                for k in range(m + 1)
            )
            assert variance(rewards, podsrl.downsample(rewards, m)) == pytest.approx(scan, rel=1e-9)


@pytest.mark.parametrize("rule", BUILT_IN)
def test_numpy_torch_and_lists_agree_and_keep_their_kind(rule):
    rng = np.random.default_rng(1)
    rewards = rng.integers(0, 3, (5, 4, 16)) / 2
    rewards[rng.random(rewards.shape) < 0.1] = np.nan
    as_numpy = podsrl.downsample(rewards, 6, rule, seed=3)
    as_torch = podsrl.downsample(torch.tensor(rewards), 6, rule, seed=3)
    as_lists = podsrl.downsample(rewards.tolist(), 6, rule, seed=3)
    assert isinstance(as_numpy, np.ndarray)
    assert isinstance(as_torch, torch.Tensor)
    assert isinstance(as_lists, list)
    assert as_numpy.shape == (5, 4, 6)
    assert as_numpy.dtype == np.int64
    assert as_torch.dtype == torch.int64
    np.testing.assert_array_equal(as_numpy, as_torch.numpy())
    np.testing.assert_array_equal(as_numpy, as_lists)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.bool])
def test_rewards_of_any_torch_type_are_taken(dtype):
    rewards = torch.tensor([0, 1, 0, 1, 1, 0, 0, 0]).to(dtype)
    assert podsrl.downsample(rewards, 2).tolist() == [0, 1]


@pytest.mark.parametrize("rule", BUILT_IN)
@pytest.mark.parametrize("seed", [None, 5])
def test_every_rule_keeps_m_different_ascending_indices_and_unscorable_ones_last(rule, seed):
    for rewards, m in random_batches(10):
        kept = podsrl.downsample(rewards, m, rule, seed)
        assert kept.shape == (len(rewards), m)
        assert (np.diff(kept) > 0).all()
        assert kept.min() >= 0
        assert kept.max() < rewards.shape[1]
        scorable = (~np.isnan(rewards)).sum(axis=1)
        kept_scorable = (~np.isnan(np.take_along_axis(rewards, kept, axis=1))).sum(axis=1)
        assert (kept_scorable == np.minimum(m, scorable)).all()


def test_a_rule_of_ones_own_need_not_know_of_unscorable_rollouts():
    def first(rewards_P_N, m, seed):
        return np.broadcast_to(np.arange(m), (len(rewards_P_N), m))

    rewards = [[np.nan, 1.0, np.nan, 0.0, 2.0], [0.0, 1.0, 2.0, np.nan, 3.0], [np.nan] * 4 + [1.0]]
    assert podsrl.downsample(rewards, 2, first) == [[1, 3], [0, 1], [0, 4]]


@pytest.mark.parametrize("rule", BUILT_IN)
def test_m_equal_to_n_keeps_everything_in_order(rule):
    rewards = np.array([[3.0, np.nan, 1.0], [0.0, 0.0, 0.0]])
    assert podsrl.downsample(rewards, 3, rule).tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("rule", ["max_variance", "max_reward", "percentile"])
def test_groups_of_a_batch_do_not_influence_each_other(rule):
    rewards = np.random.default_rng(2).normal(size=(7, 12))
    together = podsrl.downsample(rewards, 5, rule)
    alone = [podsrl.downsample(group, 5, rule) for group in rewards]
    np.testing.assert_array_equal(together, alone)


def test_of_equal_rewards_the_lowest_indices_are_kept_without_a_seed():
    assert podsrl.downsample([0, 0, 0, 1, 1, 1], 2) == [0, 3]
    assert podsrl.downsample([1, 1, 1, 0, 0, 0], 4) == [0, 1, 3, 4]
    assert podsrl.downsample([7.0] * 6, 4) == [0, 1, 2, 3]
    assert podsrl.downsample([1, 1, 0, 1], 2, "max_reward") == [0, 1]
    for rewards, m in random_batches(30):
        for rule in ("max_variance", "max_reward"):
            is_kept = np.zeros(rewards.shape, dtype=bool)
            np.put_along_axis(is_kept, podsrl.downsample(rewards, m, rule), True, axis=1)
            # no rollout is kept after one of the same reward that is dropped
            equal = rewards[:, :, None] == rewards[:, None, :]
            after = np.tri(rewards.shape[1], k=-1, dtype=bool)
            assert not (equal & after & is_kept[:, :, None] & ~is_kept[:, None, :]).any()


def test_a_seed_breaks_ties_at_random_and_reproducibly():
    rewards = np.repeat([0.0, 1.0], 50)
    draws = [tuple(podsrl.downsample(rewards, 10, seed=s)) for s in range(20)]
    assert len(set(draws)) == 20
    assert draws[3] == tuple(podsrl.downsample(rewards, 10, seed=3))
    # every index is as likely as any other: 2,000 draws of 10 of 100, expectation 200, sd 13.4
    counts = np.zeros(100)
    for s in range(2000):
        counts[podsrl.downsample(rewards, 10, seed=s)] += 1
    assert abs(counts - 200).max() < 5 * 13.4


def test_random_is_uniform_and_percentile_takes_the_stated_quantiles():
    counts = np.zeros(8)
    for s in range(4000):
        counts[podsrl.downsample(np.arange(8.0), 2, "random", s)] += 1
    assert abs(counts - 1000).max() < 5 * math.sqrt(1000 * 0.75)
    # n = 8, m = 4: floor(8 * (i + 0.5) / 4) = 1, 3, 5, 7
    assert podsrl.downsample(np.arange(8.0), 4, "percentile").tolist() == [1, 3, 5, 7]
    assert podsrl.downsample(-np.arange(8.0), 4, "percentile").tolist() == [0, 2, 4, 6]
    assert podsrl.downsample(np.arange(8.0), 3, "max_reward").tolist() == [5, 6, 7]


rewards_and_m = st.integers(2, 12).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-8, 8).map(float), min_size=n, max_size=n), st.integers(1, n)
    )
)


@settings(max_examples=300, deadline=None)
@given(rewards_and_m, st.randoms(use_true_random=False))
def test_max_variance_does_not_depend_on_order_shift_or_scale(case, random):
    rewards, m = np.array(case[0]), case[1]
    values = sorted(rewards[podsrl.downsample(rewards, m)])
    order = list(range(len(rewards)))
    random.shuffle(order)
    shuffled = rewards[order]
    assert sorted(shuffled[podsrl.downsample(shuffled, m)]) == values
    kept = podsrl.downsample(rewards, m).tolist()
    for changed in (rewards + 1e6, rewards * 1e-6, rewards * 1e250, rewards * 1e-250):
        assert podsrl.downsample(changed, m).tolist() == kept


def test_equal_variances_prefer_as_many_high_as_low():
    # any k of the 4 + 4 distinct extremes -1, +1 with m = 4: only k = 2 is best; with all equal
    # rewards every k is, and with m = 1 both are
    assert podsrl.downsample([-1, 1, -1, 1, -1, 1, -1, 1], 4) == [0, 1, 2, 3]
    # 0, 1, 2 with m = 2: {0, 2}; symmetric 0, 1, 3, 4 with m = 3: k = 1 and k = 2 tie, both 1 away
    # from m/2; the lower k wins
    assert podsrl.downsample([0.0, 1.0, 3.0, 4.0], 3) == [0, 1, 3]


@pytest.mark.parametrize(
    ("rewards", "m", "says"),
    [
        ([1.0, 2.0], 3, "m = 3 can't be kept of n = 2"),
        ([1.0, 2.0], 0, "m = 0"),
        ([1.0, 2.0], 1.5, "m must be an integer; got 1.5"),
        ([1.0, math.inf], 1, "infinite"),
        ([1.0, -math.inf], 1, "infinite"),
        ("1.0", 1, "must be a numpy array"),
        (np.zeros((3, 0)), 1, r"shape \(\.\.\., n\)"),
        (["a", "b"], 1, "real numbers"),
        ([[1.0, 2.0], [1.0]], 1, "these have 1 and 2: pad the shorter ones with None"),
        ([0.0, 1.0], True, "m must be an integer; got True"),
        (np.array([1 + 2j]), 1, "real numbers"),
    ],
)
def test_bad_input_says_what_was_given_and_what_is_allowed(rewards, m, says):
    with pytest.raises(InvalidInputError, match=says):
        podsrl.downsample(rewards, m)


def test_an_unknown_rule_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"'best'.*max_variance, max_reward, random"):
        podsrl.downsample([1.0, 2.0], 1, rule="best")
    with pytest.raises(KeyError):
        podsrl.downsample([1.0, 2.0], 1, rule="best")


def lowest(rewards_P_N, m, seed):
    return np.argsort(rewards_P_N, axis=-1)[:, :m]


def test_a_rule_of_ones_own_is_a_callable_a_registered_name_or_a_path(tmp_path):
    rewards = [[3.0, 1.0, 2.0], [0.0, 9.0, 4.0]]
    expected = [[1, 2], [0, 2]]
    assert podsrl.downsample(rewards, 2, rule=lowest) == expected
    podsrl.register_rule("lowest", lowest)
    try:
        assert podsrl.downsample(rewards, 2, rule="lowest") == expected
        with pytest.raises(InvalidInputError, match="taken"):
            podsrl.register_rule("lowest", lambda r, m, s: r)
        again = types.FunctionType(lowest.__code__, globals(), "lowest")
        podsrl.register_rule("lowest", again)  # a cell of a notebook that is run once more
        assert podsrl.RULES["lowest"].function is again is not lowest
        wrapped = functools.wraps(lowest)(lambda r, m, s: r)
        best = functools.wraps(podsrl.RULES["max_variance"])(lambda r, m, s: r)
        for name, other in (
            ("max_variance", best),
            ("max_variance", podsrl.RULES["random"]),
            ("lowest", wrapped),
            ("lowest", np.ndarray.argsort),
            ("lowest", podsrl.RULES["random"]),
        ):
            with pytest.raises(InvalidInputError, match="taken"):
                podsrl.register_rule(name, other)
    finally:
        del podsrl.RULES["lowest"]
    (tmp_path / "mine.py").write_text(
        "def lowest(rewards_P_N, m, seed):\n    return rewards_P_N.argsort(-1)[:, :m]\n"
    )
    assert podsrl.downsample(rewards, 2, rule=f"{tmp_path}/mine.py:lowest") == expected
    with pytest.raises(UnknownNameError, match="no function 'highest'"):
        podsrl.downsample(rewards, 2, rule=f"{tmp_path}/mine.py:highest")
    with pytest.raises(UnknownNameError, match="no file"):
        podsrl.downsample(rewards, 2, rule=f"{tmp_path}/other.py:lowest")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (lambda r, m, seed: np.zeros((len(r), m), dtype=int), "same index twice"),
        (lambda r, m, seed: np.zeros((len(r), m + 1), dtype=int), "got shape"),
        (lambda r, m, seed: np.full((len(r), m), 0.5), "got shape"),
        (lambda r, m, seed: np.arange(m)[None] + len(r[0]), "got indices from"),
    ],
)
def test_what_a_rule_of_ones_own_returns_is_checked(rule, says):
    with pytest.raises(InvalidInputError, match=says):
        podsrl.downsample([[1.0, 2.0, 3.0]], 2, rule=rule)


def test_an_empty_batch_gives_an_empty_selection():
    assert podsrl.downsample(np.zeros((0, 8)), 4).shape == (0, 4)
