"""`LabTrainer`: `PODSTrainer` with fast generation on a CPU, and a clock of choice."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from trl.models import unwrap_model_for_generation

from podslab.evaluation.fast_generation import generating_fast
from podsrl.trl import PODSTrainer


class LabTrainer(PODSTrainer):
    """`PODSTrainer` with faster generation on a CPU, and training time on a clock of choice.

    Fast generation reads each prompt once, and lets ended rows leave the batch. It draws from the
    same distribution with other random numbers than TRL's, for all arms of a comparison alike.

    Args:
        clock: what training time is measured in: "wall", or "cpu", the seconds that this process
            computed.
    """

    def __init__(self, *args: Any, clock: str = "wall", **kwargs: Any) -> None:
        self.clock_kind = clock
        super().__init__(*args, **kwargs)

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        by_transformers = not (self.use_vllm or self.use_transformers_continuous_batching)
        on_cpu = self.accelerator.device.type == "cpu"
        model = self.accelerator.unwrap_model(self.model_wrapped)
        with generating_fast(model) if by_transformers and on_cpu else nullcontext():
            return super()._generate_single_turn(*args, **kwargs)

    @contextmanager
    def model_for_generation(self) -> Iterator[Any]:
        """The model with whole weights on every process, as TRL generates with it.

        All processes enter and leave together. In between each may generate what it likes, but with
        sharded weights (FSDP, ZeRO-3) all must make as many calls: each is collective.
        """
        checkpointing: Any = self.args.gradient_checkpointing_kwargs
        with (
            unwrap_model_for_generation(
                self.model_wrapped,
                self.accelerator,
                gather_deepspeed3_params=self.args.ds3_gather_for_generation,
                gradient_checkpointing_kwargs=checkpointing,
            ) as model,
            self._dist.summon_full_params(self.model_wrapped, recurse=False),
        ):
            yield model
