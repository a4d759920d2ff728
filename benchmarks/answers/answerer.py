"""SmolLM2-135M-Instruct, after a few minutes of supervised training on bare answers."""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

from benchmarks.answers.kinds import measure_lengths
from benchmarks.answers.sets import measured_before
from podslab.models import resolve
from podslab.models.cache import cached
from podslab.tasks.answers import Answers
from podslab.training.lab_trainer import completions_only, has_bfloat16, keep_memory

#: Questions of each kind that are shown with their answers. It is the first of 8, 16, 32, ... with
#: which each set has at least two kinds.
SHOWN = 16
#: Other questions than those of comparisons, which have smaller seeds.
_SEED = 1_000_000
_VERSION = 2  # counted up when the model changes


def get_answerer(on_gpu: bool = False) -> Path:
    """The folder of the model that answers with the answer alone; made if need be.

    Args:
        on_gpu: Whether it is made on a GPU, where numbers are rounded otherwise: another model.
    """
    name = f"smollm2-answers-{_VERSION}"
    if on_gpu:
        name += "-gpu"
    origin = {"model": "SmolLM2-135M-Instruct, shown bare answers", "license": "Apache-2.0"}
    return cached(name, partial(_make, on_gpu=on_gpu), origin)


def _make(folder: Path, on_gpu: bool) -> None:
    keep_memory()
    path = resolve("smollm2")
    tokenizer = AutoTokenizer.from_pretrained(path)
    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)

    with tempfile.TemporaryDirectory() as output, completions_only():
        trainer = SFTTrainer(
            model,
            args=SFTConfig(
                output,
                per_device_train_batch_size=16,
                num_train_epochs=1,
                learning_rate=5e-5,
                lr_scheduler_type="constant",
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                use_cpu=not on_gpu,
                bf16=on_gpu or has_bfloat16(),
                gradient_checkpointing=False,
            ),
            train_dataset=_questions_with_answers(tokenizer),
            processing_class=tokenizer,
        )
        trainer.train()

    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _questions_with_answers(tokenizer: Any) -> Dataset:
    """`SHOWN` questions of each kind that a set may have."""
    kinds = measured_before() or measure_lengths(tokenizer)  # which takes minutes
    allowed = [kind for kind, known in kinds.items() if "left_out" not in known]
    task = Answers(allowed, seed=_SEED, train_size=SHOWN * len(allowed))

    rows = []
    for row in task.load("train"):
        completion = [{"role": "assistant", "content": row["answer"]}]
        rows.append({"prompt": task.prompt(row), "completion": completion})
    return Dataset.from_list(rows)
