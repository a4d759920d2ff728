"""Whether passes are spared, and which rows have one. Nothing here needs verl."""

import pytest

from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.selection import Selection
from podsrl.verl.spare_passes import (
    KeptRow,
    advantage_metrics,
    least_multiple,
    mini_batches_of,
    plan_passes,
    read_sparing,
    refuse_uneven_micro_batches,
)


def config(given=None, **actor):
    """The part of verl's config that is read."""
    return {
        "trainer": {"v1": {"pods_sync": given or {}}},
        "actor_rollout_ref": {
            "rollout": {"n": 8},
            "actor": {"strategy": "fsdp", "loss_agg_mode": "token-mean"} | actor,
        },
        "algorithm": {"adv_estimator": "grpo", "use_kl_in_reward": False},
    }


HALF, ALL = Selection(8, 4), Selection(8, 8)


@pytest.mark.parametrize(
    ("given", "selection", "is_on"),
    [
        ({}, HALF, True),  # by default where rows are dropped
        ({}, ALL, False),
        ({"method": "grpo"}, ALL, False),
        ({"method": "2-grpo"}, Selection(2, 2), True),
        ({"skip_zero_advantage": True}, ALL, True),
        ({"method": "grpo", "skip_zero_advantage": True}, ALL, True),
        ({"skip_zero_advantage": False}, HALF, False),
    ],
)
def test_passes_are_spared_by_the_option_or_the_method_or_where_rows_are_dropped(
    given, selection, is_on
):
    sparing = read_sparing(config(given), "pods_sync", selection)
    assert sparing.is_on is is_on
    assert ("are skipped" in sparing.in_words) is is_on


def test_with_a_kl_loss_every_row_has_a_pass_and_asking_for_less_is_refused():
    sparing = read_sparing(config(use_kl_loss=True), "pods_sync", HALF)
    assert sparing.in_words == "every row has a pass (use_kl_loss)"
    asked = config({"skip_zero_advantage": True}, use_kl_loss=True)
    with pytest.raises(UnsupportedError, match=r"pods_sync\.skip_zero_advantage .* use_kl_loss"):
        read_sparing(asked, "pods_sync", HALF)


def test_the_option_is_true_or_false():
    with pytest.raises(InvalidInputError, match="skip_zero_advantage='no'; allowed: true or false"):
        read_sparing(config({"skip_zero_advantage": "no"}), "pods_sync", HALF)


def test_a_share_is_a_multiple_of_both_micro_batches_unless_verl_sizes_them_by_tokens():
    sizes = config(ppo_micro_batch_size_per_gpu=4)
    sizes["actor_rollout_ref"]["rollout"]["log_prob_micro_batch_size_per_gpu"] = 6
    assert least_multiple(sizes) == 12
    sizes["actor_rollout_ref"]["actor"]["use_dynamic_bsz"] = True
    assert least_multiple(sizes) == 1


@pytest.mark.parametrize("micro_batch", [1, 2, 4, 8])
def test_micro_batches_that_divide_a_ranks_rows_are_accepted(micro_batch):
    sizes = config(ppo_mini_batch_size=4, ppo_micro_batch_size_per_gpu=micro_batch)
    sizes["trainer"] |= {"n_gpus_per_node": 2, "nnodes": 1}
    refuse_uneven_micro_batches(sizes, num_kept=4)


def test_micro_batches_that_do_not_divide_a_ranks_rows_are_refused_at_the_start():
    sizes = config(ppo_mini_batch_size=4, ppo_micro_batch_size_per_gpu=6)
    sizes["trainer"] |= {"n_gpus_per_node": 2, "nnodes": 1}
    with pytest.raises(UnsupportedError, match=r"8 rows of a mini-batch .*take a divisor of 8"):
        refuse_uneven_micro_batches(sizes, num_kept=4)
    refuse_uneven_micro_batches(sizes, num_kept=3)  # 6 rows
    sizes["actor_rollout_ref"]["actor"]["use_dynamic_bsz"] = True
    refuse_uneven_micro_batches(sizes, num_kept=4)


def test_mini_batches_are_filled_up_with_the_shortest_real_rows_and_padding_comes_last():
    # of four rows each: three teach in the first mini-batch, one in the second
    rows = [KeptRow(f"a{i}", float(i < 3), 9, 2) for i in range(4)]
    rows += [
        KeptRow("teaches", -1.0, 9, 2),
        KeptRow("pad", 0.0, 2, 0, is_padding=True),
        KeptRow("long", 0.0, 20, 9),
        KeptRow("short", 0.0, 5, 3),
    ]
    mini_batches = mini_batches_of(8, ranks=1, mini_batch_rows=4)
    passes = plan_passes(rows, mini_batches, ranks=1, multiple=1, divisor="rows")
    assert [[rows[place].key for place in places] for places in passes.places] == [
        ["a0", "a1", "a2"],
        ["teaches", "long", "short"],
    ]
    assert passes.spared == 1  # a3; what verl added does not count
    assert passes.mini_batch_rows == 3


def test_a_row_whose_tokens_are_all_masked_has_no_pass():
    rows = [KeptRow("masked", 1.0, 9, 0), KeptRow("b", -1.0, 9, 4)]
    passes = plan_passes(rows, [[0, 1]], ranks=1, multiple=1, divisor="tokens")
    assert passes.advantages == {"b": -1.0}


def test_never_more_rows_than_there_are():
    rows = [KeptRow(str(i), 1.0, 9, 2) for i in range(6)]
    passes = plan_passes(rows, [list(range(6))], ranks=2, multiple=4, divisor="rows")
    assert passes.mini_batch_rows == 6


def test_the_metrics_of_advantages_count_the_rows_without_a_pass_by_their_tokens():
    rows = [KeptRow("a", 1.0, 9, 2), KeptRow("b", 0.0, 9, 6), KeptRow("pad", 0.0, 2, 0, True)]
    metrics = advantage_metrics(rows)
    assert metrics["critic/advantages/mean"] == 0.25  # (1 x 2 + 0 x 6) / 8
    assert metrics["critic/returns/max"] == 1.0
    assert metrics["critic/advantages/min"] == 0.0
    assert advantage_metrics(rows[2:]) == {}
