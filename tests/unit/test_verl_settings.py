"""What is refused together with verl's other settings. Nothing here needs verl."""

import pytest

from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.selection import Selection
from podsrl.verl.settings import read_selection


def config(given, algorithm=None, actor=None, gpus=8, nodes=1):
    """The part of verl's config that is read."""
    actor = {"strategy": "fsdp2", "ppo_mini_batch_size": 8, "ulysses_sequence_parallel_size": 1} | (
        actor or {}
    )
    return {
        "trainer": {"v1": {"pods_sync": given}, "nnodes": nodes, "n_gpus_per_node": gpus},
        "actor_rollout_ref": {"rollout": {"n": 64}, "actor": actor},
        "algorithm": {"adv_estimator": "grpo", "use_kl_in_reward": False} | (algorithm or {}),
    }


def test_the_section_of_the_mode_is_read():
    selection = read_selection(config({"m": 16, "rule": "max_reward"}), "pods_sync")
    assert selection == Selection(num_rollouts=64, num_kept=16, rule="max_reward")


@pytest.mark.parametrize("given", [None, {}])
def test_a_mode_without_its_section_says_what_to_add(given):
    with pytest.raises(InvalidInputError, match=r"trainer\.v1\.pods_sync\.m is not set"):
        read_selection(config(given), "pods_sync")


def test_another_modes_section_does_not_count():
    with pytest.raises(InvalidInputError, match=r"pods_colocate_async\.m is not set"):
        read_selection(config({"m": 16}), "pods_colocate_async")


@pytest.mark.parametrize(
    ("m", "prompts", "ranks", "nearest"),
    [
        # rows = prompts x m must be a multiple of ranks
        (6, 9, {"gpus": 8}, "8 or 12"),  # 4 x 6 = 24 = 3 x 8, so multiples of 4
        (4, 1, {"gpus": 8}, "2"),  # 2 x 4 = 8
        (3, 10, {"gpus": 8, "nodes": 2}, "16"),  # 16 x 3; there is no smaller one but 0
        (2, 3, {"gpus": 8, "actor": {"ulysses_sequence_parallel_size": 2}}, "2 or 4"),
    ],
)
def test_mini_batches_that_ranks_can_not_share_are_refused_with_the_nearest_size(
    m, prompts, ranks, nearest
):
    ranks = dict(ranks)
    actor = {"ppo_mini_batch_size": prompts} | ranks.pop("actor", {})
    with pytest.raises(InvalidInputError, match=f"nearest ppo_mini_batch_size is {nearest}$"):
        read_selection(config({"m": m}, actor=actor, **ranks), "pods_sync")


@pytest.mark.parametrize("strategy", ["fsdp", "fsdp2"])
def test_mini_batches_that_ranks_can_share_are_accepted(strategy):
    actor = {"ppo_mini_batch_size": 2, "strategy": strategy}
    assert read_selection(config({"m": 4}, actor=actor), "pods_sync").num_kept == 4


def test_with_a_mean_of_one_row_a_mini_batch_has_as_many_rows_as_prompts():
    given = {"m": 1, "rule": "max_contrast"}
    assert read_selection(config(given), "pods_sync").num_kept == 1
    with pytest.raises(InvalidInputError, match=r"nearest ppo_mini_batch_size is 8 or 16$"):
        read_selection(config(given, actor={"ppo_mini_batch_size": 9}), "pods_sync")
    with pytest.raises(InvalidInputError, match=r"m=1; allowed: 2 .* trainer.*rule=max_contrast"):
        read_selection(config({"m": 1}), "pods_sync")


def test_how_megatron_shares_rows_is_left_to_verl():
    actor = {"ppo_mini_batch_size": 1, "strategy": "megatron"}
    assert read_selection(config({"m": 3}, actor=actor), "pods_sync").num_kept == 3


def test_the_group_baseline_needs_grpo():
    given = {"m": 16, "baseline": "group"}
    with pytest.raises(UnsupportedError, match=r"needs algorithm\.adv_estimator=grpo; got rloo"):
        read_selection(config(given, {"adv_estimator": "rloo"}), "pods_sync")
    assert read_selection(config(given), "pods_sync").baseline == "group"


def test_the_group_baseline_needs_rewards_without_kl():
    given = {"m": 16, "baseline": "group"}
    with pytest.raises(UnsupportedError, match="use_kl_in_reward=True: dropped rollouts have no"):
        read_selection(config(given, {"use_kl_in_reward": True}), "pods_sync")


def test_a_rule_across_prompts_needs_grpo():
    given = {"m": 16, "rule": "max_contrast"}
    says = r"rule=max_contrast keeps rows across prompts, .*adv_estimator=grpo; got rloo"
    with pytest.raises(UnsupportedError, match=says):
        read_selection(config(given, {"adv_estimator": "rloo"}), "pods_sync")
    assert read_selection(config(given), "pods_sync").across_prompts
