"""Rewards that people reported as trained on wrongly, in various trainers, through TRL's whole way.

Each comment is the arithmetic. What is tested elsewhere: groups of different sizes in
`unit/test_ragged.py` and `unit/test_downsampling.py`; more about rewards of None in
`test_partly_scored.py`; a step in which nothing is scored in `test_reward_functions.py`.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from podsrl import RULES, downsample_batch
from support.trl_runs import equal, logged, table_of, weights

SHORT: dict[str, Any] = {"max_completion_length": 4, "max_steps": 1}


def given(rewards_P_N: Sequence[Sequence[float | None]], name: str = "given") -> Any:
    """A reward function that gives these, whatever was generated."""
    flat = [reward for group in rewards_P_N for reward in group]

    def function(completions: list[Any], **kwargs: Any) -> list[float | None]:
        assert len(completions) == len(flat)
        return flat

    function.__name__ = name
    return function


def advantages_of_each(trainer: Any) -> list[list[float]]:
    """Of each prompt the advantages of its kept rollouts."""
    table = table_of(trainer)
    kept = table[table["kept"]]
    groups = sorted(table["group"].unique())
    return [kept[kept["group"] == group]["advantage"].tolist() for group in groups]


# Eight rewards of .35 and one more: 7 x .35 and .95 have the mean .425, and .95 is .525 above it.
# Their deviation is .6 / sqrt(8) = .212, so its advantage is 7 / sqrt(8) = 2.47 < sqrt(7) = 2.65.
ONE_OF_EIGHT = [[0.35] * 7 + [0.95], [0.4] * 8]
#: How many rows of a step: 4, of two prompts.
TWO_OF_EIGHT = {"num_generations": 2, "per_device_train_batch_size": 4, **SHORT}


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("scale", ["group", "none"])
@pytest.mark.parametrize(
    ("rule", "baseline"), [("max_contrast", "kept"), ("max_variance", "group")]
)
def test_equal_rewards_that_no_binary_number_holds_get_nothing(
    make_trainer, rule, baseline, scale, precision
):
    trainer = make_trainer(
        8,
        reward_funcs=given(ONE_OF_EIGHT),
        downsampling_rule=rule,
        advantage_baseline=baseline,
        scale_rewards=scale,
        bf16=precision == "bfloat16",
        **TWO_OF_EIGHT,
    )
    trainer.train()

    with_contrast, equal_ones = advantages_of_each(trainer)
    assert len(with_contrast) == (4 if rule == "max_contrast" else 2)
    assert set(equal_ones) <= {0.0}
    assert 0 < max(map(abs, with_contrast)) < math.sqrt(7)

    (metrics,) = logged(trainer)
    taught = [advantage for advantage in with_contrast if advantage != 0]
    assert metrics["frac_reward_zero_std"] == 0.5
    assert metrics["pods/rows_passed"] == len(taught)


# A sum that is rounded, and the same number: of the two prompts the second one teaches, and the
# first one has no contrast, so that half of the prompts are constant.
RESIDUES: dict[str, list[float]] = {
    ".1 + .2 and .3": [0.1 + 0.2, 0.3, 0.3, 0.3],
    "what is left of .1 + .2 - .3": [0.1 + 0.2 - 0.3, 0.0, 0.0, 0.0],  # 5.6e-17
    ".7 + .1 and .8 in float32": [
        (torch.tensor(0.7) + 0.1).item(),  # .8000000119 and .7999999523
        torch.tensor(0.8).item(),
        (torch.tensor(0.7) + 0.1).item(),
        torch.tensor(0.8).item(),
    ],
    "a third three times": [1 / 3 + 1 / 3 + 1 / 3, 3 * (1 / 3), 1.0, 1.0],
    "ten tenths": [sum([0.1] * 10), 1.0, 1.0, 1.0],  # .9999999999999999
    "negative": [-0.1 - 0.2, -0.3, -0.3, -0.3],
    "between large ones": [1e8 + 0.1, 1e8 + 0.1 + 1e-8, 1e8 + 0.1, 1e8 + 0.1],
    "a mean of three": [(0.1 + 0.4 + 0.7) / 3, 0.4, 0.4, 0.4],
}


@pytest.mark.parametrize("rule", ["max_contrast", "max_variance"])
@pytest.mark.parametrize("residue", RESIDUES.values(), ids=RESIDUES.keys())
def test_a_residue_of_rounding_is_no_contrast(make_trainer, rule, residue):
    trainer = make_trainer(
        4,
        reward_funcs=given([residue, [0.0, 1.0, 0.0, 1.0]]),
        downsampling_rule=rule,
        **TWO_OF_EIGHT,
    )
    trainer.train()

    of_residue, real = advantages_of_each(trainer)
    assert set(of_residue) <= {0.0}
    assert len(real) == (2 if rule == "max_variance" else 4)
    assert all(real)

    (metrics,) = logged(trainer)
    assert metrics["frac_reward_zero_std"] == 0.5
    assert metrics["pods/rows_passed"] == len(real)  # no pass for the others
    assert metrics["pods/zero_advantage_rows"] == len(of_residue)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("rule", [name for name, rule in RULES.items() if rule.across_prompts])
@pytest.mark.parametrize("residue", RESIDUES.values(), ids=RESIDUES.keys())
def test_no_rule_keeps_a_residue_before_a_real_pair_or_because_it_is_one(residue, rule, first):
    def kept_of(groups: list[list[float]], rows: int) -> np.ndarray:
        return np.array(downsample_batch(np.array(groups), rows, rule=rule))

    real = [0.0, 1.0, 0.0, 1.0]
    groups = [residue, real] if first else [real, residue]
    assert kept_of(groups, 4)[groups.index(real)].all()

    # Beside a prompt whose rewards are equal it is kept as that one would be in its place.
    constant = [residue[1]] * 4
    beside = [real, residue, constant] if first else [real, constant, residue]
    in_its_place = [real, constant, constant]
    assert kept_of(beside, 6).tolist() == kept_of(in_its_place, 6).tolist()


# Two functions whose sums are equal, and differ only by how they are rounded.
CONSTANT_SUMS: dict[str, tuple[list[float], list[float]]] = {
    "right and wrong": ([0, 1, 0, 1], [1, 0, 1, 0]),
    "opposite": ([0.3, -0.7, 0.1, 0.2], [-0.3, 0.7, -0.1, -0.2]),
    "tenths": ([0.1, 0.2, 0.7, 0.6], [0.9, 0.8, 0.3, 0.4]),
    "thirds": ([1 / 3, 2 / 3, 0.1, 1.0], [2 / 3, 1 / 3, 0.9, 0.0]),
    "large and small": ([1000.1, 1000.2, 1000.3, 1000.7], [-1000.0, -1000.1, -1000.2, -1000.6]),
    "both constant": ([0.1] * 4, [0.2] * 4),
}


@pytest.mark.parametrize("parts", CONSTANT_SUMS.values(), ids=CONSTANT_SUMS.keys())
def test_functions_whose_sum_is_constant_teach_nothing(make_trainer, parts):
    rewards = [given([part, part], f"part {i}") for i, part in enumerate(parts)]
    trainer = make_trainer(4, reward_funcs=rewards, **TWO_OF_EIGHT)
    before = weights(trainer)
    trainer.train()
    assert advantages_of_each(trainer) == [[0.0, 0.0], [0.0, 0.0]]
    (entry,) = logged(trainer)
    assert entry["frac_reward_zero_std"] == 1.0
    assert entry["loss"] == 0.0
    assert equal(before, weights(trainer))
    correlations = {name: value for name, value in entry.items() if "correlation" in name}
    assert set(correlations.values()) == {0.0}
    assert not [name for name, value in entry.items() if name[:4] != "pods" and value != value]


# Parts of which some are None, beside one that scores all. Of 8 rollouts 4 are kept.
PARTS_OF_NONE: dict[str, list[list[float | None]]] = {
    "every third": [[0, 1, None, 1, 0, None, 1, 0]],
    "two functions, other thirds": [
        [0, 1, None, 1, 0, None, 1, 0],
        [None, 0.5, 0, None, 1, 0.2, None, 1],
    ],
    "never in the same row": [
        [0, None, 1, None, 0, None, 1, None],
        [None, 0, None, 1, None, 0, None, 1],
    ],
    "one scored row alone": [[None] * 7 + [1]],
    "a function that scores nothing": [[None] * 8],
    "one that is constant where it scores": [[1, None, 1, None, 1, None, 1, None]],
}
# Where a rollout that is scored in part is left out (the table of `podsrl.rewards`), none is left
# of the one, and one of the other, which has nothing to be compared with.
LEFT_OUT = ("never in the same row", "one scored row alone")


@pytest.mark.parametrize("aggregation", ["normalize_then_sum", "sum_then_normalize"])
@pytest.mark.parametrize("which", PARTS_OF_NONE)
def test_missing_parts_leave_no_nan_and_a_gradient(make_trainer, which, aggregation):
    whole = [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0]
    parts = [whole, *PARTS_OF_NONE[which]]
    rewards = [given([part, part], f"part {i}") for i, part in enumerate(parts)]
    trainer = make_trainer(
        8, reward_funcs=rewards, multi_objective_aggregation=aggregation, **SHORT
    )
    before = weights(trainer)
    trainer.train()
    (entry,) = logged(trainer)
    advantages = [a for group in advantages_of_each(trainer) for a in group]
    assert all(map(math.isfinite, advantages))
    assert math.isfinite(entry["loss"])

    teaches = which not in LEFT_OUT or aggregation == "normalize_then_sum"
    assert any(advantages) == teaches
    assert (entry["grad_norm"] > 0) == teaches
    after = weights(trainer)
    assert equal(before, after) != teaches
    assert all(value.isfinite().all() for value in after.values())


# Of two prompts with four rollouts two rows are kept, the pair of the largest difference. In the
# first prompt all answers are wrong, and a penalty of their length makes the differences.
LENGTH = [[0.0, -0.3, -0.6, -0.9], [0.0] * 4]
RIGHT = [[0.0] * 4, [0.1, 0.0, 0.0, 0.0]]
TWO_ROWS = {
    "downsampling_rule": "max_contrast",
    "num_generations": 1,
    "per_device_train_batch_size": 2,
    **SHORT,
}


def advised(caplog: Any) -> list[str]:
    return [record.message for record in caplog.records if "selection_weights" in record.message]


def test_a_part_that_decides_alone_is_told_at_the_first_steps(make_trainer, caplog):
    rewards = [given(RIGHT, "right"), given(LENGTH, "length")]
    trainer = make_trainer(4, reward_funcs=rewards, **{**TWO_ROWS, "max_steps": 3})
    trainer.train()
    (entry, *_) = logged(trainer)
    assert entry["pods/correlation/length"] == pytest.approx(1.0)
    assert entry["pods/correlation/right"] == 0.0
    (line,) = advised(caplog)
    assert line == (
        "step 1: what is kept differs in 'length', and not in 'right', which varies too"
        " (pods/correlation/right is 0.00); if 'right' should decide, selection_weights=[1.0, 0.0]"
        " selects by it"
    )

    caplog.clear()
    chosen = make_trainer(4, "chosen", reward_funcs=rewards, selection_weights=[1, 0], **TWO_ROWS)
    chosen.train()
    kept = table_of(chosen).query("kept")
    assert sorted(kept["reward"]) == pytest.approx([0.0, 0.1])
    assert advised(caplog) == []


# What is kept, and what should not be told: (first function, second, more settings).
BOTH = [[0.0, 1.0, 0.0, 1.0], [0.0] * 4]
NOTHING = [[0.0] * 4] * 2
UNTOLD: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "both parts are followed": (BOTH, LENGTH, {}),
    "the other one never varies": (NOTHING, LENGTH, {}),
    "nothing varies": (NOTHING, NOTHING, {}),
    "the other one has weight 0": (RIGHT, LENGTH, {"reward_weights": [0.0, 1.0]}),
    "the other one scores nothing": ([[None] * 4] * 2, LENGTH, {}),
    "one function alone": (LENGTH, None, {}),
}


@pytest.mark.parametrize(("first", "second", "fields"), UNTOLD.values(), ids=UNTOLD.keys())
def test_no_weights_are_advised_where_they_would_change_nothing(
    make_trainer, caplog, first, second, fields
):
    rewards = [given(of, name) for of, name in ((first, "first"), (second, "second")) if of]
    make_trainer(4, reward_funcs=rewards, **TWO_ROWS, **fields).train()
    assert advised(caplog) == []
