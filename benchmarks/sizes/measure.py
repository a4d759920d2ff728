"""One case: the real `PODSTrainer`, two optimiser steps, of which the second one is measured."""

import gc
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from peft import LoraConfig
from transformers import PrinterCallback

from benchmarks.sizes.plan import Case
from benchmarks.sizes.shapes import SHAPES, make_model, make_prompts, make_tokenizer
from podsrl.trl import PODSConfig, PODSTrainer

#: The share of right answers, which are drawn at random: seconds don't depend on what is right.
PASS_RATE = 0.3
_STEPS = 2


def measure(case: Case, prompt_tokens: int) -> dict[str, Any]:
    """The seconds and the peak memory of a step by phase, or that the case does not fit."""
    try:
        return {"fits": True, **_measure(case, prompt_tokens)}
    except torch.cuda.OutOfMemoryError:
        return {"fits": False}
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _measure(case: Case, prompt_tokens: int) -> dict[str, Any]:
    shape = SHAPES[case.shape]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = make_model(shape, device, torch.bfloat16 if device == "cuda" else torch.float32)

    with tempfile.TemporaryDirectory() as folder:
        trainer = PODSTrainer(
            model,
            _RandomRewards(),
            _config(case, folder, device),
            make_prompts(case.arm.prompts * _STEPS, prompt_tokens),
            processing_class=make_tokenizer(shape),
            peft_config=_ADAPTERS if case.lora else None,
        )
        trainer.remove_callback(PrinterCallback)
        memory = _MemoryByPhase(trainer)
        with memory.watched():
            trainer.train()

        logged = [line for line in trainer.state.log_history if "pods/training_seconds" in line]

    measured = logged[-1]
    seconds = {
        name.removeprefix("pods/seconds_"): value
        for name, value in measured.items()
        if name.startswith("pods/seconds_")
    }
    return {
        "seconds": seconds,
        "warm_up_seconds": measured["pods/training_seconds"] - sum(seconds.values()),
        "peak_bytes": memory.peaks,
        "completion_tokens": measured["completions/mean_length"],
    }


_ADAPTERS = LoraConfig(r=64, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM")


def _config(case: Case, folder: str, device: str) -> PODSConfig:
    """The paper's training arguments, and sizes by the case."""
    arm = case.arm
    on_gpu = device == "cuda"
    return PODSConfig(
        folder,
        # the case
        method=arm.method,
        num_rollouts=arm.n,
        num_generations=arm.m,
        per_device_train_batch_size=arm.rows // arm.micro_batches,
        gradient_accumulation_steps=arm.micro_batches,
        max_completion_length=case.answer,
        generation_kwargs={"min_new_tokens": case.answer},
        gradient_checkpointing=case.checkpointing,
        # the paper
        loss_type="grpo",
        learning_rate=5e-6,
        # the device
        bf16=on_gpu,
        use_cpu=not on_gpu,
        dataloader_pin_memory=on_gpu,
        # the measurement
        skip_zero_advantage=False,  # all rows are passed, so that seconds don't depend on rewards
        max_steps=_STEPS,
        save_strategy="no",
        report_to="none",
        logging_steps=1,
        disable_tqdm=True,
    )


class _RandomRewards:
    """Right or wrong at random, with a seed."""

    __name__ = "random_rewards"

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)

    def __call__(self, completions: list[Any], **columns: Any) -> list[float | None]:
        return (self._random.random(len(completions)) < PASS_RATE).astype(float).tolist()


class _MemoryByPhase:
    """The peak of allocated memory in each phase of a step; on a CPU it has none.

    A phase begins with what is held before it: the model, its optimiser, and what was left behind.
    """

    def __init__(self, trainer: PODSTrainer) -> None:
        self.peaks: dict[str, int] = {}
        self._clock = trainer.clock

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note peaks whenever the trainer's clock enters or leaves a phase."""
        timed = self._clock.phase

        @contextmanager
        def phase(name: str) -> Iterator[None]:
            self._note("update")
            with timed(name):
                yield
            self._note(name)

        self._clock.phase = phase  # type: ignore[method-assign]
        try:
            yield
            self._note("update")
        finally:
            del self._clock.phase

    def _note(self, name: str) -> None:
        if not torch.cuda.is_available():
            return
        peak = torch.cuda.max_memory_allocated()
        self.peaks[name] = max(self.peaks.get(name, 0), peak)
        torch.cuda.reset_peak_memory_stats()
