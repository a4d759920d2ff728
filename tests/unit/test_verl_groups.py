"""Rows into groups by verl's keys. Nothing here needs verl."""

import math

import numpy as np
import pytest

from podsrl.advantages import group_advantages
from podsrl.errors import InvalidInputError
from podsrl.metrics import part_correlations
from podsrl.rules import downsample
from podsrl.selection import Selection
from podsrl.verl.groups import (
    Row,
    group_rows,
    joined,
    parse_key,
    select,
)


def rows(rewards, parts=None):
    """Rows of 10 tokens by key, with what else the reward function gave."""
    return [
        Row(key, reward, (parts or {}).get(key, {}), turns=2, tag={"seq_len": 10})
        for key, reward in rewards.items()
    ]


def selection(n, m, **options):
    return Selection(num_rollouts=n, num_kept=m, **options)


def uids(groups):
    return [parse_key(group[0].rows[0].key)[0] for group in groups]


def test_the_last_row_of_a_session_has_its_reward_whatever_the_order():
    given = {"a_1_1": 1.0, "a_0_0": 2.0, "a_1_10": 3.0, "a_1_2": 4.0, "b_0_0": 5.0}
    of_a, of_b = group_rows(rows(given))
    assert [[row.key for row in one.rows] for one in of_a] == [
        ["a_0_0"],
        ["a_1_1", "a_1_2", "a_1_10"],
    ]
    assert [one.reward for one in of_a] == [2.0, 3.0]  # index 10 is last, not "2"
    assert [one.tokens for one in of_a] == [10, 30]
    assert [one.reward for one in of_b] == [5.0]


def test_a_uid_may_have_underscores():
    assert parse_key("gsm8k_train_17_3_0") == ("gsm8k_train_17", 3, 0)


@pytest.mark.parametrize("key", ["8f2a", "8f2a_3", "8f2a_3_x", "8f2a__0"])
def test_a_key_of_another_form_is_an_error(key):
    with pytest.raises(InvalidInputError, match="is not named"):
        parse_key(key)


def test_groups_are_in_the_given_order_or_in_that_of_their_uids():
    given = rows({f"{uid}_{i}_0": 0.0 for uid in "cab" for i in range(3)})
    assert uids(group_rows(given)) == list("abc")
    assert uids(group_rows(given, order={"a": 1, "b": 0, "c": 2})) == list("bac")
    assert uids(group_rows(given, order={"a": "x1", "b": 7, "c": None})) == list("bca")


@pytest.mark.parametrize(("rule", "m"), [("max_contrast", 1), ("max_variance", 2)])
def test_equal_choices_do_not_go_to_the_rollouts_that_end_first(rule, m):
    keys = [f"{uid}_{session}_0" for uid in "cafebd" for session in range(4)]
    rewards = {key: float(key[2] == "0") for key in keys}
    wanted = selection(4, m, rule=rule)
    first, last = (
        select(group_rows(rows(rewards)[::way]), wanted, step=1).kept_keys() for way in (1, -1)
    )
    assert first == last
    assert len(first) == 6 * m


def test_each_step_draws_anew_from_one_seed():
    groups = group_rows(rows({f"a_{i}_0": 0.0 for i in range(20)}))
    wanted = selection(20, 5, rule="random", seed=0)
    first, again, second = (select(groups, wanted, step).kept_keys() for step in (1, 1, 2))
    assert first == again != second


def test_every_kept_row_has_the_advantage_of_its_rollout():
    rewards = {"a_0_0": 0.3, "a_0_1": 1.0, "a_1_0": 0.0, "a_2_0": math.nan, "b_0_0": 0.5}
    chosen = select(group_rows(rows(rewards)), selection(3, 3), step=1)
    # of 1 and 0: mean 1/2, std sqrt(1/2); what could not be scored, or is alone, has 0
    assert chosen.advantages_of_rows() == pytest.approx(
        {"a_0_0": 0.70711, "a_0_1": 0.70711, "a_1_0": -0.70711, "a_2_0": 0.0, "b_0_0": 0.0},
        abs=1e-5,
    )
    assert chosen.advantages_of_rows({1}) == {"b_0_0": 0.0}

    four = group_rows(rows({f"a_{i}_0": float(i == 0) for i in range(4)}))
    two = select(four, selection(4, 2, baseline="group"), 1, scale=False)
    # relative to all four: mean 1/4, unscaled
    assert two.advantages_of_rows() == {"a_0_0": 0.75, "a_1_0": -0.25}


def test_several_updates_of_a_step_are_described_as_one():
    of_a = rows({f"a_{i}_0": float(i == 0) for i in range(4)})
    of_b = rows({f"b_{i}_0": 0.5 for i in range(3)})
    updates = [select(group_rows(of_one), selection(4, 2), step=1) for of_one in (of_a, of_b)]
    together = select(group_rows(of_a + of_b), selection(4, 2), step=1)
    assert joined(updates).metrics() == together.metrics()
    assert joined(updates).kept_keys() == together.kept_keys()


def composite(seed=0, prompts=3, n=16):
    """Answers and form of every rollout, and what verl's reward function returns."""
    rng = np.random.default_rng(seed)
    parts = np.stack([rng.random((prompts, n)) < 0.5, rng.random((prompts, n)) < 0.3], axis=-1)
    keys = [f"{p}_{i}_0" for p in range(prompts) for i in range(n)]
    given = {
        key: {"acc": bool(a), "form": float(f), "said": "x", "score": 7.0}
        for key, (a, f) in zip(keys, parts.reshape(-1, 2), strict=True)
    }
    return parts * 1.0, given


def test_the_correlations_are_those_of_the_same_rollouts_in_one_array():
    parts, given = composite()
    rewards = parts @ [1.0, 0.2]
    as_rows = rows(dict(zip(given, rewards.reshape(-1), strict=True)), given)
    np.random.default_rng(1).shuffle(as_rows)  # as they finish
    found = select(group_rows(as_rows), selection(16, 4), step=1).metrics()

    kept = downsample(rewards, 4)
    mask = np.zeros(rewards.shape, dtype=bool)
    np.put_along_axis(mask, kept, True, axis=1)
    advantages = group_advantages(rewards, mask, eps=1e-6)
    expected = part_correlations(["acc", "form"], parts, advantages, mask, "kept")

    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert {name for name in found if "correlation" in name} == set(expected)
    assert expected["pods/correlation/acc"] > 0.9


def test_the_best_of_each_prompt_follows_the_reward_that_it_is_compared_by():
    parts = np.zeros((8, 4, 1))
    parts[:6, 0] = 1.0  # one right rollout of each of six prompts, which is kept
    kept = np.zeros((8, 4), dtype=bool)
    kept[:, 0] = True
    advantages = group_advantages(parts[..., 0], kept, baseline="group")
    found = part_correlations(["acc"], parts, advantages, kept, "group")
    assert found == {"pods/correlation/acc": pytest.approx(1.0)}
    assert part_correlations(["acc"], parts, advantages, kept, "kept") == {
        "pods/correlation/acc": 0.0
    }


def test_a_number_too_long_for_a_float_is_no_part_of_a_rollout():
    parts, given = composite()
    given["0_0_0"]["acc"] = 10**400  # such as int() of what a model wrote
    rewards = dict(zip(given, (parts @ [1.0, 0.2]).reshape(-1), strict=True))
    found = select(group_rows(rows(rewards, given)), selection(16, 4), step=1).metrics()
    assert 0 < found["pods/correlation/acc"] <= 1


def test_groups_of_different_sizes_are_counted_as_they_are():
    rewards = {"a_0_0": 0.0, "a_1_0": 1.0, "a_2_0": math.nan, "b_0_0": 0.5}
    found = select(group_rows(rows(rewards)), selection(3, 2), step=1).metrics()
    assert found["pods/rollouts"] == 4
    assert found["pods/kept_rollouts"] == 3
    assert found["pods/kept_reward"] == pytest.approx(0.5)  # 0, 1 and 0.5
    assert found["pods/kept_tokens"] == 30
    assert found["pods/dropped_tokens"] == 10
    assert found["pods/unscorable"] == 1
    assert found["pods/zero_advantage_rows"] == 1  # b has no other to be compared with


def test_selected_by_the_answer_the_form_changes_nothing():
    parts, given = composite()
    wanted = selection(16, 4, selection_weights={"acc": 1.0}, seed=3)
    kept = []
    for form in (parts[..., 1], 1 - parts[..., 1]):
        rewards = (parts[..., 0] + 0.2 * form).reshape(-1)
        for part, value in zip(given.values(), form.reshape(-1), strict=True):
            part["form"] = float(value)

        as_rows = rows(dict(zip(given, rewards, strict=True)), given)
        chosen = select(group_rows(as_rows), wanted, step=1)
        kept.append(chosen.kept_keys())
        for group, places in zip(chosen.groups, chosen.selected.kept, strict=True):
            assert sum(group[place].parts["acc"] for place in places) == 2

    assert kept[0] == kept[1]


def test_without_a_seed_ties_of_a_part_are_broken_at_random():
    """Not by rollout number: 2 of 8 are right, and 2 of the other 6 are kept with them."""
    given = {f"a_{i}_0": {"acc": float(i > 5)} for i in range(8)}
    groups = group_rows(rows({key: float(i) for i, key in enumerate(given)}, given))
    wanted = selection(8, 4, selection_weights={"acc": 1.0})
    drawn = np.zeros(8)
    for _ in range(300):
        [kept_N] = select(groups, wanted, step=1).selected.kept_P_N
        drawn += kept_N
    assert list(drawn[6:]) == [300, 300]
    assert drawn.sum() == 1200
    assert ((drawn[:6] - 100) ** 2 / 100).sum() < 25.7  # chi-squared, 5, p < 0.0001


def test_an_infinite_reward_is_refused_also_where_a_part_of_it_selects():
    given = {f"a_{i}_0": {"acc": float(i)} for i in range(4)}
    groups = group_rows(rows(dict.fromkeys(given, math.inf), given))
    for weights in (None, {"acc": 1.0}):
        with pytest.raises(InvalidInputError, match="infinite"):
            select(groups, selection(4, 2, selection_weights=weights), step=1)


def test_a_row_that_is_kept_alone_teaches_relative_to_its_group():
    rewards = {f"a_{i}_0": float(i == 0) for i in range(8)} | {f"b_{i}_0": 0.0 for i in range(8)}
    wanted = selection(8, 2, rule="top_advantage", baseline="group")
    found = select(group_rows(rows(rewards)), wanted, step=1).metrics()
    assert found["pods/zero_advantage_rows"] == 0  # four of a

    rewards = {f"a_{i}_0": float(i == 0) for i in range(8)}
    alone = {
        baseline: select(
            group_rows(rows(rewards)), selection(8, 1, rule=rule, baseline=baseline), step=1
        ).metrics()["pods/zero_advantage_rows"]
        for rule, baseline in (("top_advantage", "group"), ("max_contrast", "kept"))
    }
    assert alone == {"group": 0, "kept": 1}


def test_a_rollout_without_a_part_that_selects_is_unscorable_and_is_told(caplog):
    rewards = {f"a_{session}_0": session / 10 for session in range(4)}
    parts = {key: {"acc": reward} for key, reward in rewards.items()}
    parts["a_3_0"] = {"acc": "right"}
    chosen = select(
        group_rows(rows(rewards, parts)), selection(4, 2, selection_weights={"acc": 1.0}), step=1
    )

    assert chosen.kept_keys() == {"a_0_0", "a_2_0"}
    assert chosen.metrics()["pods/unscorable"] == 1
    assert [record.getMessage() for record in caplog.records] == [
        "selection_weights: the reward function gave no number for 'acc' in 1 of 4 rollouts; they"
        " count as unscorable"
    ]


def test_a_part_that_no_rollout_has_is_a_mistake_in_the_weights():
    rewards = {f"a_{session}_0": session / 10 for session in range(4)}
    given = group_rows(rows(rewards, {key: {"acc": 1.0} for key in rewards}))
    with pytest.raises(InvalidInputError, match=r"names 'correct', .* it gave: score, acc"):
        select(given, selection(4, 2, selection_weights={"correct": 1.0}), step=1)


def test_the_work_of_finding_kept_rows_is_in_proportion_to_the_groups(monkeypatch):
    groups = group_rows(rows({f"{prompt}_{i}_0": i % 2 for prompt in range(30) for i in range(8)}))
    selected = select(groups, selection(8, 4), step=1)
    looks = []
    of_kept = type(selected.selected).of_kept.fget
    noted = property(lambda self: looks.append(1) or of_kept(self))
    monkeypatch.setattr(type(selected.selected), "of_kept", noted)

    assert len(selected.advantages_of_rows()) == 30 * 4
    assert len(looks) == 1  # a look goes through all groups
