"""Rewards of several parts: what is selected by, and what the update follows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import podsrl
from podsrl.errors import InvalidInputError
from podsrl.rewards import Rewards
from podsrl.trl import PODSConfig
from support.trl_runs import logged, table_of


def outcome(completions: list[Any], **kwargs: Any) -> list[float]:
    return [float(i % 3 == 0) for i in range(len(completions))]


def form(completions: list[Any], **kwargs: Any) -> list[float]:
    return [float(5 * i % 7) for i in range(len(completions))]


def rewards_of(parts_P_N_F: Any, weights_F: Sequence[float] = (1.0, 1.0)) -> Rewards:
    parts = np.array(parts_P_N_F)
    return Rewards(
        by_function_P_N_F=parts,
        reward_weights_F=np.ones(parts.shape[-1]),
        selection_weights_F=np.array(weights_F),
        masked_P_N=np.zeros(parts.shape[:2], dtype=bool),
    )


def test_what_is_kept_follows_the_selection_weights_and_what_is_trained_the_reward_weights(
    make_trainer,
):
    trainer = make_trainer(
        12,
        reward_funcs=[outcome, form],
        reward_weights=[1.0, 0.1],
        max_steps=1,
        selection_weights=[1.0, 0.0],
    )
    trainer.train()

    table = table_of(trainer)
    weighted_sum = table["rewards/outcome"] + 0.1 * table["rewards/form"]
    np.testing.assert_allclose(table["reward"], weighted_sum, rtol=1e-6)

    by_outcome_P_N = table["rewards/outcome"].to_numpy().reshape(2, 12)
    indices_P_M = podsrl.downsample(by_outcome_P_N, 4, seed=[7, 0, 0])
    assert kept_indices(table) == indices_P_M.tolist()

    rewards_P_N = table["reward"].to_numpy().reshape(2, 12)
    advantages_P_M = podsrl.group_advantages(rewards_P_N, indices_P_M)
    np.testing.assert_allclose(table["advantage"].dropna(), advantages_P_M.flatten(), atol=1e-4)


def kept_indices(table: Any) -> list[list[int]]:
    """The indices of the kept rollouts of each of two prompts of 12."""
    kept_P_N = table["kept"].to_numpy().reshape(2, 12)
    return [np.flatnonzero(kept_N).tolist() for kept_N in kept_P_N]


def test_no_tie_is_decided_by_a_part_of_weight_0():
    """Whatever the shaping says, the same rollouts are kept; and all of equal outcome as often."""
    rng = np.random.default_rng(0)
    right = (np.arange(16) < 8).astype(float)
    counts = np.zeros(16)
    for seed in range(400):
        shaping = np.sort(rng.random(16))  # ordered, so that a leak would favour one end

        masks = []
        for hidden in (shaping, shaping[::-1], np.full(16, np.nan)):
            parts = np.stack([right, hidden], axis=-1)[None]
            chosen_by = rewards_of(parts, [1.0, 0.0]).scores_P_N
            masks.append(podsrl.downsample(chosen_by, 4, seed=seed).tolist())

        assert masks[0] == masks[1] == masks[2]
        counts[masks[0][0]] += 1

    # 2 of 8 in each half: 100 each; the standard deviation is sqrt(400 * 1/4 * 3/4) = 8.7
    assert (abs(counts - 100) < 5 * 8.7).all()


def test_a_rollout_that_the_selecting_part_could_not_score_is_no_zero():
    parts = [[[1.0, 0.0], [0.0, 1.0], [float("nan"), 1.0], [1.0, float("nan")]]]
    by_first = rewards_of(parts, [2.0, 0.0]).scores_P_N
    np.testing.assert_array_equal(by_first, [[2.0, 0.0, np.nan, 2.0]])
    by_both = rewards_of(parts).scores_P_N
    np.testing.assert_array_equal(by_both, [[1.0, 1.0, np.nan, np.nan]])


def test_only_a_function_that_scored_others_of_a_group_has_left_a_rollout_partly_scored():
    nan = float("nan")
    alone = [[1.0, nan], [0.0, nan]]  # for other prompts
    some = [[1.0, 0.5], [0.0, nan], [nan, nan]]  # the last one has no reward at all
    assert rewards_of([alone, alone]).partly_scored_P_N_F.sum() == 0
    assert rewards_of([some]).partly_scored_P_N_F.tolist() == [
        [[False, False], [False, True], [False, False]]
    ]
    assert rewards_of([some], [1.0, 0.0]).partly_scored_P_N_F.sum() == 0  # it is only logged
    assert rewards_of([some], [0.0, 1.0]).partly_scored_P_N_F.sum() == 0


def test_how_closely_the_update_follows_each_part_is_logged(make_trainer):
    trainer = make_trainer(12, reward_funcs=[outcome, form], reward_weights=[1.0, 0.1], max_steps=1)
    trainer.train()

    kept = table_of(trainer).query("kept")
    (metrics,) = logged(trainer)
    for name in ("outcome", "form"):
        part = kept[f"rewards/{name}"]
        mean_of_group = kept.groupby("group")[f"rewards/{name}"].transform("mean")
        expected = np.corrcoef(kept["advantage"], part - mean_of_group)[0, 1]
        assert metrics[f"pods/correlation/{name}"] == pytest.approx(expected, abs=1e-5)
    assert metrics["pods/correlation/outcome"] > metrics["pods/correlation/form"]


def normalised_sums(parts_P_N_F: Any) -> Any:
    mean_P_1_F = parts_P_N_F.mean(axis=1, keepdims=True)
    deviation_P_1_F = parts_P_N_F.std(axis=1, ddof=1, keepdims=True)
    return (parts_P_N_F - mean_P_1_F) / (deviation_P_1_F + 1e-4) @ [1.0, 0.5]


def test_each_part_normalised_by_itself_works_with_fewer_kept_than_generated(make_trainer):
    trainer = make_trainer(
        12,
        reward_funcs=[outcome, form],
        reward_weights=[1.0, 0.5],
        max_steps=1,
        multi_objective_aggregation="normalize_then_sum",
    )
    trainer.train()

    # what is selected by: each part over its own deviation in all rollouts of a prompt
    table = table_of(trainer)
    parts_P_N_F = table[["rewards/outcome", "rewards/form"]].to_numpy().reshape(2, 12, 2)
    indices_P_M = podsrl.downsample(normalised_sums(parts_P_N_F), 4, seed=[7, 0, 0])
    assert kept_indices(table) == indices_P_M.tolist()

    # what is trained with: the same over the kept rows, and over the deviation of all of them
    sums_P_M = normalised_sums(np.take_along_axis(parts_P_N_F, indices_P_M[..., None], axis=1))
    expected = (sums_P_M - sums_P_M.mean()) / (sums_P_M.std(ddof=1) + 1e-4)
    np.testing.assert_allclose(table["advantage"].dropna(), expected.flatten(), atol=1e-4)


BASE: dict[str, Any] = {"use_cpu": True, "bf16": False, "report_to": "none"}


@pytest.mark.parametrize(
    "weights", [[0.0, 0.0], [], 1.0, {"form": 1.0}, [1.0, float("nan")], ["1"], [float("inf")]]
)
def test_selection_weights_that_are_no_weights_are_refused(tmp_path, weights):
    with pytest.raises(InvalidInputError, match="selection_weights must be a list with one finite"):
        PODSConfig(str(tmp_path), selection_weights=weights, **BASE)


def test_a_wrong_number_of_selection_weights_is_refused_before_anything_is_loaded(make_trainer):
    says = "selection_weights has 3 numbers for 2 reward functions"
    with pytest.raises(InvalidInputError, match=says):
        make_trainer(8, reward_funcs=[outcome, form], selection_weights=[1.0, 0.0, 0.0])
