"""The trainers that steps are measured with: TRL's own, and ours, alike in everything else."""

from dataclasses import dataclass, field
from typing import Any

from peft import LoraConfig
from transformers import PrinterCallback, ProgressCallback
from trl import GRPOConfig, GRPOTrainer

from podslab.training.run import to_dataset
from podslab.tasks import get_task
from podsrl.trl import PODSConfig, PODSTrainer

#: Variant: what differs from the base.
VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "beta > 0": {"beta": 0.04},
    "num_iterations = 2": {"num_iterations": 2},
    "LoRA": {"lora": True},
}
_ROWS = 512  # of the dataset


@dataclass(frozen=True)
class Setting:
    """One trainer.

    Attributes:
        name: what it is called in tables.
        model: folder of the embedded model.
        columns: digits of the task's sums.
        prompts: per optimiser step.
        n, m: rollouts generated and trained for each prompt.
        micro_batch: rows of a micro-batch on one process; the rest is gradient accumulation.
        ours: `PODSTrainer`; otherwise TRL's own trainer, with n = m.
        processes: that share a step.
        options: of `VARIANTS`.
    """

    name: str
    model: str
    columns: int
    prompts: int
    n: int
    m: int
    micro_batch: int
    ours: bool
    max_completion_length: int = 64
    processes: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def steps_per_generation(self) -> int:
        """Optimiser steps for each generation."""
        return int(self.options.get("num_iterations", 1))


def build(setting: Setting, folder: str) -> GRPOTrainer:
    """A trainer that logs every step, saves nothing, and moves the policy very little.

    With next to no learning rate all trainers go on drawing completions of the same lengths.
    """
    options = dict(setting.options)
    lora = LoraConfig(r=8, target_modules="all-linear") if options.pop("lora", False) else None
    rows = setting.prompts * setting.m
    common: dict[str, Any] = {
        "output_dir": folder,
        "per_device_train_batch_size": setting.micro_batch,
        "gradient_accumulation_steps": rows // (setting.micro_batch * setting.processes),
        "num_generations": setting.m,
        "max_completion_length": setting.max_completion_length,
        "max_steps": 1_000_000,
        "learning_rate": 1e-9,
        "lr_scheduler_type": "constant",
        "loss_type": "grpo",
        "beta": 0.0,
        "seed": 0,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        **options,
    }
    task = get_task("arithmetic", min_columns=setting.columns, max_columns=setting.columns)
    given: dict[str, Any] = {
        "model": setting.model,
        "reward_funcs": task.rewards(),
        "train_dataset": to_dataset(task, task.load("train")[:_ROWS]),
        "peft_config": lora,
    }
    trainer: GRPOTrainer
    if setting.ours:
        trainer = PODSTrainer(args=PODSConfig(num_rollouts=setting.n, **common), **given)
    else:
        trainer = GRPOTrainer(args=GRPOConfig(**common), **given)
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    return trainer
