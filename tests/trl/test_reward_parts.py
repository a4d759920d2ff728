"""Rewards of several parts: what is selected by, and what the update follows."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from podsrl.drives import WATCHED, drives
from podsrl.trl.batch import Batch

import podsrl
from podsrl.errors import InvalidInputError
from podsrl.selection import Options
from podsrl.trl import PODSConfig
from podsrl.verl.groups import group_rows, metrics_of_parts
from support.trl_runs import logged


def table_of(trainer: Any, step: int = 1) -> Any:
    path = Path(trainer.args.output_dir) / "rollouts" / f"step_{step:06d}.parquet"
    return pq.read_table(path).to_pandas()


def outcome(completions: list[Any], **kwargs: Any) -> list[float]:
    return [float(i % 3 == 0) for i in range(len(completions))]


def form(completions: list[Any], **kwargs: Any) -> list[float]:
    return [float(5 * i % 7) for i in range(len(completions))]


def batch_of(parts_P_N_F: Any) -> Batch:
    parts = torch.tensor(parts_P_N_F)
    groups, n, functions = parts.shape
    batch = Batch.begin([{}] * groups, n, n, step=0, before=None, rank=0, world=1)
    batch.add_rollouts({}, parts.reshape(-1, functions), torch.ones(functions))
    return batch


def test_what_is_kept_follows_the_selection_weights_and_what_is_trained_the_reward_weights(
    make_trainer,
):
    trainer = make_trainer(
        12, reward_funcs=[outcome, form], reward_weights=[1.0, 0.1], max_steps=1,
        selection_weights=[1.0, 0.0],
    )  # fmt: skip
    trainer.train()
    table = table_of(trainer)
    np.testing.assert_allclose(
        table["reward"], table["rewards/outcome"] + 0.1 * table["rewards/form"], rtol=1e-6
    )
    by_outcome = table["rewards/outcome"].to_numpy().reshape(2, 12)
    kept = podsrl.downsample(by_outcome, 4, seed=[7, 0, 0])
    mask = table["kept"].to_numpy().reshape(2, 12)
    assert [np.flatnonzero(row).tolist() for row in mask] == kept.tolist()
    rewards = table["reward"].to_numpy().reshape(2, 12)
    np.testing.assert_allclose(
        table["advantage"].dropna(), podsrl.group_advantages(rewards, kept).flatten(), atol=1e-4
    )


@pytest.mark.slow
def test_no_tie_is_decided_by_a_part_of_weight_0():
    """Whatever the shaping says, the same rollouts are kept; and all of equal outcome as often."""
    rng = np.random.default_rng(0)
    right = (np.arange(16) < 8).astype(float)
    counts = np.zeros(16)
    for seed in range(2000):
        shaping = np.sort(rng.random(16))  # ordered, so that a leak would favour one end
        masks = []
        for hidden in (shaping, shaping[::-1], np.full(16, np.nan)):
            batch = batch_of(np.stack([right, hidden], axis=-1)[None])
            chosen_by = batch.rewards_to_select_by([1.0, 0.0])
            masks.append(podsrl.downsample(chosen_by, 4, seed=seed).tolist())
        assert masks[0] == masks[1] == masks[2]
        counts[masks[0][0]] += 1
    # 2 of 8 in each half: 500 each; the standard deviation is sqrt(2000 * 1/4 * 3/4) = 19
    assert (abs(counts - 500) < 5 * 19).all()


def test_a_rollout_that_the_selecting_part_could_not_score_is_no_zero():
    parts = [[[1.0, 0.0], [0.0, 1.0], [float("nan"), 1.0], [1.0, float("nan")]]]
    by_first = batch_of(parts).rewards_to_select_by([2.0, 0.0])
    torch.testing.assert_close(
        by_first, torch.tensor([[2.0, 0.0, float("nan"), 2.0]]), equal_nan=True
    )
    assert batch_of(parts).rewards_to_select_by(None).tolist() == [[1.0, 1.0, 1.0, 1.0]]


def test_drives_of_the_kept_and_of_all_rollouts_are_logged(make_trainer):
    trainer = make_trainer(12, reward_funcs=[outcome, form], reward_weights=[1.0, 0.1], max_steps=1)
    trainer.train()
    table = table_of(trainer)
    (entry,) = logged(trainer)
    parts = table[["rewards/outcome", "rewards/form"]].to_numpy().reshape(2, 12, 2)
    rewards = table["reward"].to_numpy().reshape(2, 12)
    kept = table["kept"].to_numpy().reshape(2, 12)
    advantages = table["advantage"].fillna(0.0).to_numpy().reshape(2, 12)
    everyone = podsrl.group_advantages(rewards, np.tile(np.arange(12), (2, 1)))
    for function, name in enumerate(("outcome", "form")):
        expected = drives(advantages, parts, kept)[function]
        assert entry[f"pods/drives/{name}"] == pytest.approx(expected, abs=1e-5)
        expected = drives(everyone, parts)[function]
        assert entry[f"pods/drives_all/{name}"] == pytest.approx(expected, abs=1e-5)
    assert entry["pods/shaping_only_groups"] == 0.0
    assert entry["pods/drives/outcome"] > entry["pods/drives/form"] > 0


def test_a_small_part_that_drives_the_update_is_warned_of_once(make_trainer, caplog):
    def never_right(completions: list[Any], **kwargs: Any) -> list[float]:
        return [0.0] * len(completions)

    caplog.set_level(logging.WARNING, logger="podsrl")
    trainer = make_trainer(
        8, reward_funcs=[never_right, form], reward_weights=[1.0, 0.1], max_steps=WATCHED + 2
    )
    trainer.train()
    said = [record.message for record in caplog.records if "drives" in record.message]
    assert len(said) == 1
    assert "'form' has 9% of the weight and drives 100% of the update" in said[0]
    assert [entry["pods/shaping_only_groups"] for entry in logged(trainer)] == [1.0] * 12


def test_each_part_normalised_by_itself_works_with_fewer_kept_than_generated(make_trainer):
    trainer = make_trainer(
        12, reward_funcs=[outcome, form], reward_weights=[1.0, 0.5], max_steps=1,
        multi_objective_aggregation="normalize_then_sum",
    )  # fmt: skip
    trainer.train()
    table = table_of(trainer)
    parts = table[["rewards/outcome", "rewards/form"]].to_numpy().reshape(2, 12, 2)
    mask = table["kept"].to_numpy().reshape(2, 12)
    kept = podsrl.downsample(table["reward"].to_numpy().reshape(2, 12), 4, seed=[7, 0, 0])
    assert [np.flatnonzero(row).tolist() for row in mask] == kept.tolist()
    of_kept = np.take_along_axis(parts, kept[..., None], axis=1)
    spread = of_kept.std(axis=1, ddof=1, keepdims=True)
    summed = ((of_kept - of_kept.mean(axis=1, keepdims=True)) / (spread + 1e-4)) @ [1.0, 0.5]
    expected = (summed - summed.mean()) / (summed.std(ddof=1) + 1e-4)
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


def test_verl_logs_the_same_drives_as_trl_for_the_same_rollouts(make_trainer):
    trainer = make_trainer(12, reward_funcs=[outcome, form], reward_weights=[1.0, 0.1], max_steps=1)
    trainer.train()
    table = table_of(trainer)
    rows = list(table.rename(columns=lambda name: name.removeprefix("rewards/")).itertuples())
    groups = group_rows(
        [f"{row.group}_{row.rollout}_0" for row in rows],
        table["reward"].tolist(),
        [{name: getattr(row, name) for name in ("outcome", "form")} for row in rows],
    )
    kept = table["kept"].to_numpy().reshape(2, 12)
    groups = [
        replace(group, kept=tuple(np.flatnonzero(row).tolist()))
        for group, row in zip(groups, kept, strict=True)
    ]
    of_verl = metrics_of_parts(groups, Options(m=4), scale=True, eps=1e-4)
    of_trl = {name: value for name, value in logged(trainer)[0].items() if "/drives" in name}
    assert set(of_trl) == set(of_verl)
    assert of_trl == pytest.approx(of_verl, abs=1e-5)
    assert max(abs(value) for value in of_trl.values()) > 0.1
