"""`LabTrainer`: `PODSTrainer` that is fast on a CPU, with a clock of choice."""

import ctypes
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from trl.models import unwrap_model_for_generation
from trl.trainer import utils

from podslab.engine.budget import Spent
from podslab.evaluation.fast_generation import generating_fast
from podsrl.trl import PODSTrainer
from podsrl.trl.seam import swapped
from podsrl.trl.steady import checkpointing_paused

# Parameters of glibc's `mallopt`, from malloc.h: how many blocks may have memory of their own, and
# how much free memory at the end of the heap is kept.
_M_MMAP_MAX = -4
_M_TRIM_THRESHOLD = -1


def keep_memory() -> None:
    """Let what a step frees serve the next one, where glibc is.

    Otherwise it goes back to the kernel, which clears it again: half of a step's time on a CPU.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def has_bfloat16() -> bool:
    """Whether this processor computes in bfloat16, so that mixed precision is twice as fast."""
    get_capabilities = getattr(torch.cpu, "get_capabilities", dict)  # older versions lack it
    capabilities: dict[str, Any] = get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


@contextmanager
def completions_only() -> Iterator[None]:
    """Inside, TRL's loss predicts the tokens of completions only, as it does on a GPU.

    TRL 1.16 predicts those of prompts, too, where Triton does not run, and throws them away.
    """
    if not hasattr(utils, "_use_triton"):  # before TRL 1.16
        yield
        return
    with swapped(utils, _use_triton=lambda device: True):
        yield


class LabTrainer(PODSTrainer):
    """`PODSTrainer` that is faster on a CPU, with training time on a clock of choice.

    Generation reads each prompt once, and lets ended rows leave the batch. It draws from the same
    distribution with other random numbers than TRL's, for all arms of a comparison alike. The
    update predicts the tokens of completions only.

    Args:
        clock: What training time is measured in: "wall", or "cpu", the seconds that this process
            computed.
    """

    def __init__(self, *args: Any, clock: str = "wall", **kwargs: Any) -> None:
        keep_memory()
        super().__init__(*args, **kwargs)
        if clock == "cpu":
            self.pods.clock.now = time.process_time

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        on_cpu = self.accelerator.device.type == "cpu"
        if self.use_vllm or self.use_transformers_continuous_batching or not on_cpu:
            return super()._generate_single_turn(*args, **kwargs)

        with generating_fast(self.accelerator.unwrap_model(self.model_wrapped)):
            return super()._generate_single_turn(*args, **kwargs)

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        with completions_only():
            return super()._get_per_token_logps_and_entropies(*args, **kwargs)

    def spent(self) -> Spent:
        """The same on every process, whose clocks differ a little, so that all stop together."""
        run = self.pods.state
        spent = [
            Spent(
                steps=self.state.global_step,
                training_seconds=run.clock.training_seconds,
                rollouts=run.rollouts_generated,
                rows_passed=run.rows_passed,
            )
        ]
        broadcast_object_list(spent)  # in place, of the first process
        return spent[0]

    def progress(self, step: int) -> dict[str, Any]:
        """The fields of an `Evaluation` that say how far the run is after so many steps."""
        run = self.pods.state
        return {
            "step": step,
            "training_seconds": run.clock.training_seconds,
            **run.totals(),
        }

    @contextmanager
    def model_for_generation(self) -> Iterator[Any]:
        """The model with whole weights on every process, as TRL generates with it.

        All processes enter and leave together. In between each may generate what it likes, but with
        sharded weights (FSDP, ZeRO-3) all must make as many calls: each is collective.
        """
        checkpointing: Any = self.args.gradient_checkpointing_kwargs
        with (
            checkpointing_paused(self.model),
            unwrap_model_for_generation(
                self.model_wrapped,
                self.accelerator,
                gather_deepspeed3_params=self.args.ds3_gather_for_generation,
                gradient_checkpointing_kwargs=checkpointing,
            ) as model,
            self._dist.summon_full_params(self.model_wrapped, recurse=False),
        ):
            yield model
