"""The separate mode: mini-batches of complete groups, several in a step."""

import json

import numpy as np
import pytest

pytest.importorskip("verl", reason="verl is not installed; run `nox -s verl`")

from test_verl_drop import PROMPTS, M, N, random_rewards
from verl.trainer.ppo.v1 import PPOTrainer

from support.brute_force import highest_variance

SEPARATE = (
    "trainer.v1.trainer_mode=pods_separate_async",
    "+trainer.v1.pods_separate_async.m=4",
    "trainer.v1.separate_async.parameter_sync_step=2",
    "actor_rollout_ref.actor.ppo_mini_batch_size=2",
    "actor_rollout_ref.rollout.nnodes=1",
    "actor_rollout_ref.rollout.n_gpus_per_node=1",
    "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl",
)


def test_the_separate_mode_selects_from_complete_groups_that_verl_finds_fresh_enough(
    make_trainer, put, transfer_queue, keys_left
):
    """verl's own replay buffer: what is stale or failed is cleared and asked for anew."""
    rewards = random_rewards(prompts=6)
    for session in range(M - 1, N):  # of the one that failed, fewer than m are left
        del rewards[f"uid3_{session}_0"]
    put(rewards)
    prompts = {  # made for step, and how far it is; at step 5 threshold 2 allows steps 4 and 5
        "uid0": (4, "finished"),
        "uid1": (1, "finished"),
        "uid2": (5, "finished"),
        "uid3": (5, "failure"),
        "uid4": (4, "running"),
        "uid5": (5, "finished"),
    }
    for uid, (step, status) in prompts.items():
        tag = {"is_prompt": True, "status": status, "global_steps": step}
        transfer_queue.kv_put(key=uid, partition_id="train", tag=tag)

    trainer = make_trainer(*SEPARATE, "trainer.v1.sampler.max_off_policy_threshold=2")
    trainer.global_steps = 5
    asked = []
    trainer.replay_buffer.refill_fn = asked.append
    batch, metrics = trainer.replay_buffer.sample(5, "train", 2)

    assert asked == [2]
    assert metrics["training/off_policy/evicted_samples"] == 1
    assert metrics["training/rollout_failure/evicted_samples"] == 1

    taken = {key.split("_")[0] for key in batch.keys}
    assert "uid0" in taken
    assert taken < {"uid0", "uid2", "uid5"}  # the oldest ones first

    kept = trainer._balance_batch(batch, metrics)

    assert len(kept) == 2 * M
    for uid in taken:
        group = [rewards[key] for key in rewards if key.startswith(f"{uid}_")]
        chosen = [rewards[key] for key in kept.keys if key.startswith(f"{uid}_")]
        assert np.var(chosen) == pytest.approx(highest_variance(group, M), abs=1e-6)

    waiting = {key for key in keys_left() if "_" in key} - set(kept.keys)
    (later,) = {"uid2", "uid5"} - taken
    assert {key.split("_")[0] for key in waiting} == {"uid4", later}


@pytest.mark.parametrize(("left", "is_kept"), [(M, True), (M - 1, False)])
def test_a_prompt_with_a_failed_rollout_is_thrown_away_only_if_fewer_than_m_are_left(
    make_trainer, put, transfer_queue, left, is_kept
):
    rewards = random_rewards(prompts=3)
    failed = [f"uid0_{session}_0" for session in range(left, N)]
    put({key: reward for key, reward in rewards.items() if key not in failed})
    for uid, status in {"uid0": "failure", "uid1": "finished", "uid2": "finished"}.items():
        tag = {"is_prompt": True, "status": status, "global_steps": 5}
        transfer_queue.kv_put(key=uid, partition_id="train", tag=tag)

    buffer = make_trainer(*SEPARATE).replay_buffer
    buffer.refill_fn = lambda count: None
    batch, metrics = buffer.sample(5, "train", 3 if is_kept else 2)
    assert ("uid0" in {key.split("_")[0] for key in batch.keys}) is is_kept
    assert metrics.get("training/rollout_failure/evicted_samples", 0) == (0 if is_kept else 1)


def test_verls_filter_of_groups_goes_first_and_the_others_are_selected_from(
    make_trainer, put, transfer_queue
):
    rewards = random_rewards(prompts=3) | {f"uid0_{session}_0": 0.5 for session in range(N)}
    put(rewards)
    for uid in ("uid0", "uid1", "uid2"):
        tag = {"is_prompt": True, "status": "finished", "global_steps": 5}
        transfer_queue.kv_put(key=uid, partition_id="train", tag=tag)

    both = ("algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=reward")
    trainer = make_trainer(*SEPARATE, *both)
    trainer.replay_buffer.refill_fn = lambda count: None
    batch, metrics = trainer.replay_buffer.sample(5, "train", 2)
    assert metrics["training/filter_groups/evicted_samples"] == 1
    kept = trainer._balance_batch(batch, metrics)
    assert {key.split("_")[0] for key in kept.keys} == {"uid1", "uid2"}
    assert metrics["pods/kept_rollouts"] == 2 * M


def test_a_step_of_several_mini_batches_has_metrics_and_a_file_of_them_together(
    make_trainer, put, tmp_path, monkeypatch
):
    monkeypatch.setattr(PPOTrainer, "_compute_metrics", lambda *given, **more: None)
    rewards = random_rewards()
    trainer = make_trainer(*SEPARATE, f"trainer.rollout_data_dir={tmp_path}")
    trainer.tokenizer.pad_token_id = 0
    trainer.tokenizer.decode = lambda ids, skip_special_tokens: str(len(ids))
    trainer._init_dump_executor()

    kept = []
    metrics_of_mini_batches: list[dict] = []
    for place, uids in enumerate((("uid0", "uid1"), ("uid2", "uid3"))):
        trainer.local_trigger_step = place
        sampled = {key: reward for key, reward in rewards.items() if key.startswith(uids)}
        metrics_of_mini_batches.append({})
        batch = trainer._balance_batch(put(sampled), metrics_of_mini_batches[-1])
        kept += batch.keys

    trainer.timing_raw = {"gen": 1.0}
    metrics = {"pods/kept_rollouts": 8.0}  # as verl averages
    trainer._compute_metrics(None, metrics, trainer.timing_raw)
    trainer._shutdown_dump_executor()

    assert metrics["pods/rollouts"] == PROMPTS * N
    assert metrics["pods/kept_rollouts"] == PROMPTS * M
    for name in ("kept_tokens", "dropped_tokens", "seconds_select", "padding_rows"):
        total = sum(of_one[f"pods/{name}"] for of_one in metrics_of_mini_batches)
        assert metrics[f"pods/{name}"] == pytest.approx(total), name
    assert metrics["pods/kept_reward"] == pytest.approx(np.mean([rewards[key] for key in kept]))
    assert metrics["critic/score/mean"] == pytest.approx(np.mean(list(rewards.values())))

    [file] = tmp_path.iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {row["uid"]: pytest.approx(row["score"]) for row in rows} == rewards
    assert {row["uid"] for row in rows if row["kept"]} == set(kept)
