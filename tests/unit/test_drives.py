"""Which reward function the update follows: against numpy's corrcoef and by hand."""

import numpy as np
import pytest

import podsrl
from podsrl.drives import (
    WATCHED,
    DriveWatch,
    FittedWeights,
    drives,
    outcome_parts,
    shaping_only,
)


def by_hand(advantages, parts, counted, function):
    """Row by row, with numpy's corrcoef."""
    a, p = [], []
    for group in range(len(advantages)):
        rows = [
            i
            for i in range(len(advantages[group]))
            if counted[group][i] and not np.isnan(parts[group, i, function])
        ]
        if rows:
            a += list(advantages[group, rows] - advantages[group, rows].mean())
            p += list(parts[group, rows, function] - parts[group, rows, function].mean())
    return np.corrcoef(a, p)[0, 1]


def test_drives_are_the_correlations_within_groups_over_the_counted_rollouts():
    rng = np.random.default_rng(0)
    for _ in range(50):
        parts = rng.normal(size=(4, 9, 3)) + rng.normal(size=(4, 1, 3))
        parts[rng.random(parts.shape) < 0.1] = np.nan
        advantages = rng.normal(size=(4, 9))
        counted = rng.random((4, 9)) < 0.7
        expected = [by_hand(advantages, parts, counted, f) for f in range(3)]
        np.testing.assert_allclose(drives(advantages, parts, counted), expected, atol=1e-12)


def test_a_prompt_that_is_easier_than_another_changes_no_drive():
    rng = np.random.default_rng(1)
    parts, advantages = rng.normal(size=(3, 8, 2)), rng.normal(size=(3, 8))
    easier = parts + np.array([0.0, 5.0, -3.0])[:, None, None]
    np.testing.assert_allclose(drives(advantages, parts), drives(advantages, easier), atol=1e-9)


def test_what_does_not_vary_drives_nothing():
    parts = np.zeros((2, 4, 2))
    parts[..., 1] = [0, 1, 0, 1]
    assert drives(np.zeros((2, 4)), parts).tolist() == [0.0, 0.0]
    varied = drives([[-1.0, 1.0, -1.0, 1.0]] * 2, parts)
    np.testing.assert_allclose(varied, [0.0, 1.0])
    rounded = np.full((1, 3, 1), 0.1)  # whose mean is 0.10000000000000002
    assert drives([[1.0, -1.0, 0.0]], rounded).tolist() == [0.0]
    assert drives([[1.0, -1.0]], [[[np.nan], [np.nan]]]).tolist() == [0.0]


def test_max_variance_follows_a_small_part_more_closely_than_all_rollouts_do():
    """Half right, 30 % well formed, 0.2 for the form, n = 64, m = 16."""
    rng = np.random.default_rng(2)
    parts = np.stack([rng.random((500, 64)) < 0.5, rng.random((500, 64)) < 0.3], axis=-1) * 1.0
    rewards = parts @ [1.0, 0.2]
    kept = podsrl.downsample(rewards, 16, seed=0)
    mask = np.zeros(rewards.shape, dtype=bool)
    np.put_along_axis(mask, kept, True, axis=1)
    advantages = podsrl.group_advantages(np.where(mask, rewards, np.nan), np.indices(mask.shape)[1])
    everyone = podsrl.group_advantages(rewards, np.indices(mask.shape)[1])
    assert drives(advantages, parts, mask)[1] > 0.9
    assert drives(everyone, parts)[1] < 0.25


def test_a_group_without_contrast_in_the_outcome_is_trained_on_shaping_alone():
    right_only = [[1.0, 0.1], [1.0, 0.1], [0.0, 0.1]]
    form_only = [[0.0, 0.1], [0.0, 0.2], [1.0, np.nan]]
    nothing = [[0.0, 0.1], [0.0, 0.1], [0.0, 0.1]]
    kept = np.array([[True, True, True], [True, True, False], [True, True, True]])
    parts = np.array([right_only, form_only, nothing])
    assert shaping_only(parts, kept, [1.0, 0.2]) == pytest.approx(1 / 3)
    assert shaping_only(parts, kept, [1.0, 1.0], [0.5, 0.5]) == 0.0
    # a function that weighs nothing and selects nothing, such as one that only logs
    assert shaping_only(parts, kept, [1.0, 0.0]) == 0.0


def test_the_outcome_is_what_weighs_most_or_what_is_selected_by():
    assert outcome_parts([0.1, 2.0, 0.5]) == [False, True, False]
    assert outcome_parts([0.1, 2.0, 0.5], [1.0, 0.0, 1.0]) == [True, False, True]
    assert outcome_parts([1.0, 1.0]) == [True, False]


def test_the_warning_comes_once_names_the_part_and_needs_several_generations():
    watch = DriveWatch(["answer", "form"], [1.0, 0.1])
    said = [watch.observe([0.1, 0.9]) for _ in range(3 * WATCHED)]
    (message,) = [one for one in said if one]
    assert said.index(message) == WATCHED - 1
    assert "'form' has 9% of the weight and drives 99% of the update" in message


@pytest.mark.parametrize(
    ("weights", "seen"),
    [([1.0, 0.1], [0.9, 0.1]), ([1.0, 0.5], [0.1, 0.9]), ([1.0, 0.1], [0.0, 0.0])],
)
def test_no_warning_where_the_part_drives_little_weighs_enough_or_nothing_varies(weights, seen):
    watch = DriveWatch(["answer", "form"], weights)
    assert not any(watch.observe(seen) for _ in range(3 * WATCHED))
    alone = DriveWatch(["answer"], [1.0])
    assert not any(alone.observe([1.0]) for _ in range(3 * WATCHED))


def test_weights_are_recovered_from_rewards_whatever_the_scale_and_in_any_portions():
    rng = np.random.default_rng(0)
    parts = np.column_stack([rng.random(60) < 0.3, 1e3 * rng.random(60), 1e6 + rng.random(60)])
    weights = [1.0, -2e-4, 0.1]
    for portions in (1, 6):
        fitted = FittedWeights()
        for some in np.array_split(parts, portions):
            found = fitted.observe("abc", some, some @ weights)
        assert found == pytest.approx(weights, rel=1e-4)


def test_a_number_that_is_no_part_of_the_reward_weighs_nothing_and_twins_share():
    rng = np.random.default_rng(1)
    answer, noise = (rng.random(200) < 0.5) * 1.0, rng.random(200)
    parts = np.column_stack([answer, noise, answer])
    rewards = 2 * answer
    parts[3] = np.nan  # could not be scored
    parts[4, 1], parts[5, 1], rewards[6] = np.inf, 1e200, -np.inf  # can't be summed
    fitted = FittedWeights()
    for _ in range(2):
        assert fitted.observe("abc", parts, rewards) == pytest.approx([1, 0, 1])


def test_a_rollout_with_a_number_that_cannot_be_squared_is_left_out():
    advantages, parts = [[1.0, -1.0, 0.0, 0.0]], [[[1.0], [0.0], [0.5], [0.5]]]
    for wrong in (np.nan, np.inf, -1e300):
        parts[0][3] = [wrong]
        assert drives(advantages, parts) == pytest.approx([1.0])


def test_no_weights_where_the_parts_do_not_explain_the_reward_or_one_has_not_varied():
    rng = np.random.default_rng(2)
    answer, form = ((rng.random(200) < 0.5) * 1.0 for _ in range(2))
    assert FittedWeights().observe(["form"], form[:, None], answer + 0.2 * form) is None
    fitted = FittedWeights()
    parts = np.column_stack([np.zeros(200), form])
    assert fitted.observe(["answer", "form"], parts, 0.2 * form) is None
    parts[:, 0] = answer
    found = fitted.observe(["answer", "form"], parts, answer + 0.2 * form)
    assert found == pytest.approx([1.0, 0.2])
