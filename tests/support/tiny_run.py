"""The settings of a run of a few seconds on the small model: what configs of tests begin with."""

from typing import Any

TINY_RUN: dict[str, Any] = {
    "task": "arithmetic",
    "task_options": {"min_columns": 2, "max_columns": 2, "train_size": 32, "test_size": 8},
    "num_rollouts": 8,
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "max_completion_length": 32,
    "max_steps": 3,
    "evaluation_problems": 4,
    "report_to": "none",
    "use_cpu": True,
    "bf16": False,
}
