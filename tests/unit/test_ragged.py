"""`Selection.select`: groups of different sizes are down-sampled as if each were alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsrl import Selection, downsample, downsample_batch

groups = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=9), max_size=6)


def within(groups, m, rule="max_variance", seed=None, step=0):
    """What a group rule keeps, of groups of any sizes."""
    return Selection(num_rollouts=12, num_kept=m, rule=rule, seed=seed).select(groups, step)


def across(groups, m, seed=None):
    """What max_contrast keeps, m of each group on average."""
    return Selection(num_rollouts=12, num_kept=m, rule="max_contrast", seed=seed).select(groups)


@given(groups=groups, m=st.integers(2, 6))
def test_each_group_is_chosen_from_as_if_it_were_alone(groups, m):
    kept = within(groups, m)
    assert len(kept) == len(groups)
    for group, indices in zip(groups, kept, strict=True):
        whole = list(range(len(group)))
        assert indices == (whole if len(group) <= m else downsample(group, m))


def test_a_short_group_is_kept_whole_with_its_unscorable_rollouts():
    assert within([[np.nan, 0.5]], m=3) == [[0, 1]]


def test_a_seed_gives_the_same_choice_again_and_another_step_another():
    ties = [[0.0] * 12, [1.0] * 9, [0.5] * 12]
    choices = [within(ties, 4, "random", seed=1, step=step) for step in (0, 0, 1)]
    assert choices[0] == choices[1] != choices[2]


def test_nothing_to_choose_from_is_nothing_kept():
    assert within([], m=2) == across([], m=2) == []


@pytest.mark.parametrize("keep", [within, across])
@pytest.mark.parametrize("group", [[0.0, np.inf], [np.nan, -np.inf]])
def test_an_infinite_reward_is_an_error_where_all_are_kept_too(keep, group):
    with pytest.raises(ValueError, match="infinite"):
        keep([group, [0.0, 1.0, 0.0]], 3)


@given(groups=groups, m=st.integers(1, 6))
def test_across_the_batch_as_many_are_kept_as_there_are_up_to_rows(groups, m):
    kept = across(groups, m)
    assert len(kept) == len(groups)
    assert sum(map(len, kept)) == min(m * len(groups), sum(map(len, groups)))
    for group, indices in zip(groups, kept, strict=True):
        assert indices == sorted(set(indices))
        assert all(0 <= i < len(group) for i in indices)


def test_across_the_batch_groups_of_one_size_are_chosen_from_as_by_downsample_batch():
    rewards = np.random.default_rng(0).normal(size=(5, 8))
    mask = downsample_batch(rewards, 15, seed=[1])
    assert across(list(rewards), 3, seed=1) == [np.flatnonzero(row).tolist() for row in mask]


def test_across_the_batch_a_place_that_a_short_group_lacks_is_never_kept():
    assert across([[np.nan, 1.0, np.nan], [0.5]], m=1) == [[1], [0]]
    assert across([[np.nan, 1.0, np.nan], [0.5]], m=2) == [[0, 1, 2], [0]]
