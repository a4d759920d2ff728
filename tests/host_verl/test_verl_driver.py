"""What the driver holds of a step does not grow with the tokens of its rollouts."""

import numpy as np
import pytest

pytest.importorskip("verl", reason="verl is not installed; run `nox -s verl`")

import torch
from test_verl_drop import SYNC, advantages_of, random_rewards
from torch.utils._python_dispatch import TorchDispatchMode

from podsrl.verl import trainer as module
from podsrl.verl.groups import Row
from podsrl.verl.metrics import all_rollout_metrics

#: Rows of `put` have 3 tokens of prompt, and 2 to 6 of a response.
LONGEST_ROW = 9


class LargestTensor(TorchDispatchMode):
    """The bytes of the largest tensor that an operation of torch makes inside."""

    nbytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for value in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(value, torch.Tensor):
                self.nbytes = max(self.nbytes, value.untyped_storage().nbytes())
        return made


def rows_of(tokens, rows=512):
    """Rows as the driver knows them; every third could not be scored."""
    draw = np.random.default_rng(0)
    lengths = {"prompt_len": 64, "response_len": tokens, "seq_len": 64 + tokens}
    return [
        Row(f"uid{i}_0_0", float("nan") if i % 3 == 0 else draw.random(), {}, 2, lengths)
        for i in range(rows)
    ]


def test_metrics_of_all_rollouts_take_as_much_memory_for_long_ones_as_for_short_ones():
    largest = {}
    for tokens in (8, 8192):
        with LargestTensor() as made:
            metrics = all_rollout_metrics(rows_of(tokens), {"gen": 1.0}, kl_in_reward=False)
        assert metrics["response_length/mean"] == tokens
        largest[tokens] = made.nbytes
    assert 0 < largest[8192] == largest[8]


@pytest.fixture
def read(monkeypatch):
    """What is read from the queue: the number of rows of each time, by the column."""
    found = []
    get = module.tq.kv_batch_get

    def noted(keys, *, partition_id, select_fields):
        found.append((tuple(select_fields), len(keys)))
        return get(keys=keys, partition_id=partition_id, select_fields=select_fields)

    monkeypatch.setattr(module.tq, "kv_batch_get", noted)
    return found


BY_TOKEN = ("rm_scores", "response_mask", "advantages")


@pytest.mark.parametrize(
    "options",
    [
        ("+trainer.v1.pods_sync.skip_zero_advantage=true",),
        ("+trainer.v1.pods_sync.skip_zero_advantage=false", "+trainer.v1.pods_sync.baseline=group"),
        ("algorithm.adv_estimator=reinforce_plus_plus",),
    ],
    ids=["spared", "our advantages", "verl's advantages"],
)
def test_columns_with_a_value_for_each_token_are_read_in_pieces_and_alike(
    make_trainer, put, transfer_queue, monkeypatch, read, options
):
    dynamic = "actor_rollout_ref.actor.use_dynamic_bsz=True"
    settings = [one for one in SYNC if "skip_zero" not in one] + [dynamic, *options]

    found = []
    for tokens_at_once in (2 * LONGEST_ROW, 10**9):
        monkeypatch.setattr(module, "_TOKENS_AT_ONCE", tokens_at_once)
        trainer = make_trainer(*settings)
        batch = trainer._balance_batch(put(random_rewards()), {})
        ours = list(read)
        batch = trainer._compute_advantage(batch, metrics := {})
        found.append((batch.keys, advantages_of(batch, transfer_queue), metrics))
        by_token = [rows for fields, rows in ours if set(fields) & set(BY_TOKEN)]
        assert max(by_token) <= (4 if tokens_at_once < 10**9 else 32)  # rows of 5 tokens and more
        assert all(len(fields) == 1 for fields, _ in ours if set(fields) & set(BY_TOKEN))
        read.clear()

    assert found[0] == found[1]


def test_a_row_that_is_longer_than_a_piece_is_read_alone(make_trainer, put, monkeypatch, read):
    monkeypatch.setattr(module, "_TOKENS_AT_ONCE", 1)
    batch = make_trainer(*SYNC)._balance_batch(put(random_rewards()), {})
    assert len(batch) == 16
    assert [rows for fields, rows in read if "rm_scores" in fields] == [1] * 32
