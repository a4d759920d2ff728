"""The rule `max_contrast`: any number of rows of each prompt, where the rewards differ most."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from test_selection_in_training import assert_weights_moved_by_the_gradient, record_generations

import podsrl
from podsrl.errors import InvalidInputError
from podsrl.trl import PODSConfig
from podsrl.trl.spare_passes import without_zero_advantage_rows
from support.trl_runs import count_passed_rows, equal, logged, table_of, weights

#: The update sees 12 rows of three prompts, or of twelve with `MEAN`.
BATCH = {"downsampling_rule": "max_contrast", "per_device_train_batch_size": 12, "max_steps": 1}
MEAN = {"num_generations": 1}  # as many prompts as rows


def by_place(right: dict[int, list[int]], n: int = 8) -> Any:
    """Reward 1 for these rollouts of each group, 0 for the others."""

    def reward(completions: list[Any], **kwargs: Any) -> list[float]:
        rewards = []
        for place in range(len(completions)):
            group, rollout = divmod(place, n)
            rewards.append(float(rollout in right.get(group, [])))
        return rewards

    return reward


# ---- the gradient --------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Rollouts of a step, and what the rule must keep of them."""

    n: int
    right: dict[int, list[int]]  # the rollouts of each group that are right
    kept_per_group: list[int]  # of no contrast, no row
    fields: dict[str, Any]


THREE_PROMPTS = Batch(
    n=8,
    right={0: [1, 2, 3, 5], 2: [7]},
    kept_per_group=[8, 0, 4],
    fields={},
)
TWELVE_PROMPTS = Batch(
    n=3,
    right={1: [0], 2: [0, 2], 4: [2], 7: [1], 9: [1], 11: [0, 1]},
    kept_per_group=[0, 2, 2, 0, 2, 0, 0, 2, 0, 2, 0, 2],
    fields=MEAN,
)


def advantages_by_hand(rewards_P_N: np.ndarray, kept_P_N: np.ndarray, scale: str) -> np.ndarray:
    """Relative to the kept rows of the prompt, over their deviation, that of all, or 1."""
    advantages_P_N = np.zeros(rewards_P_N.shape)
    of_batch = rewards_P_N[kept_P_N].std(ddof=1)
    for group, kept_N in enumerate(kept_P_N):
        kept_rewards = rewards_P_N[group][kept_N]
        if len(kept_rewards) == 0:
            continue

        centred = kept_rewards - kept_rewards.mean()
        if scale == "group":
            divisor = kept_rewards.std(ddof=1) + 1e-4
        elif scale == "batch":
            divisor = of_batch + 1e-4
        else:
            divisor = 1.0
        advantages_P_N[group][kept_N] = centred / divisor
    return advantages_P_N


@pytest.mark.parametrize(
    ("scale", "batch"),
    [
        ("group", THREE_PROMPTS),
        ("none", THREE_PROMPTS),
        ("group", TWELVE_PROMPTS),
        ("none", TWELVE_PROMPTS),
        ("batch", TWELVE_PROMPTS),
    ],
)
def test_the_first_step_is_the_gradient_of_the_loss_on_groups_of_different_sizes(
    make_trainer, monkeypatch, scale, batch
):
    generations = record_generations(monkeypatch)
    rows_passed = count_passed_rows(monkeypatch)
    trainer = make_trainer(
        batch.n,
        reward_funcs=by_place(batch.right, batch.n),
        scale_rewards=scale,
        optim="sgd",
        learning_rate=1.0,
        max_grad_norm=0.0,
        temperature=1.0,
        **BATCH,
        **batch.fields,
    )
    before = weights(trainer)
    trainer.train()

    # what is kept
    table = table_of(trainer)
    rewards_P_N = table["reward"].to_numpy().reshape(-1, batch.n)
    kept_P_N = table["kept"].to_numpy().reshape(-1, batch.n)
    by_rule = podsrl.downsample_batch(rewards_P_N, 12, seed=[7, 0, 0])
    assert kept_P_N.tolist() == by_rule.tolist()
    assert kept_P_N.sum(axis=1).tolist() == batch.kept_per_group
    assert sum(rows_passed) == 12

    # what is learnt from it
    advantages = advantages_by_hand(rewards_P_N, kept_P_N, scale).flatten()
    np.testing.assert_allclose(table["advantage"].fillna(0.0), advantages, atol=1e-5)
    kept_places = np.flatnonzero(kept_P_N)
    kept_rows = [generations[0][place] for place in kept_places]
    assert_weights_moved_by_the_gradient(
        trainer, before, kept_rows, advantages[kept_places].tolist()
    )

    # what is logged
    (metrics,) = logged(trainer)
    right_answers = [rollout for of_group in batch.right.values() for rollout in of_group]
    # TRL's own meaning: the deviation that it divides by, of each group or of the whole batch
    without_spread = batch.kept_per_group.count(0) / len(batch.kept_per_group)
    if scale == "batch":
        without_spread = 0.0
    assert metrics["reward"] == pytest.approx(len(right_answers) / rewards_P_N.size)
    assert metrics["frac_reward_zero_std"] == pytest.approx(without_spread)
    assert metrics["pods/zero_advantage_rows"] == 0
    assert metrics["pods/zero_variance_groups"] == 0
    assert metrics["pods/rollouts_generated"] == rewards_P_N.size
    assert metrics["pods/rollouts_trained"] == 12
    assert np.isfinite(list(metrics.values())).all()


# ---- little contrast, or none --------------------------------------------------------------------


def test_with_n_equal_to_m_everything_is_kept_whatever_its_contrast(make_trainer):
    trainer = make_trainer(4, reward_funcs=by_place({1: [0]}, n=4), **BATCH)
    trainer.train()
    assert table_of(trainer)["kept"].all()


def test_too_little_contrast_fills_the_batch_with_rows_of_advantage_0(make_trainer):
    trainer = make_trainer(8, reward_funcs=by_place({1: [0]}), **BATCH)
    trainer.train()

    table = table_of(trainer)
    kept = table[table["kept"]]
    fillers = kept[kept["group"] != 1]
    assert len(kept) == 12
    assert len(fillers) >= 4
    assert (fillers["advantage"] == 0).all()
    (metrics,) = logged(trainer)
    assert metrics["pods/zero_advantage_rows"] == len(fillers)


def test_with_a_mean_of_one_row_and_no_contrast_nothing_moves_and_evaluation_is_trls(
    make_trainer, dataset
):
    """Evaluation generates one completion of each prompt; its batch may be odd."""
    trainer = make_trainer(
        3,
        reward_funcs=by_place({}, 3),
        eval_dataset=dataset.select(range(6)),
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=3,
        num_iterations=2,
        **{**BATCH, **MEAN, "per_device_train_batch_size": 4},
    )
    before = weights(trainer)
    trainer.train()

    assert equal(before, weights(trainer))
    assert table_of(trainer)["kept"].sum() == 4
    (metrics,) = logged(trainer)
    assert metrics["pods/zero_advantage_rows"] == 4
    assert metrics["pods/zero_variance_groups"] == 4
    assert metrics["frac_reward_zero_std"] == 1
    assert metrics["grad_norm"] == 0

    (evaluation,) = [entry for entry in trainer.state.log_history if "eval_reward" in entry]
    assert evaluation["eval_reward"] == 0
    assert evaluation["eval_loss"] == 0


def test_with_n_equal_to_m_it_is_grpo_bit_for_bit(make_trainer):
    grpo = make_trainer(None, "grpo", max_steps=2)
    grpo.train()
    pods = make_trainer(4, "pods", downsampling_rule="max_contrast", max_steps=2)
    pods.train()

    assert equal(weights(grpo), weights(pods))
    trls_deviations = [metrics["reward_std"] for metrics in logged(grpo)]
    assert [metrics["reward_std"] for metrics in logged(pods)] == trls_deviations


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {
                "downsampling_rule": "max_contrast",
                "multi_objective_aggregation": "normalize_then_sum",
            },
            "needs multi_objective_aggregation='sum_then_normalize'",
        ),
        ({**BATCH, **MEAN, "num_rollouts": 1}, "num_rollouts=1; allowed: at least 2"),
        (
            {**BATCH, **MEAN, "per_device_train_batch_size": 5},
            "num_generations=1 .* of 2 rows .* two of a prompt; got 5 rows: per_device",
        ),
    ],
)
def test_what_has_no_meaning_across_the_batch_is_refused(tmp_path, fields, says):
    with pytest.raises(InvalidInputError, match=says):
        PODSConfig(str(tmp_path), use_cpu=True, bf16=False, report_to="none", **fields)


# ---- rows without a gradient ---------------------------------------------------------------------

#: Of 12 kept rows 6 have contrast. The rows of a pass, by the number of micro-batches of a step: of
#: 4 equal parts each has 2 rows, so 2 fillers stay.
ROWS_OF_A_PASS = {1: 6, 4: 8, 12: 6}


@pytest.mark.parametrize(
    ("accumulated", "loss", "passes"),
    [
        (1, "dapo", 1),
        (4, "dapo", 1),
        (4, "grpo", 1),
        (1, "dapo", 2),
        (12, "dapo", 1),
        (12, "grpo", 2),
    ],
)
def test_without_zero_advantage_rows_the_gradient_is_the_same_of_fewer_rows(
    make_trainer, monkeypatch, accumulated, loss, passes
):
    """Of 12 micro-batches of one row those of fillers have no pass, except the last of a step.

    With two passes over a generation the log-probs before the first are of the 6 rows, too.
    """
    rows_passed = count_passed_rows(monkeypatch)

    def changes_of_weights(skip: bool) -> dict[str, torch.Tensor]:
        rows_passed.clear()
        trainer = make_trainer(
            3,
            reward_funcs=by_place({1: [0], 4: [2]}, 3),
            skip_zero_advantage=skip,
            optim="sgd",
            learning_rate=1.0,
            lr_scheduler_type="constant",
            loss_type=loss,
            num_iterations=passes,
            gradient_accumulation_steps=accumulated,
            downsampling_rule="max_contrast",
            **MEAN,
            per_device_train_batch_size=12 // accumulated,
            max_steps=passes,
        )

        before = weights(trainer)
        trainer.train()
        assert logged(trainer)[0]["pods/zero_advantage_rows"] == 6
        return {name: after - before[name] for name, after in weights(trainer).items()}

    # with two passes a third one, before them, is for the log-probs of the old policy
    passes_in_all = 1 if passes == 1 else 1 + passes
    of_all_rows = changes_of_weights(skip=False)
    assert sum(rows_passed) == 12 * passes_in_all

    of_fewer_rows = changes_of_weights(skip=True)
    last_fillers = sum(rows_passed) - ROWS_OF_A_PASS[accumulated] * passes_in_all
    assert 0 <= last_fillers <= (passes if accumulated == 12 else 0)

    assert any(change.abs().max() > 1e-4 for change in of_all_rows.values())
    for name, change in of_all_rows.items():
        torch.testing.assert_close(of_fewer_rows[name], change, rtol=1e-4, atol=1e-7)


def test_a_row_that_was_cut_off_is_skipped_as_well():
    batch = {
        "advantages": torch.tensor([1.0, -1.0, 0.0, 2.0]),
        "completion_mask": torch.tensor([[1, 1], [0, 0], [1, 0], [1, 0]]),
        "num_items_in_batch": torch.tensor(4),
    }

    shorter = without_zero_advantage_rows(batch, 1, "dapo")

    assert shorter["advantages"].tolist() == [1.0, 2.0]
    assert shorter["completion_mask"].tolist() == [[1, 1], [1, 0]]
    assert shorter["num_items_in_batch"] == 4


CPU: dict[str, Any] = {"use_cpu": True, "bf16": False}


@pytest.mark.parametrize(
    "fields", [{"beta": 0.1}, {"loss_type": "bnpo"}, {"top_entropy_quantile": 0.2}]
)
def test_fillers_are_skipped_only_where_they_have_no_gradient(fields):
    with pytest.raises(InvalidInputError, match=r"skip_zero_advantage .* beta=0"):
        PODSConfig("unused", **CPU, skip_zero_advantage=True, **fields)
    assert not PODSConfig("unused", **CPU, **fields).skip_zero_advantage


@pytest.mark.parametrize(("n", "skips"), [(8, True), (4, False)])
def test_fillers_are_skipped_by_default_unless_all_rollouts_are_kept(make_trainer, n, skips):
    """With n = m every value stays TRL's own, to the last bit."""
    assert make_trainer(n).pods.settings.skip_zero_advantage == skips
