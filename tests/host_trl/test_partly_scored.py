"""A reward function that returns None for some rollouts, and others that score them."""

import math
from typing import Any

import numpy as np
import pytest

from podsrl.rewards import Rewards
from podsrl.selection import Selected, Selection
from support.trl_runs import equal, logged, table_of, weights


def easy(completions: list[Any], **kwargs: Any) -> list[float]:
    return [1.0 + (i % 2) for i in range(len(completions))]


def judge(completions: list[Any], **kwargs: Any) -> list[float | None]:
    """Down for every third rollout; TRL's sum then counts 0, the lowest of all."""
    return [None if i % 3 == 0 else 5.0 + i % 4 for i in range(len(completions))]


def first_kept(parts_P_N_F: Any, trained: Any, selected: Any) -> Selected:
    """The first of four rollouts of a prompt is kept, relative to all of them."""
    rewards = Rewards(
        by_function_P_N_F=parts_P_N_F,
        reward_weights_F=np.array(trained),
        selection_weights_F=np.array(selected),
        masked_P_N=np.zeros((1, 4), dtype=bool),
    )
    selection = Selection(4, 1, "max_reward", "group")
    return Selected(selection, rewards, np.array([[True, False, False, False]]))


def kept_of(trainer: Any) -> list[int]:
    table = table_of(trainer)
    return list(table["rollout"][table["kept"]])


def test_a_rollout_that_one_function_could_not_score_is_kept_last_and_told_once(
    make_trainer, caplog
):
    trainer = make_trainer(12, reward_funcs=[easy, judge], max_steps=2)
    trainer.train()
    assert all(rollout % 3 for rollout in kept_of(trainer))
    first, second = logged(trainer)
    assert first["pods/partly_scored"] == second["pods/partly_scored"] == 8  # 4 of 12, 2 groups
    assert first["pods/unscorable"] == 0
    (said,) = [r.message for r in caplog.records if "gave no reward" in r.message]
    assert said.startswith("step 1: reward function 'judge' gave no reward to 8 of 24 rollouts")


@pytest.mark.parametrize(
    ("parts", "weights", "why"),
    [
        ([[-1, 1], [-1, 1], [None, 1], [None, 1]], [1, 1], "the two that were graded are equal"),
        ([[1, 0], [1, 0], [None, 0], [None, 0]], [1, 0], "what weighs nothing grades nothing"),
    ],
)
def test_what_was_not_graded_is_no_0_in_the_mean_of_the_group(parts, weights, why):
    parts_P_N_F = np.array([parts], dtype=float)  # None is NaN
    selected = first_kept(parts_P_N_F, trained=weights, selected=weights)
    scores_P_N = selected.rewards.scores_P_N
    assert np.isnan(scores_P_N).tolist() == [[False, False, True, True]]
    assert selected.advantages_P_N[0, 0] == 0, why


def test_advantages_compare_by_the_weights_of_training_whatever_selects():
    nan = math.nan
    parts_P_N_F = np.array([[[1.0, nan], [0.0, 5.0], [0.0, 5.0], [0.0, 5.0]]])  # judged late
    first, both = (1.0, 0.0), (1.0, 1.0)
    selected = first_kept(parts_P_N_F, trained=both, selected=first)
    assert selected.rewards.scores_P_N.tolist() == [[1.0, 0.0, 0.0, 0.0]]
    assert selected.advantages_P_N[0, 0] == 0  # and not pushed down as 1 of 5

    selected = first_kept(parts_P_N_F, trained=first, selected=both)
    scores_P_N = selected.rewards.scores_P_N
    assert np.isnan(scores_P_N).tolist() == [[True, False, False, False]]
    assert selected.advantages_P_N[0, 0] > 1  # what trains is known of all


def test_a_function_of_weight_0_is_only_logged(make_trainer, caplog):
    trainer = make_trainer(12, reward_funcs=[easy, judge], reward_weights=[1.0, 0.0], max_steps=1)
    trainer.train()
    assert logged(trainer)[0]["pods/partly_scored"] == 0
    assert "gave no reward" not in caplog.text


def test_where_fewer_than_m_are_wholly_scored_the_others_fill_up(make_trainer):
    def rare(completions: list[Any], **kwargs: Any) -> list[float | None]:
        return [1.0 if i % 12 in (5, 7) else None for i in range(len(completions))]

    trainer = make_trainer(12, reward_funcs=[easy, rare], max_steps=1)
    trainer.train()
    kept = kept_of(trainer)
    assert len(kept) == 8
    assert kept.count(5) == kept.count(7) == 2


def test_at_n_equal_to_m_training_is_trls_and_nothing_is_said(make_trainer, caplog):
    fields = {"reward_funcs": [easy, judge], "max_steps": 2}
    grpo = make_trainer(None, "grpo", **fields)
    grpo.train()
    pods = make_trainer(4, "pods", **fields)
    pods.train()
    assert equal(weights(grpo), weights(pods))
    assert "gave no reward" not in caplog.text
