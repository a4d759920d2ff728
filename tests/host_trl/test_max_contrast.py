"""The rule `max_contrast`: any number of rows of each prompt, where the rewards differ most."""

from typing import Any

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
        return [float(i % n in right.get(i // n, [])) for i in range(len(completions))]

    return reward


def advantages_by_hand(rewards: np.ndarray, kept: np.ndarray) -> np.ndarray:
    found = np.zeros(rewards.shape)
    for group in range(len(rewards)):
        chosen = rewards[group][kept[group]]
        if len(chosen) > 1:
            found[group][kept[group]] = (chosen - chosen.mean()) / (chosen.std(ddof=1) + 1e-4)
    return found


#: n, which rollouts are right, rows of each prompt, and settings.
THREE = (8, {0: [1, 2, 3, 5], 2: [7]}, [8, 0, 4], {})
PAIRS = [0, 2, 2, 0, 2, 0, 0, 2, 0, 2, 0, 2]
TWELVE = (3, {1: [0], 2: [0, 2], 4: [2], 7: [1], 9: [1], 11: [0, 1]}, PAIRS, MEAN)


@pytest.mark.parametrize(
    ("scale", "given"),
    [("group", THREE), ("none", THREE), ("group", TWELVE), ("none", TWELVE), ("batch", TWELVE)],
)
def test_the_first_step_is_the_gradient_of_the_loss_on_groups_of_different_sizes(
    make_trainer, monkeypatch, scale, given
):
    n, right, expected_sizes, fields = given
    generations = record_generations(monkeypatch)
    trained = count_passed_rows(monkeypatch)
    trainer = make_trainer(
        n,
        reward_funcs=by_place(right, n),
        scale_rewards=scale,
        optim="sgd",
        learning_rate=1.0,
        max_grad_norm=0.0,
        temperature=1.0,
        **BATCH,
        **fields,
    )
    before = weights(trainer)
    trainer.train()
    table = table_of(trainer)
    rewards, kept = (table[c].to_numpy().reshape(-1, n) for c in ("reward", "kept"))
    assert kept.tolist() == podsrl.downsample_batch(rewards, 12, seed=[7, 0, 0]).tolist()
    assert kept.sum(axis=1).tolist() == expected_sizes  # no contrast, no row
    assert sum(trained) == 12
    if scale == "group":
        advantages = advantages_by_hand(rewards, kept)
    else:
        mean = (rewards * kept).sum(axis=1) / np.maximum(kept.sum(axis=1), 1)
        centred = rewards - mean[:, None]
        spread = rewards[kept].std(ddof=1) + 1e-4 if scale == "batch" else 1.0
        advantages = np.where(kept, centred, 0.0) / spread
    np.testing.assert_allclose(table["advantage"].fillna(0.0), advantages.flatten(), atol=1e-5)

    places = np.flatnonzero(kept)
    rows, of_rows = [generations[0][i] for i in places], advantages.flatten()[places].tolist()
    assert_weights_moved_by_the_gradient(trainer, before, rows, of_rows)
    (entry,) = logged(trainer)
    assert entry["pods/zero_advantage_rows"] == entry["pods/zero_variance_groups"] == 0
    assert entry["reward"] == pytest.approx(sum(map(len, right.values())) / rewards.size)
    assert entry["frac_reward_zero_std"] == pytest.approx(expected_sizes.count(0) / len(rewards))
    assert np.isfinite(list(entry.values())).all()
    counts = (entry["pods/rollouts_generated"], entry["pods/rollouts_trained"])
    assert counts == (rewards.size, 12)


def test_too_little_contrast_fills_the_batch_with_rows_of_advantage_0(make_trainer):
    trainer = make_trainer(4, reward_funcs=by_place({1: [0]}, n=4), **BATCH)
    trainer.train()
    table = table_of(trainer)
    assert table["kept"].all()  # n = m: everything is kept
    trainer = make_trainer(8, "less", reward_funcs=by_place({1: [0]}), **BATCH)
    trainer.train()
    table = table_of(trainer)
    kept = table[table["kept"]]
    filler = kept[kept["group"] != 1]
    assert len(kept) == 12
    assert len(filler) >= 4
    assert (filler["advantage"] == 0).all()
    (entry,) = logged(trainer)
    assert entry["pods/zero_advantage_rows"] == len(filler)


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
    (entry,) = logged(trainer)
    assert entry["pods/zero_advantage_rows"] == 4
    assert entry["pods/zero_variance_groups"] == table_of(trainer)["kept"].sum() == 4
    assert (entry["frac_reward_zero_std"], entry["grad_norm"]) == (1, 0)
    (found,) = [e for e in trainer.state.log_history if "eval_reward" in e]
    assert found["eval_reward"] == found["eval_loss"] == 0


def test_with_n_equal_to_m_it_is_grpo_bit_for_bit(make_trainer):
    grpo = make_trainer(None, "grpo", max_steps=2)
    grpo.train()
    pods = make_trainer(4, "pods", downsampling_rule="max_contrast", max_steps=2)
    pods.train()
    assert equal(weights(grpo), weights(pods))
    assert [e["reward_std"] for e in logged(grpo)] == [e["reward_std"] for e in logged(pods)]


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
    """Of 12 kept rows 6 have contrast; each of 4 equal parts has 2 rows, so 2 fillers stay.

    Of 12 micro-batches of one row those of fillers have no pass, but for the last one of a step.
    With two passes over a generation the log-probs before the first are of the 6 rows, too.
    """
    seen = count_passed_rows(monkeypatch)
    fields = {
        **BATCH,
        **MEAN,
        "optim": "sgd",
        "learning_rate": 1.0,
        "lr_scheduler_type": "constant",
    }
    fields |= {"per_device_train_batch_size": 12 // accumulated, "loss_type": loss}
    fields |= {"gradient_accumulation_steps": accumulated, "num_iterations": passes}
    fields["max_steps"] = passes
    trained = {}
    for skip in (False, True):
        seen.clear()
        reward = by_place({1: [0], 4: [2]}, 3)
        trainer = make_trainer(3, reward_funcs=reward, skip_zero_advantage=skip, **fields)
        before = weights(trainer)
        trainer.train()
        trained[skip] = {name: one - before[name] for name, one in weights(trainer).items()}
        assert logged(trainer)[0]["pods/zero_advantage_rows"] == 6
        rows = 12 if not skip else {1: 6, 4: 8, 12: 6}[accumulated]
        more = sum(seen) - rows * (1 if passes == 1 else 1 + passes)
        assert 0 <= more <= (passes if skip and accumulated == 12 else 0)
    for name, step in trained[False].items():
        torch.testing.assert_close(trained[True][name], step, rtol=1e-4, atol=1e-7)
    assert any(step.abs().max() > 1e-4 for step in trained[False].values())


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


def test_fillers_are_skipped_only_where_they_have_no_gradient():
    for fields in ({"beta": 0.1}, {"loss_type": "bnpo"}, {"top_entropy_quantile": 0.2}):
        with pytest.raises(InvalidInputError, match=r"skip_zero_advantage .* beta=0"):
            PODSConfig("unused", use_cpu=True, bf16=False, skip_zero_advantage=True, **fields)
        assert not PODSConfig("unused", use_cpu=True, bf16=False, **fields).skip_zero_advantage


def test_fillers_are_skipped_by_default_unless_all_rollouts_are_kept():
    """With n = m every value stays TRL's own, to the last bit."""
    for n, skips in ((8, True), (4, False)):
        config = PODSConfig("u", use_cpu=True, bf16=False, num_rollouts=n, num_generations=4)
        assert config.skip_zero_advantage == skips
