"""Groups of different sizes: each is down-sampled as if it were alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsrl import downsample
from podsrl import downsample_batch
from podsrl.downsampling.ragged import downsample_ragged, downsample_ragged_batch

groups = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=9), max_size=6)


@given(groups=groups, m=st.integers(2, 6))
def test_each_group_is_chosen_from_as_if_it_were_alone(groups, m):
    kept = downsample_ragged(groups, m)
    assert len(kept) == len(groups)
    for group, indices in zip(groups, kept, strict=True):
        whole = list(range(len(group)))
        assert indices == (whole if len(group) <= m else downsample(group, m))


def test_a_short_group_is_kept_whole_with_its_unscorable_rollouts():
    assert downsample_ragged([[np.nan, 0.5]], m=3) == [[0, 1]]


def test_a_seed_gives_the_same_choice_again_and_another_seed_another():
    ties = [[0.0] * 12, [1.0] * 9, [0.5] * 12]
    choices = [downsample_ragged(ties, 4, "random", seed) for seed in ([1, 0], [1, 0], [1, 1])]
    assert choices[0] == choices[1] != choices[2]


def test_nothing_to_choose_from_is_nothing_kept():
    assert downsample_ragged([], m=2) == []


def test_an_infinite_reward_is_an_error():
    with pytest.raises(ValueError, match="infinite"):
        downsample_ragged([[0.0, np.inf, 1.0]], m=2)


def test_an_infinite_reward_is_an_error_where_all_are_kept_too():
    for group in ([0.0, np.inf], [np.nan, -np.inf]):
        with pytest.raises(ValueError, match="infinite"):
            downsample_ragged([group, [0.0, 1.0, 0.0]], 2)
        with pytest.raises(ValueError, match="infinite"):
            downsample_ragged_batch([group, [0.0, 1.0, 0.0]], 5)


@given(groups=groups, rows=st.integers(0, 30))
def test_across_the_batch_as_many_are_kept_as_there_are_up_to_rows(groups, rows):
    kept = downsample_ragged_batch(groups, rows)
    assert len(kept) == len(groups)
    assert sum(map(len, kept)) == min(rows, sum(map(len, groups)))
    for group, indices in zip(groups, kept, strict=True):
        assert indices == sorted(set(indices))
        assert all(0 <= i < len(group) for i in indices)


def test_across_the_batch_groups_of_one_size_are_chosen_from_as_by_downsample_batch():
    rewards = np.random.default_rng(0).normal(size=(5, 8))
    mask = downsample_batch(rewards, 14, seed=1)
    kept = downsample_ragged_batch(list(rewards), 14, seed=1)
    assert kept == [np.flatnonzero(row).tolist() for row in mask]


def test_across_the_batch_a_place_that_a_short_group_lacks_is_never_kept():
    assert downsample_ragged_batch([[np.nan, 1.0, np.nan], [0.5]], rows=3) == [[0, 1], [0]]
    assert downsample_ragged_batch([[np.nan, 1.0], [0.5]], rows=9) == [[0, 1], [0]]
