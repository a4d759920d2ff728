"""Rows of advantage 0 without a pass: the same gradient by verl's own losses, on a real queue."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("verl", reason="verl is not installed; run `nox -s verl`")

import torch
from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY, get_policy_loss_fn
from verl.utils.config import omega_conf_to_dataclass

from podsrl import group_advantages
from podsrl.verl import spare_passes
from podsrl.verl.spare_passes import KeptRow

MODE = ("trainer.v1.trainer_mode=pods_sync", "+trainer.v1.pods_sync.m=4")
MODES_OF_LOSS = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean"]
ROWS, WIDTH, RANKS, MINI_BATCH = 24, 7, 2, 12


@pytest.fixture
def actor_config(compose):
    """verl's config of an actor with a loss, and the whole config."""

    def made(loss, mode, *overrides):
        config = compose(
            f"actor_rollout_ref.actor.policy_loss.loss_mode={loss}",
            f"actor_rollout_ref.actor.loss_agg_mode={mode}",
            "actor_rollout_ref.actor.use_dynamic_bsz=True",
            "actor_rollout_ref.rollout.n=3",
            *overrides,
        )
        return omega_conf_to_dataclass(config.actor_rollout_ref.actor), config

    return made


def gradient(actor, data, mini_batches, advantages):
    """The gradients of the mini-batches by verl's loss, each in micro-batches of one row.

    The divisors are those that verl's engine and `_update_actor` give: the tokens and rows of what
    is passed. Ranks average their gradients, so the sum of all rows is divided by their number.
    """
    logps, old, mask = data
    loss_of = get_policy_loss_fn(actor.policy_loss.loss_mode)

    gradients = []
    for places in mini_batches:
        logps = logps.detach().requires_grad_()
        actor.global_batch_info.update(
            dp_size=RANKS,
            batch_num_tokens=int(mask[places].sum()),
            global_batch_size=len(places),
            loss_scale_factor=actor.loss_scale_factor,
        )

        for place in places:
            row = slice(place, place + 1)
            loss, _ = loss_of(
                old_log_prob=old[row],
                log_prob=logps[row],
                advantages=advantages[row, None] * mask[row],
                response_mask=mask[row],
                loss_agg_mode=actor.loss_agg_mode,
                config=actor,
            )
            (loss / RANKS).backward()
        gradients.append(logps.grad)

    return torch.stack(gradients)


def drawn_batch(seed):
    """Log-probs that differ enough to be clipped, and groups of three rows of which many teach
    nothing."""
    draw = torch.Generator().manual_seed(seed)
    old = torch.randn(ROWS, WIDTH, generator=draw, dtype=torch.float64) - 2
    logps = old + 0.5 * torch.randn(ROWS, WIDTH, generator=draw, dtype=torch.float64)
    lengths = torch.randint(1, WIDTH + 1, (ROWS, 1), generator=draw)
    mask = (torch.arange(WIDTH) < lengths).double()

    rewards = torch.randint(0, 3, (ROWS // 3, 3), generator=draw) / 2
    rewards[::2] = 0.5
    advantages = torch.tensor(
        group_advantages(rewards.tolist(), [[0, 1, 2]] * (ROWS // 3)), dtype=torch.float64
    )
    return (logps, old, mask), advantages.flatten()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", MODES_OF_LOSS)
@pytest.mark.parametrize("loss", spare_passes._LOSSES_BY_ROW)
def test_every_mini_batch_has_the_same_gradient_by_verls_own_losses(actor_config, loss, mode, seed):
    actor, config = actor_config(loss, mode)
    data, advantages = drawn_batch(seed)
    rows = [
        KeptRow(str(place), float(advantage), int(tokens) + 5, int(tokens))
        for place, (advantage, tokens) in enumerate(
            zip(advantages, data[2].sum(dim=1), strict=True)
        )
    ]
    mini_batches = spare_passes.mini_batches_of(ROWS, RANKS, MINI_BATCH)
    passes = spare_passes.plan_passes(
        rows, mini_batches, RANKS, multiple=1, divisor=spare_passes.divisor_of(config)
    )
    assert passes.mini_batch_rows < MINI_BATCH
    assert passes.mini_batch_rows % RANKS == 0

    scaled = torch.zeros_like(advantages)
    for key, advantage in passes.advantages.items():
        scaled[int(key)] = advantage

    full = gradient(actor, data, mini_batches, advantages)
    spared = gradient(actor, data, passes.places, scaled)
    assert full.abs().max() > 1e-3
    torch.testing.assert_close(spared, full, rtol=1e-9, atol=1e-12)


def test_a_loss_that_looks_at_more_than_a_row_is_not_spared_and_every_other_one_is_verls(compose):
    assert set(spare_passes._LOSSES_BY_ROW) < set(POLICY_LOSS_REGISTRY)
    for loss in set(POLICY_LOSS_REGISTRY) - set(spare_passes._LOSSES_BY_ROW):
        config = compose(f"actor_rollout_ref.actor.policy_loss.loss_mode={loss}")
        assert spare_passes.why_all_rows_pass(config) == f"loss_mode={loss}"


def test_verls_own_defaults_leave_no_reason_against_it(compose):
    assert spare_passes.why_all_rows_pass(compose()) == ""


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("algorithm.adv_estimator=rloo", "adv_estimator=rloo"),
        ("algorithm.use_kl_in_reward=True", "use_kl_in_reward"),
        ("actor_rollout_ref.actor.use_kl_loss=True", "use_kl_loss"),
        ("actor_rollout_ref.actor.entropy_coeff=0.01", "entropy_coeff=0.01"),
        ("critic.enable=True", "critic.enable"),
        ("distillation.enabled=True", "distillation.enabled"),
        ("actor_rollout_ref.model.mtp.enable_train=True", "model.mtp.enable_train"),
        ("algorithm.rollout_correction.bypass_mode=True", "rollout_correction.bypass_mode"),
        (
            "algorithm.rollout_correction.rollout_is_batch_normalize=True",
            "rollout_is_batch_normalize",
        ),
        (
            "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm",
            "seq-mean-token-sum-norm without loss_scale_factor",
        ),
        ("actor_rollout_ref.actor.shuffle=True", "actor.shuffle"),
        ("actor_rollout_ref.actor.strategy=other", "strategy=other, tried with fsdp and fsdp2"),
    ],
)
def test_a_setting_by_which_every_row_counts_switches_it_off_and_is_said(compose, override, reason):
    assert spare_passes.why_all_rows_pass(compose(override)).startswith(reason)


def rewards_with_idle_prompts():
    """Four prompts of eight rollouts: of two of them all rewards are equal."""
    draw = np.random.default_rng(0)
    rewards = {}
    for prompt in range(4):
        is_idle = prompt % 2 == 1
        for session in range(8):
            reward = 0.5 if is_idle else float(draw.integers(0, 11)) / 10
            rewards[f"uid{prompt}_{session}_0"] = reward
    return rewards


def test_rows_of_advantage_0_leave_the_queue_and_the_others_have_their_advantage(
    make_trainer, put, keys_left, transfer_queue
):
    rewards = rewards_with_idle_prompts()
    trainer = make_trainer(*MODE, "actor_rollout_ref.actor.use_dynamic_bsz=True", ranks=2)
    batch = trainer._balance_batch(put(rewards), metrics := {})

    assert {key.split("_")[0] for key in batch.keys} == {"uid0", "uid2"}
    assert len(batch) == metrics["pods/kept_rollouts"] - metrics["pods/spared_rows"] == 8
    assert metrics["pods/zero_advantage_rows"] == 8
    assert keys_left() == set(batch.keys)

    # verl divides by the tokens of what it passes, so advantages have the share of these tokens
    tokens = {key: 2 + place % 5 for place, key in enumerate(rewards)}
    [kept] = [update.passes.rows for update in trainer._pods_step]
    share = sum(tokens[key] for key in batch.keys) / sum(tokens[row.key] for row in kept)

    trainer._compute_advantage(batch, {})
    data = transfer_queue.kv_batch_get(
        keys=batch.keys, partition_id="train", select_fields=["advantages"]
    )
    for uid in ("uid0", "uid2"):
        keys = sorted(key for key in batch.keys if key.startswith(uid))
        expected = group_advantages([rewards[key] for key in keys], [0, 1, 2, 3], eps=1e-6)
        for key, advantage in zip(keys, expected, strict=True):
            found = data["advantages"][batch.keys.index(key)].tolist()
            assert found == pytest.approx([advantage * share] * tokens[key], abs=1e-6)


def test_the_ranks_get_as_many_rows_and_about_as_many_tokens(make_trainer, put):
    rewards = rewards_with_idle_prompts()
    trainer = make_trainer(*MODE, "actor_rollout_ref.actor.use_dynamic_bsz=True", ranks=2)
    batch = trainer._balance_batch(put(rewards), metrics := {})
    lengths = [tag["seq_len"] for tag in batch.tags]
    halves = sum(lengths[:4]), sum(lengths[4:])
    assert metrics["global_seqlen/balanced_max"] == max(halves)

    # Every way to give four of the eight rows to the first rank.
    best = min(
        max(sum(four), sum(lengths) - sum(four)) for four in itertools.combinations(lengths, 4)
    )
    assert max(halves) <= best + 1


def test_mini_batches_are_balanced_between_ranks_also_where_every_row_teaches(make_trainer, put):
    draw = np.random.default_rng(1)
    rewards = {f"uid{i}_{k}_0": float(draw.random()) for i in range(8) for k in range(8)}
    overrides = (
        "data.train_batch_size=8",
        "actor_rollout_ref.actor.ppo_mini_batch_size=2",
        "actor_rollout_ref.actor.use_dynamic_bsz=True",
    )
    trainer = make_trainer(*MODE, *overrides, ranks=2)
    batch = trainer._balance_batch(put(rewards), metrics := {})
    assert metrics["pods/spared_rows"] == 0

    # As many rows of each rank, in the order of verl's mini-batches of 8 rows.
    lengths = [tag["seq_len"] for tag in batch.tags]
    of_mini_batch = spare_passes.mini_batches_of(len(batch), ranks=2, mini_batch_rows=8)
    for places in of_mini_batch:
        tokens = [lengths[place] for place in places]
        halves = sum(tokens[:4]), sum(tokens[4:])
        fairest = min(
            max(sum(four), sum(tokens) - sum(four)) for four in itertools.combinations(tokens, 4)
        )
        assert max(halves) <= fairest + 1


def test_a_micro_batch_that_is_not_filled_keeps_rows_of_advantage_0_and_no_padding(
    make_trainer, put
):
    """6 rows teach, and a GPU takes 4 at once: 8 of 12 pass."""
    overrides = (
        "trainer.v1.pods_sync.m=3",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2",
    )
    trainer = make_trainer(*MODE, *overrides)
    batch = trainer._balance_batch(put(rewards_with_idle_prompts()), metrics := {})
    assert len(batch) == 8
    assert metrics["pods/spared_rows"] == 4
    assert metrics["pods/padding_rows"] == 0


def test_lost_rollouts_and_padding_are_counted_although_padding_has_no_pass(
    make_trainer, put, caplog
):
    rewards = rewards_with_idle_prompts()
    lost = [f"uid0_{session}_0" for session in range(1, 8)]  # one of eight is left
    lost += [key for key in rewards if key.startswith("uid1_")]  # a whole prompt is gone
    rewards = {key: reward for key, reward in rewards.items() if key not in lost}

    trainer = make_trainer(*MODE, "actor_rollout_ref.actor.use_dynamic_bsz=True")
    with caplog.at_level("WARNING", logger="podsrl"):
        batch = trainer._balance_batch(put(rewards), metrics := {})

    assert not any(tag.get("is_padding") for tag in batch.tags)
    assert metrics["pods/padding_rows"] == 3 + 4
    assert metrics["pods/lost_rollouts"] == 15
    ours = [record for record in caplog.records if record.name == "podsrl.verl.trainer"]
    assert [(record.levelname, record.getMessage().split(";")[0]) for record in ours] == [
        ("WARNING", "pods_sync: step 1 lost 15 of 32 rollouts")
    ]


def test_a_step_without_any_contrast_passes_one_row_for_each_rank_and_mini_batch(make_trainer, put):
    rewards = dict.fromkeys(rewards_with_idle_prompts(), 1.0)
    overrides = (
        "actor_rollout_ref.actor.use_dynamic_bsz=True",
        "actor_rollout_ref.actor.ppo_mini_batch_size=2",
    )
    trainer = make_trainer(*MODE, *overrides, ranks=2)
    batch = trainer._balance_batch(put(rewards), metrics := {})
    assert len(batch) == 2 * 2
    assert metrics["pods/spared_rows"] == 12


def test_verl_is_told_the_rows_that_pass_as_its_mini_batch_and_divisor(make_trainer, put):
    trainer = make_trainer(*MODE, "actor_rollout_ref.actor.use_dynamic_bsz=True")
    told = {}

    def stop_before_training(batch):
        told.update(batch.extra_info)
        raise RuntimeError("no worker here")

    trainer.actor_rollout_wg = SimpleNamespace(
        _dispatch_info={"actor": [0]}, update_actor=stop_before_training
    )
    batch = trainer._balance_batch(put(rewards_with_idle_prompts()), {})

    with pytest.raises(RuntimeError, match="no worker here"):
        trainer._update_actor(batch, {})

    assert told["mini_batch_size"] == told["global_batch_size"] == len(batch) == 8
    assert trainer.config.actor_rollout_ref.rollout.n == 8
    assert trainer.config.actor_rollout_ref.actor.ppo_mini_batch_size == 4


def test_it_is_announced(make_trainer, put, caplog):
    trainer = make_trainer(*MODE)
    with caplog.at_level("INFO", logger="podsrl"):
        trainer._balance_batch(put(rewards_with_idle_prompts()), {})
    said = "the update sees 16 rows; rows with advantage 0 are skipped"
    assert [said in record.getMessage() for record in caplog.records].count(True) == 1
