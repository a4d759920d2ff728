"""Selection: what is refused, that the message helps, and what a rollout is selected by."""

import math

import numpy as np
import pytest

from podsrl import RULES, downsample, register_rule, rule
from podsrl.errors import InvalidInputError, UnknownNameError
from podsrl.methods import selection_from_options
from podsrl.rewards import rewards_of_groups
from podsrl.rules import resolve_rule
from podsrl.rules.prompt_rules import max_variance
from podsrl.selection import Selection


def read(n=64, **given):
    """As verl reads the options of its users."""
    return selection_from_options(given, n, where="trainer.v1.pods_sync.", n_name="rollout.n")


def test_only_m_has_to_be_given():
    assert read(m=16) == Selection(num_rollouts=64, num_kept=16, rule="max_variance")


def test_every_option_arrives():
    given = {"rule": "random", "baseline": "group", "seed": 7}
    assert read(m=2, **given) == Selection(64, 2, **given)
    given = {"rule": "max_contrast", "selection_weights": {"acc": 1.0, "form": 0.0}}
    assert read(m=1, **given) == Selection(64, 1, **given)


def test_what_is_kept_is_told_in_words():
    assert read(m=16).in_words == "16 of 64"
    assert read(m=1, rule="max_contrast").in_words == "1 of 64 on average"


def score(reward, parts, **weights):
    """What the rule sees of one rollout."""
    return rewards_of_groups([[reward]], [[parts]], weights or None).scores_P_N.item()


def test_a_rollout_is_selected_by_the_weighted_parts_and_by_its_reward_without_weights():
    parts = {"acc": 1.0, "form": math.nan, "said": "text"}
    assert score(1.2, parts) == 1.2
    assert score(1.2, parts, acc=2.0) == 2.0
    assert score(1.2, parts, score=1.0, form=5.0) == 1.2  # a part that gave nothing counts as 0
    assert math.isnan(score(1.2, parts, acc=0.0, form=5.0))
    assert math.isnan(score(math.nan, parts, score=1.0, form=5.0))


def test_a_part_that_no_float_can_hold_is_unscorable():
    assert math.isnan(score(0.5, {"acc": 10**400}, acc=1.0))


@pytest.mark.parametrize("name", ["format", "said"])
def test_a_weight_for_what_the_reward_function_does_not_give_lists_what_it_gives(name):
    with pytest.raises(InvalidInputError, match=f"names '{name}'.* it gave: score, acc"):
        score(1.0, {"acc": 1.0, "said": "text"}, **{name: 1.0})


@pytest.mark.parametrize("reward", [math.inf, -math.inf])
def test_an_infinite_reward_is_refused_also_where_a_part_of_it_selects(reward):
    for weights in ({}, {"acc": 1.0}):
        with pytest.raises(InvalidInputError, match="infinite"):
            score(reward, {"acc": 0.5}, **weights)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n": 30}, r"trainer\.v1\.pods_sync\.m is not set, and rollout\.n=30 is no multiple of 4"),
        ({"m": 65}, r"m=65 rollouts can't be kept of rollout\.n=64; .* raise rollout\.n"),
        ({"m": 1}, r"m=1; allowed: 2 <= m <= 64 .* trainer\.v1\.pods_sync\.rule=max_contrast"),
        ({"m": 1, "baseline": "group"}, "baseline=group and .*rule=max_reward"),
        ({"m": 1, "baseline": "group", "rule": max_variance}, "m=1; allowed: 2 <= m"),
        ({"m": 1, "rule": "max_reward"}, "m=1; allowed: 2 <= m"),
        ({"m": 0, "rule": "max_contrast"}, "m=0; allowed: 1 <= m <= 64"),
        ({"m": 1, "n": 1, "rule": "max_contrast"}, r"rollout\.n=1; allowed: at least 2"),
        ({"m": 0}, "m=0; allowed: 2 <= m"),
        ({"m": 16.0}, r"m must be an integer; got 16\.0"),
        ({"m": "16"}, "m must be an integer; got '16'"),
        ({"m": True}, "m must be an integer; got True"),
        ({"m": 16, "k": 1, "N": 3}, r"unknown: trainer\.v1\.pods_sync\.N, .*\.k; allowed: .*\.m, "),
        ({"m": 16, "baseline": "all"}, "baseline='all'; allowed: kept, group"),
        ({"m": 16, "seed": -1}, "seed=-1; allowed: an integer >= 0"),
        ({"m": 16, "seed": "x"}, "seed='x'; allowed"),
        ({"m": 16, "selection_weights": {}}, "are all 0; allowed: numbers by name"),
        ({"m": 16, "selection_weights": {"acc": 0}}, "are all 0"),
        ({"m": 16, "selection_weights": {"acc": "x"}}, "allowed: numbers by name"),
        ({"m": 16, "selection_weights": {"acc": float("nan")}}, "allowed: numbers by name"),
        ({"m": 16, "selection_weights": [1.0]}, "allowed: numbers by name"),
    ],
)
def test_a_bad_option_is_refused_with_what_is_allowed(given, message):
    with pytest.raises(InvalidInputError, match=message):
        read(**given)


def test_an_unknown_rule_is_refused_with_the_known_ones():
    says = r"unknown rule 'max_var'; did you mean 'max_variance'"
    with pytest.raises(UnknownNameError, match=says):
        read(m=16, rule="max_var")


def test_a_batch_rule_of_ones_own_is_told_by_its_mark():
    @rule(scope="batch")
    def first_rows(rewards_P_N, rows, seed):
        return np.arange(rewards_P_N.size).reshape(rewards_P_N.shape) < rows

    register_rule("first_rows", first_rows)
    try:
        selection = Selection(4, 2, rule="first_rows")
        assert selection.across_prompts
        assert selection.select([[0.0, 1.0, 2.0, 3.0]] * 2) == [[0, 1, 2, 3], []]
    finally:
        del RULES["first_rows"]


def test_a_rule_of_ones_own_that_raises_or_takes_other_arguments_is_named(tmp_path):
    path = tmp_path / "rules.py"
    path.write_text(
        "def raises(rewards_P_N, m, seed):\n"
        "    return rewards_P_N['best']\n"
        "def takes_two(rewards_P_N, m):\n"
        "    return m\n"
    )
    with pytest.raises(InvalidInputError, match=r"rules\.py, line 2: rule '.*:raises' failed: Ind"):
        downsample([0.0, 1.0, 2.0], 2, rule=f"{path}:raises")
    says = r"takes_two' must take \(rewards_P_N, m, seed\); it takes \(rewards_P_N, m\)"
    with pytest.raises(InvalidInputError, match=says):
        resolve_rule(f"{path}:takes_two")
    with pytest.raises(InvalidInputError, match=r"must take \(rewards_P_N, m, seed\)"):
        downsample([0.0, 1.0, 2.0], 2, rule=lambda rewards: rewards)


@pytest.mark.parametrize("rule", ["top_advantage", "advantage_variance"])
def test_a_rule_by_advantage_with_one_row_needs_the_baseline_of_the_group(rule):
    with pytest.raises(InvalidInputError, match="group"):
        Selection(8, 1, rule=rule)
    Selection(8, 1, rule=rule, baseline="group")
