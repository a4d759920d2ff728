"""Rewards are normalized per prompt, also where prompts have different numbers of samples."""

from types import SimpleNamespace

import pytest
import torch

rollout = pytest.importorskip("slime.ray.rollout")
from slime.utils.types import Sample  # noqa: E402

NUM_GPUS = 0


def normalized(groups, *, n=4, prompts=2, std=True):
    """What RolloutManager makes of the rewards of these groups."""
    args = SimpleNamespace(
        advantage_estimator="grpo",
        rewards_normalization=True,
        grpo_std_normalization=std,
        n_samples_per_prompt=n,
        rollout_batch_size=prompts,
        reward_key=None,
    )
    manager = SimpleNamespace(args=args, custom_reward_post_process_func=None)
    kind = rollout.RolloutManager
    kind = getattr(kind, "__ray_metadata__", SimpleNamespace(modified_class=kind)).modified_class
    if hasattr(kind, "_normalize_by_group"):
        manager._normalize_by_group = kind._normalize_by_group.__get__(manager)
    samples = [
        Sample(group_index=index, reward=reward) for index, rewards in groups for reward in rewards
    ]
    raw, rewards = kind._post_process_rewards(manager, samples)
    assert raw == [reward for _, rewards_of in groups for reward in rewards_of]
    return rewards


def test_each_group_has_its_own_mean():
    got = normalized([(7, [1.0, 0.0, 0.0]), (9, [11.0, 10.0])], std=False)
    assert got == pytest.approx([2 / 3, -1 / 3, -1 / 3, 0.5, -0.5])


def test_the_deviation_is_that_of_the_group():
    got = normalized([(0, [1.0, 0.0, 0.0]), (1, [5.0, 3.0])])
    for part, rewards in ((got[:3], [1.0, 0.0, 0.0]), (got[3:], [5.0, 3.0])):
        of_group = torch.tensor(rewards)
        assert part == pytest.approx(
            ((of_group - of_group.mean()) / (of_group.std() + 1e-6)).tolist()
        )


def test_one_sample_alone_teaches_nothing():
    assert normalized([(0, [3.0]), (1, [1.0, 0.0])])[0] == 0.0


def test_groups_may_be_mixed():
    mixed = normalized([(0, [1.0]), (1, [4.0]), (0, [0.0]), (1, [2.0]), (1, [0.0])], std=False)
    assert mixed == pytest.approx([0.5, 2.0, -0.5, 0.0, -2.0])


def test_even_groups_are_as_before():
    groups = [(0, [1.0, 0.0, 0.0, 1.0]), (1, [3.0, 1.0, 2.0, 2.0])]
    rewards = torch.tensor([rewards for _, rewards in groups])
    known = (rewards - rewards.mean(-1, keepdim=True)) / (rewards.std(-1, keepdim=True) + 1e-6)
    assert normalized(groups) == pytest.approx(known.flatten().tolist())
