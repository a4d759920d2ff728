"""Options that hosts pass as a mapping: what is refused, and that the message helps."""

import math

import pytest

from podsrl.downsampling import downsample, resolve_rule
from podsrl.errors import InvalidInputError, UnknownNameError
from podsrl.selection import Options, check_options


def check(n=64, **given):
    return check_options(given, n, where="trainer.v1.pods_sync.", n_name="rollout.n")


def test_only_m_has_to_be_given():
    assert check(m=16) == Options(m=16, rule="max_variance", baseline="kept", seed=None)


def test_every_option_arrives():
    given = {"m": 2, "rule": "random", "baseline": "group", "seed": 7}
    assert check(**given) == Options(**given)
    given = {"m": 2, "rollouts_per_round": 8, "reward_range": [0, 1], "stop_at": 0.9}
    assert check(**given) == Options(**given)
    given = {"m": 1, "scope": "batch", "selection_weights": {"acc": 1.0, "form": 0.0}}
    assert check(**given) == Options(**given)


def test_a_rollout_is_selected_by_the_weighted_parts_and_by_its_reward_without_weights():
    parts = {"acc": 1.0, "form": math.nan, "said": "text"}
    assert Options(m=2).selected_by(1.2, parts) == 1.2
    assert Options(m=2, selection_weights={"acc": 2.0}).selected_by(1.2, parts) == 2.0
    by_both = Options(m=2, selection_weights={"score": 1.0, "form": 5.0})
    assert by_both.selected_by(1.2, parts) == 1.2  # a part that gave nothing counts as 0
    by_form = Options(m=2, selection_weights={"acc": 0.0, "form": 5.0})
    assert math.isnan(by_form.selected_by(1.2, parts))
    assert math.isnan(by_both.selected_by(math.nan, parts))


def test_a_part_that_no_float_can_hold_is_unscorable():
    options = Options(m=2, selection_weights={"acc": 1.0})
    assert math.isnan(options.selected_by(0.5, {"acc": 10**400}))


@pytest.mark.parametrize("name", ["format", "said"])
def test_a_weight_for_what_the_reward_function_does_not_give_lists_what_it_gives(name):
    options = Options(m=2, selection_weights={name: 1.0})
    with pytest.raises(InvalidInputError, match=f"names '{name}'.* it gave: score, acc"):
        options.selected_by(1.0, {"acc": 1.0, "said": "text"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"trainer\.v1\.pods_sync\.m is not set; .* 2 <= m <= 64 \(rollout\.n"),
        ({"m": None}, "m is not set"),
        ({"m": 65}, r"m=65 rollouts can't be kept of rollout\.n=64; .* raise rollout\.n"),
        ({"m": 1}, r"m=1; allowed: 2 <= m <= 64 .* with trainer\.v1\.pods_sync\.scope=batch"),
        ({"m": 0, "scope": "batch"}, "m=0; allowed: 1 <= m <= 64"),
        ({"m": 1, "n": 1, "scope": "batch"}, r"rollout\.n=1; allowed: at least 2"),
        ({"m": 0}, "m=0; allowed: 2 <= m"),
        ({"m": 16.0}, r"m=16\.0; allowed: an integer"),
        ({"m": "16"}, "m='16'; allowed: an integer"),
        ({"m": True}, "m=True; allowed: an integer"),
        ({"m": 16, "k": 1, "N": 3}, r"unknown: trainer\.v1\.pods_sync\.N, .*\.k; allowed: .*\.m, "),
        ({"m": 16, "baseline": "all"}, "baseline='all'; allowed: kept, group"),
        ({"m": 16, "seed": -1}, "seed=-1; allowed: an integer >= 0"),
        ({"m": 16, "seed": "x"}, "seed='x'; allowed"),
        ({"m": 16, "scope": "all"}, "scope='all'; allowed: prompt, batch"),
        ({"m": 16, "scope": "batch", "rule": "random"}, "scope=batch has a rule of its own"),
        ({"m": 16, "rollouts_per_round": 32}, r"unknown range \(set trainer\.v1\.pods_sync\.rew"),
        ({"m": 15, "rollouts_per_round": 32, "reward_range": [0, 1]}, r"odd .*\.m \(m = 15\)"),
        ({"m": 16, "rollouts_per_round": 64}, r"\.m \(m = 16\) to less than rollout\.n \(n = 64\)"),
        ({"m": 16, "reward_range": [0, 1]}, r"set trainer\.v1\.pods_sync\.rollouts_per_round"),
        ({"m": 16, "selection_weights": {}}, "are all 0; allowed: numbers by key"),
        ({"m": 16, "selection_weights": {"acc": 0}}, "are all 0"),
        ({"m": 16, "selection_weights": {"acc": "x"}}, "allowed: numbers by key"),
        ({"m": 16, "selection_weights": {"acc": float("nan")}}, "allowed: numbers by key"),
        ({"m": 16, "selection_weights": [1.0]}, "allowed: numbers by key"),
    ],
)
def test_a_bad_option_is_refused_with_what_is_allowed(given, message):
    with pytest.raises(InvalidInputError, match=message):
        check(**given)


def test_an_unknown_rule_is_refused_with_the_known_ones():
    with pytest.raises(
        UnknownNameError, match=r"unknown rule 'max_var'; did you mean 'max_variance'"
    ):
        check(m=16, rule="max_var")


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


@pytest.mark.parametrize("scope", ["prompt", "batch"])
def test_an_infinite_reward_is_refused_also_where_a_part_of_it_selects(scope):
    options = Options(m=2, selection_weights={"acc": 1.0}, scope=scope)
    group = [(1.0, {"acc": 1.0}), (0.0, {"acc": 0.0}), (math.nan, {"acc": 0.0})]
    assert options.select([iter(group)]) == [[0, 1]]
    for reward in (math.inf, -math.inf):
        with pytest.raises(InvalidInputError, match="infinite"):
            options.select([[*group, (reward, {"acc": 0.5})]])
