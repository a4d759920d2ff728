#!/usr/bin/env bash
# GSM8K with PODS on one machine with eight GPUs: N rollouts for each of PROMPTS prompts, the update
# on M x PROMPTS of them. README.md has the paper's sizes. What follows the script's name is passed on.
set -euo pipefail

DATA=${DATA:-$HOME/data/gsm8k}
MODEL=${MODEL:-Qwen/Qwen2.5-3B-Instruct}
PROMPTS=${PROMPTS:-32}
N=${N:-64}
M=${M:-16}
RULE=${RULE:-max_variance} # the M of each prompt whose rewards have the largest variance

exec "${PYTHON:-python3}" -m verl.trainer.main_ppo \
    trainer.v1.trainer_mode=pods_sync \
    +trainer.v1.pods_sync.m="$M" \
    +trainer.v1.pods_sync.rule="$RULE" \
    actor_rollout_ref.rollout.n="$N" \
    algorithm.adv_estimator=grpo \
    data.train_files="$DATA/train.parquet" \
    data.val_files="$DATA/test.parquet" \
    data.train_batch_size="$PROMPTS" \
    data.max_prompt_length=512 \
    data.max_response_length=1024 \
    actor_rollout_ref.model.path="$MODEL" \
    actor_rollout_ref.actor.optim.lr="${LR:-1e-6}" \
    actor_rollout_ref.actor.ppo_mini_batch_size="$PROMPTS" \
    actor_rollout_ref.actor.use_dynamic_bsz=True \
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384 \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \
    trainer.nnodes=1 \
    trainer.n_gpus_per_node=8 \
    trainer.total_epochs=15 \
    trainer.test_freq=10 \
    trainer.save_freq=50 \
    trainer.project_name=pods_gsm8k \
    trainer.logger='[console,tensorboard]' \
    "$@"
