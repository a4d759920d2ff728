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


def variances(rewards: np.ndarray) -> np.ndarray:
    """Along the last axis, in extended precision: the reference is better than what it judges."""
    return np.var(rewards.astype(np.longdouble), axis=-1)


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
            every_third = rewards[::3]  # a view
            every_third[rng.random(every_third.shape) < 0.2] = np.nan
            yield rewards, m


# ---- against brute force and independent references ----------------------------------------------


def test_max_variance_is_never_below_brute_force_on_10000_random_groups():
    judged = 0
    for rewards, m in random_batches(150):
        scorable = (~np.isnan(rewards)).sum(axis=1)
        rewards = rewards[scorable >= m]
        kept = np.take_along_axis(rewards, podsrl.downsample(rewards, m), axis=1)

        subsets = np.array(list(itertools.combinations(range(rewards.shape[1]), m)))
        of_subsets = variances(rewards[:, subsets])
        # NaN: of a subset with a rollout that was not scored
        best = np.max(of_subsets, axis=1, where=~np.isnan(of_subsets), initial=0)
        assert (variances(kept) >= best * (1 - 1e-8)).all()
        judged += len(rewards)
    assert judged >= 10_000


@pytest.mark.parametrize("n", [64, 256, 1024])
def test_max_variance_equals_an_independent_scan_over_the_number_of_high_rewards(n):
    rng = np.random.default_rng(n)
    continuous = rng.normal(size=n)
    binary = rng.integers(0, 2, n) * 1.0
    graded = rng.integers(0, 5, n) / 4
    for rewards in (continuous, binary, graded):
        for m in (2, 5, 16, n // 2, n):
            kept = podsrl.downsample(rewards, m)
            expected = best_of_lowest_and_highest(rewards, m)
            assert variances(rewards[kept]) == pytest.approx(expected, rel=1e-9)


def best_of_lowest_and_highest(rewards: np.ndarray, m: int) -> float:
    """Lemma 3.1: the best set has k highest and m - k lowest; each variance from scratch."""
    ascending = np.sort(rewards)
    n = len(rewards)
    candidates = [np.concatenate([ascending[: m - k], ascending[n - k :]]) for k in range(m + 1)]
    return max(np.var(candidate) for candidate in candidates)


# ---- what every rule takes and gives -------------------------------------------------------------


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

        kept_rewards = np.take_along_axis(rewards, kept, axis=1)
        scorable = (~np.isnan(rewards)).sum(axis=1)
        kept_scorable = (~np.isnan(kept_rewards)).sum(axis=1)
        assert (kept_scorable == np.minimum(m, scorable)).all()


def test_a_rule_of_ones_own_need_not_know_of_unscorable_rollouts():
    def first(rewards_P_N, m, seed):
        return np.broadcast_to(np.arange(m), (len(rewards_P_N), m))

    nan = math.nan
    rewards = [
        [nan, 1.0, nan, 0.0, 2.0],
        [0.0, 1.0, 2.0, nan, 3.0],
        [nan, nan, nan, nan, 1.0],
    ]
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


# ---- ties and chance -----------------------------------------------------------------------------


def test_of_equal_rewards_the_lowest_indices_are_kept_without_a_seed():
    assert podsrl.downsample([0, 0, 0, 1, 1, 1], 2) == [0, 3]
    assert podsrl.downsample([1, 1, 1, 0, 0, 0], 4) == [0, 1, 3, 4]
    assert podsrl.downsample([7.0] * 6, 4) == [0, 1, 2, 3]
    assert podsrl.downsample([1, 1, 0, 1], 2, "max_reward") == [0, 1]


@pytest.mark.parametrize("rule", ["max_variance", "max_reward"])
def test_without_a_seed_none_is_kept_after_a_dropped_one_of_the_same_reward(rule):
    for rewards, m in random_batches(30):
        is_kept = np.zeros(rewards.shape, dtype=bool)
        np.put_along_axis(is_kept, podsrl.downsample(rewards, m, rule), True, axis=1)

        # of all pairs of a group: (later, earlier)
        equal = rewards[:, :, None] == rewards[:, None, :]
        after = np.tri(rewards.shape[1], k=-1, dtype=bool)
        kept_after_dropped = is_kept[:, :, None] & ~is_kept[:, None, :]
        assert not (equal & after & kept_after_dropped).any()


def times_kept(rewards: np.ndarray, m: int, rule: str, draws: int) -> np.ndarray:
    """How often each rollout is kept, with as many seeds."""
    counts = np.zeros(len(rewards))
    for seed in range(draws):
        counts[podsrl.downsample(rewards, m, rule, seed)] += 1
    return counts


def test_a_seed_breaks_ties_at_random_and_reproducibly():
    rewards = np.repeat([0.0, 1.0], 50)
    draws = [tuple(podsrl.downsample(rewards, 10, seed=seed)) for seed in range(20)]
    assert len(set(draws)) == 20
    assert draws[3] == tuple(podsrl.downsample(rewards, 10, seed=3))

    # every index is as likely as any other: 2,000 draws of 10 of 100, expectation 200, sd 13.4
    counts = times_kept(rewards, 10, "max_variance", draws=2000)
    assert abs(counts - 200).max() < 5 * 13.4


def test_random_is_uniform():
    counts = times_kept(np.arange(8.0), 2, "random", draws=4000)
    # 2 of 8 in each draw: expectation 1000, variance 4000 * 1/4 * 3/4
    assert abs(counts - 1000).max() < 5 * math.sqrt(1000 * 0.75)


def test_percentile_takes_the_stated_quantiles():
    # n = 8, m = 4: floor(8 * (i + 0.5) / 4) = 1, 3, 5, 7
    assert podsrl.downsample(np.arange(8.0), 4, "percentile").tolist() == [1, 3, 5, 7]
    assert podsrl.downsample(-np.arange(8.0), 4, "percentile").tolist() == [0, 2, 4, 6]


def test_max_reward_takes_the_highest():
    assert podsrl.downsample(np.arange(8.0), 3, "max_reward").tolist() == [5, 6, 7]


# ---- laws ----------------------------------------------------------------------------------------


@st.composite
def rewards_and_m(draw):
    n = draw(st.integers(2, 12))
    rewards = draw(st.lists(st.integers(-8, 8), min_size=n, max_size=n))
    return np.array(rewards, dtype=float), draw(st.integers(1, n))


@settings(max_examples=300, deadline=None)
@given(rewards_and_m(), st.randoms(use_true_random=False))
def test_max_variance_does_not_depend_on_order_shift_or_scale(case, random):
    rewards, m = case
    kept = podsrl.downsample(rewards, m)

    order = list(range(len(rewards)))
    random.shuffle(order)
    shuffled = rewards[order]
    kept_of_shuffled = shuffled[podsrl.downsample(shuffled, m)]
    assert sorted(kept_of_shuffled) == sorted(rewards[kept])

    for changed in (rewards + 1e6, rewards * 1e-6, rewards * 1e250, rewards * 1e-250):
        assert podsrl.downsample(changed, m).tolist() == kept.tolist()


def test_equal_variances_prefer_as_many_high_as_low():
    # any k of the 4 + 4 extremes -1, +1 with m = 4: only k = 2 is best
    assert podsrl.downsample([-1, 1, -1, 1, -1, 1, -1, 1], 4) == [0, 1, 2, 3]

    # symmetric 0, 1, 3, 4 with m = 3: k = 1 and k = 2 tie, both 1/2 away from m/2; the lower k wins
    assert podsrl.downsample([0.0, 1.0, 3.0, 4.0], 3) == [0, 1, 3]


# ---- errors --------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("seed", [-1, "x", 1.5, [1, -1]])
def test_a_seed_that_is_none_is_refused_as_such_and_not_as_a_failing_rule(seed):
    says = r"^seed must be None, an integer >= 0 or a list of such ones; got "
    with pytest.raises(InvalidInputError, match=says):
        podsrl.downsample(REWARDS, 2, seed=seed)
    with pytest.raises(InvalidInputError, match=says):
        podsrl.downsample_batch([[0.0, 1.0, 1.0]], 2, seed=seed)


def test_an_unknown_rule_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"'best'.*max_variance, max_reward, random"):
        podsrl.downsample([1.0, 2.0], 1, rule="best")
    with pytest.raises(KeyError):
        podsrl.downsample([1.0, 2.0], 1, rule="best")


# ---- rules of one's own --------------------------------------------------------------------------


def lowest(rewards_P_N, m, seed):
    return np.argsort(rewards_P_N, axis=-1)[:, :m]


REWARDS = [[3.0, 1.0, 2.0], [0.0, 9.0, 4.0]]
TWO_LOWEST = [[1, 2], [0, 2]]


@pytest.fixture
def _lowest_is_registered():
    podsrl.register_rule("lowest", lowest)
    yield
    del podsrl.RULES["lowest"]


def test_a_rule_of_ones_own_is_a_callable():
    assert podsrl.downsample(REWARDS, 2, rule=lowest) == TWO_LOWEST


@pytest.mark.usefixtures("_lowest_is_registered")
def test_a_rule_of_ones_own_is_a_registered_name():
    assert podsrl.downsample(REWARDS, 2, rule="lowest") == TWO_LOWEST


@pytest.mark.usefixtures("_lowest_is_registered")
def test_a_rule_may_be_registered_again_as_by_a_cell_of_a_notebook_that_is_run_once_more():
    again = types.FunctionType(lowest.__code__, globals(), "lowest")
    podsrl.register_rule("lowest", again)
    assert podsrl.RULES["lowest"].function is again
    assert again is not lowest


def looks_like(function):
    """Another function with all names of this one."""
    return functools.wraps(function)(lambda r, m, s: r)


@pytest.mark.usefixtures("_lowest_is_registered")
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("max_variance", looks_like(podsrl.RULES["max_variance"])),
        ("max_variance", podsrl.RULES["random"]),
        ("lowest", lambda r, m, s: r),
        ("lowest", looks_like(lowest)),
        ("lowest", np.ndarray.argsort),
        ("lowest", podsrl.RULES["random"]),
    ],
)
def test_a_name_that_is_taken_is_not_given_to_another_rule(name, other):
    with pytest.raises(InvalidInputError, match="taken"):
        podsrl.register_rule(name, other)


def test_a_rule_of_ones_own_is_a_path(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "def lowest(rewards_P_N, m, seed):\n    return rewards_P_N.argsort(-1)[:, :m]\n"
    )
    assert podsrl.downsample(REWARDS, 2, rule=f"{file}:lowest") == TWO_LOWEST
    with pytest.raises(UnknownNameError, match="no function 'highest'"):
        podsrl.downsample(REWARDS, 2, rule=f"{file}:highest")
    with pytest.raises(UnknownNameError, match="no file"):
        podsrl.downsample(REWARDS, 2, rule=f"{tmp_path}/other.py:lowest")


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
