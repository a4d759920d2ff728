"""Rows into groups by verl's keys. Nothing here needs verl."""

import numpy as np
import pytest

from podsrl.advantages import group_advantages
from podsrl.downsampling import downsample
from podsrl.drives import drive_metrics
from podsrl.errors import InvalidInputError
from podsrl.selection import Options
from podsrl.verl.groups import group_rows, metrics_of_parts, parse_key, select


def test_the_last_row_of_a_session_has_its_reward_whatever_the_order():
    keys = ["a_1_1", "a_0_0", "a_1_10", "a_1_2", "b_0_0"]
    groups = {group.uid: group for group in group_rows(keys, [1.0, 2.0, 3.0, 4.0, 5.0])}
    assert groups["a"].sessions == (("a_0_0",), ("a_1_1", "a_1_2", "a_1_10"))
    assert groups["a"].rewards_N.tolist() == [2.0, 3.0]  # index 10 is last, not "2"
    assert groups["b"].rewards_N.tolist() == [5.0]


def test_a_uid_may_have_underscores():
    assert parse_key("gsm8k_train_17_3_0") == ("gsm8k_train_17", 3, 0)


@pytest.mark.parametrize("key", ["8f2a", "8f2a_3", "8f2a_3_x", "8f2a__0"])
def test_a_key_of_another_form_is_an_error(key):
    with pytest.raises(InvalidInputError, match="is not named"):
        parse_key(key)


def test_groups_are_in_the_given_order_or_in_that_of_their_uids():
    groups = group_rows([f"{uid}_{i}_0" for uid in "cab" for i in range(3)], [0.0] * 9)
    assert [group.uid for group in select(groups, Options(m=2), step=1)] == list("abc")
    chosen = select(groups, Options(m=2), step=1, order={"a": 1, "b": 0, "c": 2})
    assert [group.uid for group in chosen] == list("bac")


def test_equal_choices_do_not_go_to_the_rollouts_that_end_first():
    keys = [f"{uid}_{session}_0" for uid in "cafebd" for session in range(4)]
    rewards = [float(key[2] == "0") for key in keys]
    for scope in ("batch", "prompt"):
        options = Options(m=1, scope=scope) if scope == "batch" else Options(m=2)
        chosen = [
            select(group_rows(keys[::way], rewards[::way]), options, step=1) for way in (1, -1)
        ]
        first, last = ({group.uid: group.kept for group in groups} for groups in chosen)
        assert first == last
        assert sum(map(len, first.values())) == 6 * options.m


def test_an_order_of_mixed_kinds_is_an_order():
    groups = group_rows(["a_0_0", "b_0_0", "c_0_0"], [0.0, 0.0, 0.0])
    order = {"a": "x1", "b": 7, "c": None}
    assert [group.uid for group in select(groups, Options(m=2), 1, order)] == ["b", "c", "a"]


def test_each_step_draws_anew_from_one_seed():
    groups = group_rows([f"a_{i}_0" for i in range(20)], [0.0] * 20)
    options = Options(m=5, rule="random", seed=0)
    first, again, second = (select(groups, options, step)[0].kept for step in (1, 1, 2))
    assert first == again != second


def composite(seed=0, prompts=3, n=16):
    """Answers and form of every rollout, with verl's keys and what its reward function returns."""
    rng = np.random.default_rng(seed)
    parts = np.stack([rng.random((prompts, n)) < 0.5, rng.random((prompts, n)) < 0.3], axis=-1)
    keys = [f"{p}_{i}_0" for p in range(prompts) for i in range(n)]
    given = [{"acc": bool(a), "form": float(f), "said": "x"} for a, f in parts.reshape(-1, 2)]
    return parts * 1.0, keys, given


def test_the_drives_are_those_of_the_same_rollouts_in_one_array_as_trl_has_them():
    parts, keys, given = composite()
    rewards = parts @ [1.0, 0.2]
    shuffled = np.random.default_rng(1).permutation(len(keys))  # as they finish
    groups = group_rows(
        [keys[i] for i in shuffled],
        [rewards.reshape(-1)[i] for i in shuffled],
        [given[i] for i in shuffled],
    )
    groups = select(groups, Options(m=4), step=1, order={str(p): p for p in range(3)})
    found = metrics_of_parts(groups, Options(m=4), scale=True, eps=1e-4)
    kept = downsample(rewards, 4)
    mask, of_kept = np.zeros(rewards.shape, dtype=bool), np.zeros(rewards.shape)
    np.put_along_axis(mask, kept, True, axis=1)
    np.put_along_axis(of_kept, kept, group_advantages(rewards, kept), axis=1)
    of_all = group_advantages(rewards, np.tile(np.arange(16), (3, 1)))
    expected = drive_metrics(["acc", "form"], parts, of_kept, of_all, mask)
    assert found == pytest.approx(expected)
    assert set(found) == {f"pods/drives{of}/{p}" for of in ("", "_all") for p in ("acc", "form")}


def test_a_number_too_long_for_a_float_is_no_part_of_a_rollout():
    parts, keys, given = composite()
    given[0]["acc"] = 10**400  # such as int() of what a model wrote
    groups = select(group_rows(keys, (parts @ [1.0, 0.2]).reshape(-1), given), Options(m=4), 1)
    found = metrics_of_parts(groups, Options(m=4), scale=True, eps=1e-4)
    assert 0 < found["pods/drives_all/acc"] <= 1


def test_selected_by_the_answer_the_form_changes_nothing():
    parts, keys, given = composite()
    options = Options(m=4, selection_weights={"acc": 1.0}, seed=3)
    kept = []
    for form in (parts[..., 1], 1 - parts[..., 1]):
        rewards = (parts[..., 0] + 0.2 * form).reshape(-1)
        for part, value in zip(given, form.reshape(-1), strict=True):
            part["form"] = float(value)
        groups = select(group_rows(keys, rewards, given), options, step=1)
        kept.append([group.kept for group in groups])
        found = metrics_of_parts(groups, options, scale=True, eps=1e-4)
        assert found["pods/shaping_only_groups"] == 0
        for group in groups:
            assert sum(group.parts_N[i]["acc"] for i in group.kept) == 2
    assert kept[0] == kept[1]


def test_groups_without_contrast_in_what_weighs_most_are_counted_as_trl_counts_them():
    parts, keys, given = composite()
    parts[0, :, 0] = 1.0  # the first prompt is always answered
    for (key, one), values in zip(zip(keys, given, strict=True), parts.reshape(-1, 2), strict=True):
        one |= {"acc": bool(values[0]), "tokens": float(hash(key) % 7)}
    rewards = (parts @ [1.0, 0.2]).reshape(-1)
    groups = select(group_rows(keys, rewards, given), Options(m=4), step=1)
    weights = {"acc": 1.0, "form": 0.2, "tokens": 0.0}
    found = metrics_of_parts(groups, Options(m=4), True, 1e-4, weights)
    assert found["pods/shaping_only_groups"] == pytest.approx(1 / 3)
    assert "pods/shaping_only_groups" not in metrics_of_parts(groups, Options(m=4), True, 1e-4)


def test_without_a_seed_ties_of_a_part_are_broken_at_random():
    """Not by rollout number: 2 of 8 are right, and 2 of the other 6 are kept with them."""
    given = [{"acc": float(i > 5)} for i in range(8)]
    groups = group_rows([f"a_{i}_0" for i in range(8)], list(np.arange(8.0)), given)
    options = Options(m=4, selection_weights={"acc": 1.0})
    drawn = np.zeros(8)
    for _ in range(300):
        drawn[list(select(groups, options, step=1)[0].kept)] += 1
    assert list(drawn[6:]) == [300, 300]
    assert drawn.sum() == 1200
    assert ((drawn[:6] - 100) ** 2 / 100).sum() < 25.7  # chi-squared, 5, p < 0.0001


def test_across_the_batch_a_prompt_without_contrast_keeps_nothing():
    keys = [f"{uid}_{i}_0" for uid in "ab" for i in range(4)]
    groups = group_rows(keys, [0.0, 1.0, 0.0, 1.0] + [1.0] * 4)
    groups = select(groups, Options(m=2, scope="batch"), step=1)
    assert [len(group.kept) for group in groups] == [4, 0]
    assert groups[1].kept_keys == set()
