"""What is refused together with verl's other settings. Nothing here needs verl."""

import re

import pytest

from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.selection import Selection
from podsrl.verl.groups import read_selection, refuse_misplaced_options


def config(given, algorithm=None):
    """The part of verl's config that is read."""
    return {
        "trainer": {"v1": {"pods_sync": given}},
        "actor_rollout_ref": {"rollout": {"n": 64}},
        "algorithm": {"adv_estimator": "grpo", "use_kl_in_reward": False} | (algorithm or {}),
    }


def test_the_section_of_the_mode_is_read():
    selection = read_selection(config({"m": 16, "rule": "max_reward"}), "pods_sync")
    assert selection == Selection(num_rollouts=64, num_kept=16, rule="max_reward")


@pytest.mark.parametrize("given", [None, {}])
def test_a_mode_without_its_section_is_the_papers_method_with_a_quarter_of_the_rollouts(given):
    assert read_selection(config(given), "pods_sync") == Selection(64, 16, "max_variance", "kept")


def test_a_method_goes_by_its_name():
    selection = read_selection(config({"method": "max_contrast"}), "pods_sync")
    assert selection == Selection(64, 16, "max_contrast", "group")


def test_another_modes_section_does_not_count():
    says = r"in trainer\.v1\.pods_sync, and the trainer mode is pods_colocate_async: give them as"
    with pytest.raises(InvalidInputError, match=says):
        read_selection(config({"m": 16}), "pods_colocate_async")


def with_value(place, value):
    """A config whose sections are those of a run in place of its options, and one value more."""
    given = {"trainer": {"v1": {"sync": {}, "pods_sync": {"m": 16}, "pods_colocate_async": {}}}}
    *path, name = place.split(".")
    section = given
    for part in path:
        section = section.setdefault(part, {})
    section[name] = value
    return given


@pytest.mark.parametrize(
    "place",
    [
        "trainer.v1.pods.m",
        "trainer.v1.pods_async.m",
        "trainer.v1.m",
        "trainer.v1.sync.m",
        "trainer.v1.sync.rule",
        "trainer.pods_sync.m",
        "trainer.m",
        "pods_sync.m",
        "algorithm.pods.m",
        "actor_rollout_ref.rollout.pods_m",
    ],
)
def test_options_in_a_place_where_nobody_reads_them_are_refused(place):
    where = place.removesuffix(".m") if "pods" in place else place  # the section, if it is ours
    with pytest.raises(InvalidInputError, match=rf"does not read {re.escape(where)}; its options"):
        refuse_misplaced_options(with_value(place, 4))


@pytest.mark.parametrize(
    "place", ["trainer.v1.pods_sync.m", "trainer.v1.pods_colocate_async.m", "trainer.v1.sync.x"]
)
def test_the_sections_of_all_modes_may_be_there_and_verls_own_options(place):
    refuse_misplaced_options(with_value(place, 4))


@pytest.mark.parametrize(
    "rule", [{"rule": "max_contrast"}, {"rule": "max_reward", "baseline": "group"}]
)
def test_one_rollout_per_prompt_needs_a_rule_across_prompts_or_the_best_one(rule):
    assert read_selection(config({"m": 1, **rule}), "pods_sync").num_kept == 1
    with pytest.raises(InvalidInputError, match=r"m=1; allowed: 2 .* trainer.*rule=max_contrast"):
        read_selection(config({"m": 1}), "pods_sync")


def test_the_group_baseline_needs_grpo():
    given = {"m": 16, "baseline": "group"}
    with pytest.raises(UnsupportedError, match=r"needs algorithm\.adv_estimator=grpo; got rloo"):
        read_selection(config(given, {"adv_estimator": "rloo"}), "pods_sync")
    assert read_selection(config(given), "pods_sync").baseline == "group"


def test_the_group_baseline_needs_rewards_without_kl():
    given = {"m": 16, "baseline": "group"}
    with pytest.raises(UnsupportedError, match="use_kl_in_reward=True: dropped rollouts have no"):
        read_selection(config(given, {"use_kl_in_reward": True}), "pods_sync")


def test_weights_of_parts_need_what_a_colocated_reward_model_leaves_out():
    given = config({"m": 16, "selection_weights": {"acc": 1.0}})
    given["reward"] = {"reward_model": {"enable": True, "enable_resource_pool": False}}
    with pytest.raises(UnsupportedError, match=r"selection_weights .*enable_resource_pool=True"):
        read_selection(given, "pods_sync")
    for changed in ({"enable": False}, {"enable_resource_pool": True}):
        given["reward"]["reward_model"] = {"enable": True, "enable_resource_pool": False} | changed
        assert read_selection(given, "pods_sync").selection_weights == {"acc": 1.0}
    given["reward"]["reward_model"] = {"enable": True, "enable_resource_pool": False}
    given["trainer"]["v1"]["pods_sync"] = {"m": 16}
    assert read_selection(given, "pods_sync").num_kept == 16


def test_a_rule_across_prompts_needs_grpo():
    given = {"m": 16, "rule": "max_contrast"}
    says = r"rule=max_contrast keeps rows across prompts, .*adv_estimator=grpo; got rloo"
    with pytest.raises(UnsupportedError, match=says):
        read_selection(config(given, {"adv_estimator": "rloo"}), "pods_sync")
    assert read_selection(config(given), "pods_sync").across_prompts
