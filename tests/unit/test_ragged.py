"""Groups of different sizes: each is down-sampled as if it were alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsrl import downsample
from podsrl.downsampling.ragged import downsample_ragged

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
