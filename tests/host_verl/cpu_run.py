"""Starts the real `verl.trainer.main_ppo` on cpu_bed and reads what it left."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

from benchmarks.speed.hosts import RAY_ENVIRONMENT

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "examples" / "gsm8k_8gpu.sh"
PROMPTS, ROLLOUTS, STEPS = 4, 8, 2

#: Ray gives its own processes 30 and 60 seconds to start, whatever one sets, and ends if a busy
#: machine needs more. Nothing of the run has begun then.
_RAY_WAS_SLOW = "The current node timed out during startup"
_STARTS = 3

OVERRIDES = f"""
algorithm.adv_estimator=grpo
data.train_batch_size={PROMPTS} data.max_prompt_length=64 data.max_response_length=8
data.shuffle=False data.dataloader_num_workers=0
actor_rollout_ref.model.use_remove_padding=False
actor_rollout_ref.model.enable_gradient_checkpointing=False
+actor_rollout_ref.model.override_config.attn_implementation=eager
actor_rollout_ref.actor.strategy=fsdp2
actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS}
actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4
actor_rollout_ref.actor.use_torch_compile=False
actor_rollout_ref.actor.use_dynamic_bsz=False
actor_rollout_ref.actor.use_kl_loss=True
actor_rollout_ref.actor.optim.optimizer=SGD actor_rollout_ref.actor.optim.lr=0.1
actor_rollout_ref.actor.fsdp_config.use_torch_compile=False
+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp32
actor_rollout_ref.actor.checkpoint.save_contents=[hf_model]
actor_rollout_ref.ref.strategy=fsdp2
actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4
actor_rollout_ref.ref.fsdp_config.model_dtype=fp32
actor_rollout_ref.ref.fsdp_config.use_torch_compile=False
+actor_rollout_ref.ref.fsdp_config.mixed_precision.param_dtype=fp32
actor_rollout_ref.rollout.name=hf_cpu actor_rollout_ref.rollout.n={ROLLOUTS}
actor_rollout_ref.rollout.tensor_model_parallel_size=1
actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4
actor_rollout_ref.rollout.calculate_log_probs=False
actor_rollout_ref.rollout.agent.num_workers=1
reward.num_workers=1 reward.custom_reward_function.path={HERE / "cpu_files.py"}
trainer.logger=[console,file] trainer.project_name=cpu_bed
trainer.nnodes=1 trainer.n_gpus_per_node=1 trainer.device=cpu
trainer.val_before_train=False trainer.total_training_steps={STEPS} trainer.save_freq=1
trainer.checkpoint_callback_class=cpu_bed.queue.WriteDownKeys
trainer.resume_mode=disable trainer.test_freq=-1
transfer_queue.backend.SimpleStorage.num_data_storage_units=1
ray_kwargs.ray_init.num_cpus=8 +ray_kwargs.ray_init.num_gpus=1
+ray_kwargs.ray_init.include_dashboard=False +ray_kwargs.ray_init.address=local
+ray_kwargs.ray_init.object_store_memory=100000000
"""


@dataclass
class Run:
    """What a finished run left.

    metrics: of each step, as verl's file logger wrote them.
    rows: each batch that the model was run on, see cpu_bed.rows.
    queue: keys in the TransferQueue at the end of each step, see cpu_bed.queue.
    rollouts: of each step, as verl's rollout_data_dir has them.
    weights: of the last step.
    checkpoints: the folder with a checkpoint of each step.
    log: everything that was printed.
    """

    metrics: list[dict]
    rows: list[dict]
    queue: list[dict]
    rollouts: list[list[dict]]
    weights: dict[str, np.ndarray]
    checkpoints: Path
    log: str


def train(
    folder: Path,
    name: str,
    *overrides: str,
    script: Path | None = None,
    prompts: str = "prompts.parquet",
    after: Run | None = None,
) -> Run:
    """Run verl in a fresh process, with the model, data and reward of cpu_files.

    Args:
        folder: holds `model` and the prompts; the run is written beside them.
        name: of the run.
        overrides: Hydra overrides after ours.
        script: starts it, and gives settings before ours.
        prompts: name of the file.
        after: a run that this one resumes after its first step.
    """
    work = folder / name
    work.mkdir()
    metrics = work / "metrics.jsonl"
    rows = work / "rows.jsonl"
    weights = work / "weights"
    rollouts = work / "rollouts"
    log = work / "log"
    meeting = work / "meeting"
    meeting.mkdir()

    if after is not None:
        shutil.copytree(after.checkpoints / "global_step_1", weights / "global_step_1")
        (weights / "latest_checkpointed_iteration.txt").write_text("1")

    arguments = [
        f"data.train_files={folder / prompts}",
        f"data.val_files={folder / prompts}",
        f"actor_rollout_ref.model.path={folder / 'model'}",
        f"trainer.experiment_name={name}",
        f"trainer.default_local_dir={weights}",
        f"trainer.rollout_data_dir={rollouts}",
        f"hydra.run.dir={work / 'hydra'}",
    ]
    command = ["bash", script] if script else [sys.executable, "-m", "verl.trainer.main_ppo"]

    def start() -> subprocess.CompletedProcess:
        with open(log, "w") as printed:
            return subprocess.run(
                [*command, *OVERRIDES.split(), *arguments, *overrides],
                env=_environment(metrics, rows, meeting),
                cwd=work,
                stdout=printed,
                stderr=subprocess.STDOUT,
                check=False,
                # Only so that a hang ends: a run takes one minute, or five on a core of many.
                timeout=1800,
            )

    done = start()
    for _ in range(_STARTS - 1):
        if _RAY_WAS_SLOW not in log.read_text():
            break
        done = start()
    if done.returncode:
        raise AssertionError(f"verl ended with {done.returncode}:\n{log.read_text()[-8000:]}")

    steps = range(1 if after is None else 2, STEPS + 1)
    model = weights / f"global_step_{STEPS}" / "actor" / "huggingface" / "model.safetensors"
    return Run(
        metrics=[line["data"] for line in _lines(metrics)],
        rows=_lines(rows),
        queue=_lines(weights / "queue.jsonl"),
        rollouts=[_lines(rollouts / f"{step}.jsonl") for step in steps],
        checkpoints=weights,
        weights={name: weight.float().numpy() for name, weight in load_file(model).items()},
        log=log.read_text(),
    )


def _environment(metrics: Path, rows: Path, meeting: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHON": sys.executable,  # for a script
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        "VERL_USE_EXTERNAL_MODULES": "cpu_bed",
        "VERL_ENGINE_DEVICE": "cuda",  # the FSDP engine is registered for it, and runs on a CPU
        "VERL_FILE_LOGGER_PATH": str(metrics),
        "CPU_BED_ROWS": str(rows),
        "CPU_BED_MEETING": str(meeting),
        **RAY_ENVIRONMENT,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_prestart_worker_first_driver": "0",
        "RAY_enable_worker_prestart": "0",
        "OMP_NUM_THREADS": "1",
        "HYDRA_FULL_ERROR": "1",
    }


def _lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]
