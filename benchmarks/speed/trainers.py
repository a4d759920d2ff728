"""The trainers whose steps are measured: TRL's own and ours, alike in everything else."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from datasets import Dataset
from peft import LoraConfig
from transformers import PrinterCallback, ProgressCallback
from trl import GRPOConfig, GRPOTrainer

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
        name: Its name in tables.
        model: The folder of the embedded model.
        columns: The digits of the task's sums.
        rows: The rows of an optimiser step.
        micro_batch: The rows of a micro-batch; the rest is gradient accumulation.
        n, m: The rollouts generated and trained for each prompt.
        rule: The rule of `PODSTrainer`; None for TRL's own trainer, where n = m.
        max_completion_length: The most tokens of a completion.
        options: Further options of the trainer, and `lora`.
        reward: The reward function; None for those of the task.
    """

    name: str
    model: str
    columns: int
    rows: int
    micro_batch: int
    n: int
    m: int
    rule: str | None
    max_completion_length: int = 64
    options: Mapping[str, Any] = field(default_factory=dict)
    reward: Callable[..., list[float]] | None = None

    @property
    def steps_per_generation(self) -> int:
        """The optimiser steps for each generation."""
        return int(self.options.get("num_iterations", 1))


def build(setting: Setting, folder: str) -> GRPOTrainer:
    """A trainer that logs every step, saves nothing, and moves the policy very little.

    With next to no learning rate all trainers go on drawing completions of the same lengths.
    """
    options = dict(setting.options)
    with_lora = options.pop("lora", False)
    shared: dict[str, Any] = {
        "output_dir": folder,
        "per_device_train_batch_size": setting.micro_batch,
        "gradient_accumulation_steps": setting.rows // setting.micro_batch,
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
    rows = [{**row, "prompt": task.prompt(row)} for row in task.load("train")[:_ROWS]]
    lora = LoraConfig(r=8, target_modules="all-linear")
    given: dict[str, Any] = {
        "model": setting.model,
        "reward_funcs": setting.reward or task.rewards(),
        "train_dataset": Dataset.from_list(rows),
        "peft_config": lora if with_lora else None,
    }

    trainer: GRPOTrainer
    if setting.rule is None:
        trainer = GRPOTrainer(args=GRPOConfig(**shared), **given)
    else:
        config = PODSConfig(num_rollouts=setting.n, downsampling_rule=setting.rule, **shared)
        trainer = PODSTrainer(args=config, **given)

    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    return trainer
