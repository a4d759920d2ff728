"""A rule with weights in TRL: each kept row is trained on with its advantage times its weight."""

import numpy as np
import pytest
from test_selection_in_training import assert_weights_moved_by_the_gradient, record_generations

import podsrl
from podsrl.errors import InvalidInputError
from podsrl.trl import PODSConfig
from support.trl_runs import equal, straight_and_resumed, table_of, weights

DRAWN = {"downsampling_rule": f"{__file__}:drawn", "advantage_baseline": "group"}


def by_reward(rewards_P_N, kept_P_N):
    """More for a higher reward, and 0 for the lowest of all."""
    return rewards_P_N - rewards_P_N.min()


@podsrl.rule(weights=by_reward)
def drawn(rewards_P_N, m, seed):
    """Keeps m at random."""
    return np.random.default_rng(seed).random(rewards_P_N.shape).argsort(-1)[:, :m]


def weighed_by_hand(table):
    """The advantages of a step's rollouts, relative to all of their prompt, times the weights."""
    advantages = []
    for _, group in table.groupby("group"):
        rewards = group["reward"].to_numpy()
        away = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-4)
        weight = rewards - table["reward"].min()
        advantages += list(np.where(group["kept"], away * weight, 0.0))
    return np.array(advantages)


def test_the_update_follows_the_weighed_advantages(make_trainer, monkeypatch):
    generations = record_generations(monkeypatch)
    sgd = {"optim": "sgd", "learning_rate": 1.0, "max_grad_norm": 1e9, "max_steps": 1}
    trainer = make_trainer(8, **sgd, **DRAWN)
    before = weights(trainer)
    trainer.train()

    table = table_of(trainer).sort_values(["group", "rollout"])
    advantages = weighed_by_hand(table)
    assert table["advantage"].fillna(0.0).to_numpy() == pytest.approx(advantages, abs=1e-6)
    kept = table["kept"].to_numpy()
    rows = [row for row, is_kept in zip(generations[0], kept, strict=True) if is_kept]
    assert_weights_moved_by_the_gradient(trainer, before, rows, advantages[kept].tolist())


def test_with_n_equal_to_m_the_weights_change_nothing(make_trainer):
    grpo = make_trainer(None, "grpo", max_steps=3)  # sets the seed, so train before making another
    grpo.train()
    weighed = make_trainer(4, "weighed", max_steps=3, downsampling_rule=DRAWN["downsampling_rule"])
    weighed.train()
    assert equal(weights(grpo), weights(weighed))


@pytest.mark.slow
def test_a_resumed_run_draws_and_weighs_as_it_would_have(make_trainer):
    straight, second = straight_and_resumed(make_trainer, 8, num_iterations=2, **DRAWN)
    assert equal(weights(straight), weights(second))


@pytest.mark.parametrize(
    "fields",
    [
        {"multi_objective_aggregation": "normalize_then_sum"},
        {"scale_rewards": "batch", "advantage_baseline": "kept"},
    ],
)
def test_weights_are_refused_where_trl_makes_the_advantages(tmp_path, fields):
    with pytest.raises(InvalidInputError, match=r"advantage_baseline='group'|downsampling_rule="):
        PODSConfig(
            tmp_path, use_cpu=True, bf16=False, num_rollouts=8, num_generations=4, **DRAWN | fields
        )
