"""Rows into groups by verl's keys. Nothing here needs verl."""

import pytest

from podsrl.errors import InvalidInputError
from podsrl.options import Options
from podsrl.verl.groups import group_rows, parse_key, select


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


def test_groups_keep_their_order_unless_one_is_given():
    groups = group_rows([f"{uid}_{i}_0" for uid in "cab" for i in range(3)], [0.0] * 9)
    assert [group.uid for group in select(groups, Options(m=2), step=1)] == list("cab")
    chosen = select(groups, Options(m=2), step=1, order={"a": 0, "b": 1, "c": 2})
    assert [group.uid for group in chosen] == list("abc")


def test_each_step_draws_anew_from_one_seed():
    groups = group_rows([f"a_{i}_0" for i in range(20)], [0.0] * 20)
    options = Options(m=5, rule="random", seed=0)
    first, again, second = (select(groups, options, step)[0].kept for step in (1, 1, 2))
    assert first == again != second
