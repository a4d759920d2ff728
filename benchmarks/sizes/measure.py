"""One case: the real `PODSTrainer`, two optimiser steps, of which the second one is measured."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from peft import LoraConfig
from transformers import PrinterCallback

from benchmarks.sizes.models import make_model, make_prompts, make_tokenizer
from benchmarks.sizes.plan import Case
from benchmarks.sizes.shapes import SHAPES
from podsrl.trl import PODSConfig, PODSTrainer
from podsrl.trl.clock import PhaseClock
from podsrl.trl.seam import swapped

#: The share of right answers, which are drawn at random: seconds don't depend on what is right.
PASS_RATE = 0.3
_STEPS = 2
#: The tokens that are generated of a completion whose rest is drawn at random.
_FEW_TOKENS = 16


def measure(case: Case, prompt_tokens: int) -> dict[str, Any]:
    """The seconds and the peak memory of a step by phase, or that the case does not fit.

    Where memory runs out, what is held then stays held for as long as anything refers to it, and an
    error of CUDA's own leaves no way back. So each case has a process of its own.
    """
    memory = MemoryByPhase(_OfTheGPU() if torch.cuda.is_available() else None)
    try:
        return {"fits": True, **_measure(case, prompt_tokens, memory)}
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return {
            "fits": False,
            "phase": memory.phase,
            "why": str(error).splitlines()[0],
            **memory.as_json(),
        }


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether an error says that the GPU's memory does not suffice, torch's own or a library's."""
    words = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return isinstance(error, torch.OutOfMemoryError) or any(word in str(error) for word in words)


def _measure(case: Case, prompt_tokens: int, memory: "MemoryByPhase") -> dict[str, Any]:
    shape = SHAPES[case.shape]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = make_model(shape, device, torch.bfloat16 if device == "cuda" else torch.float32)

    with tempfile.TemporaryDirectory() as folder:
        trainer = _Trainer(
            model,
            RandomRewards(),
            _config(case, folder, device),
            make_prompts(case.arm.prompts * _STEPS, prompt_tokens),
            processing_class=make_tokenizer(shape),
            peft_config=ADAPTERS if case.lora else None,
        )
        trainer.case = case
        trainer.remove_callback(PrinterCallback)
        with memory.watching(trainer.pods.clock):
            trainer.train()
        logged = [line for line in trainer.state.log_history if "pods/training_seconds" in line]

    measured = logged[-1]
    seconds = {
        name.removeprefix("pods/seconds_"): value
        for name, value in measured.items()
        if name.startswith("pods/seconds_")
    }
    found = {
        "seconds": seconds,
        "warm_up_seconds": measured["pods/training_seconds"] - sum(seconds.values()),
        "completion_tokens": measured["completions/mean_length"],
        "attention": model.config._attn_implementation,
        "dtype": str(model.dtype).removeprefix("torch."),
        **memory.as_json(),
    }
    return found if case.generates else _of_the_update(found)


def _of_the_update(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out the numbers that say nothing where most tokens were drawn at random."""
    by_phase = ("seconds", "peak_bytes", "held_bytes")
    of_update = {
        name: {phase: value for phase, value in found[name].items() if phase == "update"}
        for name in by_phase
    }
    return {**found, **of_update}


#: The paper's adapters.
ADAPTERS = LoraConfig(r=64, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM")


def _config(case: Case, folder: str, device: str) -> PODSConfig:
    """The settings of a case."""
    arm = case.arm
    return PODSConfig(
        folder,
        method=arm.method,
        num_rollouts=arm.n,
        num_generations=arm.m,
        per_device_train_batch_size=arm.rows // arm.micro_batches,
        gradient_accumulation_steps=arm.micro_batches,
        max_completion_length=case.answer,
        generation_kwargs={"min_new_tokens": case.answer},
        gradient_checkpointing=case.checkpointing,
        use_transformers_continuous_batching=case.continuous,
        max_steps=_STEPS,
        **settings_of_steps(device),
    )


def settings_of_steps(device: str) -> dict[str, Any]:
    """The paper's training arguments, and those of steps that are measured on a device."""
    on_gpu = device == "cuda"
    return {
        # the paper
        "loss_type": "grpo",
        "learning_rate": 5e-6,
        # the device
        "bf16": on_gpu,
        "use_cpu": not on_gpu,
        "dataloader_pin_memory": on_gpu,
        # the measurement: all rows are passed, so that seconds don't depend on rewards
        "skip_zero_advantage": False,
        "save_strategy": "no",
        "report_to": "none",
        "logging_steps": 1,
        "disable_tqdm": True,
    }


class _Trainer(PODSTrainer):
    """`PODSTrainer` that draws most tokens of a completion at random where none is measured.

    An update takes as long whatever its tokens are. So the step that warms up has an update of the
    same shape and a short generation, and so has every step of a case that does not generate.
    """

    case: Case

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        warms_up = self.state.global_step < _STEPS - 1
        if self.case.generates and not warms_up:
            return super()._generate_single_turn(*args, **kwargs)

        few = min(_FEW_TOKENS, self.case.answer)
        with swapped(self.generation_config, max_new_tokens=few, min_new_tokens=few):
            begun, logps = super()._generate_single_turn(*args, **kwargs)
        return [self._filled(ids) for ids in begun], logps

    def _filled(self, ids: list[int]) -> list[int]:
        """A completion to its full length, without the tokens of padding and of the end."""
        words = SHAPES[self.case.shape].vocabulary - 2
        rest = torch.randint(words, (self.case.answer - len(ids),))
        return [*ids, *rest.tolist()]


class RandomRewards:
    """Right or wrong at random, with a seed."""

    __name__ = "random_rewards"

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)

    def __call__(self, completions: list[Any], **columns: Any) -> list[float | None]:
        return (self._random.random(len(completions)) < PASS_RATE).astype(float).tolist()


class Memory(Protocol):
    """The memory of a device, as it says, in bytes."""

    def held(self) -> int:
        """The bytes that tensors take now."""

    def peak(self) -> int:
        """The most that they took since the last call of `forget_peak`."""

    def reserved(self) -> int:
        """The most that the allocator took since then, with what it keeps for later."""

    def forget_peak(self) -> None:
        """Begin anew."""


class _OfTheGPU:
    """`Memory` of the current GPU."""

    held = staticmethod(torch.cuda.memory_allocated)
    peak = staticmethod(torch.cuda.max_memory_allocated)
    reserved = staticmethod(torch.cuda.max_memory_reserved)
    forget_peak = staticmethod(torch.cuda.reset_peak_memory_stats)


class MemoryByPhase:
    """The memory held when a phase of a step begins, and the peak in it; nothing on a CPU.

    A phase begins with the model, its optimiser's state, and what was left behind by the others.

    Args:
        memory: Of the device; None where it can't say.
    """

    def __init__(self, memory: Memory | None) -> None:
        self.phase = "model"  # it is being made
        self._memory = memory
        self._held: dict[str, int] = {}
        self._peaks: dict[str, int] = {}
        self._reserved = 0

    def as_json(self) -> dict[str, Any]:
        """Bytes by phase, of the last step where they are held and of all steps where they peak."""
        return {
            "held_bytes": dict(self._held),
            "peak_bytes": dict(self._peaks),
            "reserved_bytes": self._reserved,
        }

    @contextmanager
    def watching(self, clock: PhaseClock) -> Iterator[None]:
        """Note whenever the clock enters or leaves a phase; what is outside of them is `update`."""
        timed = clock.phase

        @contextmanager
        def phase(name: str) -> Iterator[None]:
            self._goes_on_with(name)
            with timed(name):
                yield
            self._goes_on_with("update")

        self._goes_on_with("update")
        with swapped(clock, phase=phase):
            try:
                yield
            finally:
                self._note_peak()

    def _goes_on_with(self, name: str) -> None:
        self._note_peak()
        self.phase = name
        if self._memory is not None:
            self._held[name] = self._memory.held()

    def _note_peak(self) -> None:
        if self._memory is None:
            return
        self._peaks[self.phase] = max(self._peaks.get(self.phase, 0), self._memory.peak())
        self._reserved = max(self._reserved, self._memory.reserved())
        self._memory.forget_peak()
