"""Advantages against the formula and TRL's own normalisation."""

import numpy as np
import pytest
import torch

import podsrl
from podsrl.errors import InvalidInputError


def test_advantages_use_mean_and_unbiased_std_of_the_kept_rewards():
    # kept 0, 0, 1, 1: mean 1/2, std sqrt(4 * 1/4 / 3) = 0.57735
    advantages = podsrl.group_advantages([0, 0, 0, 0, 0, 1, 1], [0, 1, 5, 6], eps=0)
    assert advantages == pytest.approx([-0.8660254, -0.8660254, 0.8660254, 0.8660254])


def test_the_group_baseline_uses_all_n_rewards():
    # all: mean 2/8, std sqrt((6 * 1/16 + 2 * 9/16) / 7) = 0.46291
    rewards = [0, 0, 0, 0, 0, 0, 1, 1]
    advantages = podsrl.group_advantages(rewards, [0, 6], baseline="group", eps=0)
    assert advantages == pytest.approx([-0.25 / 0.46291005, 0.75 / 0.46291005])


def test_the_deviation_may_be_that_of_the_population():
    # mean 1/2, std sqrt(2 * 1/4 / 2) = 1/2, in place of sqrt(2 * 1/4 / 1)
    advantages = podsrl.group_advantages([0.0, 0.0, 1.0], [0, 2], eps=0, correction=0)
    assert advantages == [-1.0, 1.0]


def test_without_scale_only_the_mean_is_subtracted():
    assert podsrl.group_advantages([1.0, 2.0, 6.0], [0, 2], scale=False) == [-2.5, 2.5]


def test_an_unscorable_rollout_gets_zero_and_moves_no_one_else():
    with_nan = podsrl.group_advantages([0.0, 1.0, float("nan")], [0, 1, 2])
    without = podsrl.group_advantages([0.0, 1.0], [0, 1])
    assert with_nan == [*without, 0.0]


@pytest.mark.parametrize("rewards", [[2.0, 2.0, 2.0], [float("nan")] * 3])
def test_a_group_without_contrast_gets_zeros(rewards):
    assert podsrl.group_advantages(rewards, [0, 2]) == [0.0, 0.0]
    assert podsrl.group_advantages(rewards, [0, 2], eps=0.0) == [0.0, 0.0]


@pytest.mark.parametrize("n", [3, 6, 7, 100])
@pytest.mark.parametrize("reward", [0.1, -0.7, 1e9 / 3])
def test_equal_rewards_get_zeros_also_where_their_mean_is_rounded(reward, n):
    """0.1 + 0.1 + 0.1 is more than 0.3."""
    for given in ({"eps": 0.0}, {"eps": 1e-8}, {"scale": False}):
        assert podsrl.group_advantages([reward] * n, list(range(n)), **given) == [0.0] * n
    # and what differs least is no rounding
    above = [reward] * (n - 1) + [reward + abs(reward) * 1e-12]
    assert min(podsrl.group_advantages(above, [n - 1], "group", eps=0.0)) > 0.5


@pytest.mark.parametrize("baseline", ["kept", "group"])
def test_numpy_torch_and_batches_agree(baseline):
    rewards = np.random.default_rng(0).normal(size=(3, 5, 8))
    kept = podsrl.downsample(rewards, 4)
    whole = podsrl.group_advantages(rewards, kept, baseline)
    from_torch = podsrl.group_advantages(torch.tensor(rewards), torch.tensor(kept), baseline)
    one = podsrl.group_advantages(rewards[2, 1], kept[2, 1], baseline)
    assert whole.shape == (3, 5, 4)
    np.testing.assert_allclose(whole, from_torch.numpy(), rtol=1e-12)
    np.testing.assert_allclose(whole[2, 1], one, rtol=1e-12)


def test_integer_rewards_and_float32_tensors_are_taken():
    assert podsrl.group_advantages(np.array([0, 1]), np.array([0, 1]), scale=False).tolist() == [
        -0.5,
        0.5,
    ]
    advantages = podsrl.group_advantages(torch.tensor([0.0, 1.0]), torch.tensor([0, 1]))
    assert advantages.dtype == torch.float32


def test_bad_input_is_refused():
    with pytest.raises(InvalidInputError, match="unknown baseline 'mean'; allowed: kept, group"):
        podsrl.group_advantages([0.0, 1.0], [0, 1], baseline="mean")
    with pytest.raises(InvalidInputError, match="must have the same"):
        podsrl.group_advantages(np.zeros((2, 3)), np.zeros((3, 1), dtype=int))
    with pytest.raises(InvalidInputError, match=r"integers in 0\.\.1"):
        podsrl.group_advantages([0.0, 1.0], [0, 2])


@pytest.mark.parametrize("baseline", ["kept", "group"])
def test_rewards_of_which_no_advantage_follows_are_refused_and_not_made_zeros(baseline):
    for infinite in (np.inf, -np.inf):
        with pytest.raises(InvalidInputError, match="rewards contain an infinite value"):
            podsrl.group_advantages([0.0, infinite], [0, 1], baseline)
    with pytest.raises(InvalidInputError, match=r"so far apart .* give smaller rewards"):
        podsrl.group_advantages([0.0, 1e200], [0, 1], baseline)

    # Without the deviation nothing is squared.
    assert podsrl.group_advantages([0.0, 2e200], [0, 1], baseline, scale=False) == [-1e200, 1e200]
