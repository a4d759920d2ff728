"""The passes of rows without gradient are spared: the same gradient, in fewer passes.

| where | what is spared | not |
|---|---|---|
| `_get_per_token_logps_and_entropies`, before the update | the pass for old log-probs | with \
vLLM, with images, where TRL computes the advantages |
| `without_zero_advantage_rows`, at the end of a generation | rows of the batch | with images |
| `compute_loss`, in the update | whole micro-batches | the last one of a step, with DeepSpeed or \
FSDP |

A *pass* is forward and backward over a row. A zero-advantage row has no gradient, and a row whose
answer was cut off and masked has none either. Every process must make as many passes, and at least
one a micro-batch, so some of these rows may stay.
"""

from collections.abc import Mapping
from typing import Any

import torch
from accelerate.utils import gather
from trl import GRPOTrainer

from podsrl.trl.effective import EffectiveSettings
from podsrl.trl.generation import Generation
from podsrl.trl.run_state import RunState

#: TRL's losses that are divided by the tokens of the whole batch, which does not change with the
#: rows that are left out. The others are means over rows.
_PER_TOKEN_LOSSES = ("dapo", "cispo", "vespo")


class PassSparing(GRPOTrainer):
    """What `PODSTrainer` adds to TRL's passes."""

    run_state: RunState
    effective: EffectiveSettings
    _generation: Generation | None

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """TRL's; before the update not of rows that will be left out of it, whose values are 0."""
        compute = super()._get_per_token_logps_and_entropies
        rows = self._rows_that_will_pass()
        if rows is None:
            return compute(model, *args, **kwargs)

        total = next(len(argument) for argument in args if torch.is_tensor(argument))
        args_of_rows = [arg[rows] if torch.is_tensor(arg) else arg for arg in args]
        values_of_rows = compute(model, *args_of_rows, **kwargs)

        # Rows without a gradient keep their place, with values that the loss multiplies by 0.
        return [_in_their_places(values, rows, total) for values in values_of_rows]

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """TRL's; 0 without a pass where no row of the micro-batch has a gradient."""
        if model.training:
            if self._may_leave_out_micro_batch() and not _any_process_has_gradient(inputs):
                device = inputs["advantages"].device
                return torch.zeros((), device=device, requires_grad=True)
            self.run_state.rows_passed += len(inputs["advantages"]) * self.accelerator.num_processes
        return super().compute_loss(model, inputs, *args, **kwargs)

    def _rows_that_will_pass(self) -> torch.Tensor | None:
        """Which rows of this process will have a pass; None: all, or it is not known yet."""
        generation = self._generation
        if generation is None or generation.selected is None:
            return None
        if not (self.effective.skip_zero_advantage and self.effective.has_own_advantages):
            return None
        if self.use_vllm:  # every row's log-probs are compared with vLLM's own
            return None
        if generation.selected.has_images:  # pixels are not one per row
            return None
        return rows_to_pass(generation.selected.own_advantages == 0)

    def _may_leave_out_micro_batch(self) -> bool:
        """Not the last one of a step, in which gradients are joined, nor with sharded weights."""
        is_sharded = self.is_deepspeed_enabled or self.is_fsdp_enabled
        joins_gradients = self.accelerator.sync_gradients
        return self.effective.skip_zero_advantage and not (is_sharded or joins_gradients)


def without_zero_advantage_rows(
    batch: dict[str, Any], parts: int, loss_type: str
) -> dict[str, Any]:
    """TRL's batch without rows that have no gradient, which stays the same.

    The rows that are left are divided into `parts` micro-batches of one size, alike on all
    processes. Of losses that are means over rows the advantages are scaled. With images nothing is
    left out.

    Args:
        batch: What TRL's `_generate_and_score_completions` returned.
        parts: The number of micro-batches it will be split into.
        loss_type: TRL's.
    """
    is_idle_K = (batch["advantages"] == 0) | ~batch["completion_mask"].bool().any(dim=1)
    if "num_images" in batch:  # pixels are not one per row, so each row of this process passes
        is_idle_K = torch.zeros_like(is_idle_K)

    # All processes ask together how many rows pass, those with images and those without.
    rows = rows_to_pass(is_idle_K, parts)
    if len(rows) == len(is_idle_K):
        return batch

    shorter = dict(batch)
    for name, values in batch.items():
        if isinstance(values, torch.Tensor) and values.ndim:  # a value of each row
            shorter[name] = values[rows]
    if loss_type not in _PER_TOKEN_LOSSES:
        shorter["advantages"] = shorter["advantages"] * (len(rows) / len(is_idle_K))
    return shorter


def rows_to_pass(is_idle_K: torch.Tensor, parts: int = 1) -> torch.Tensor:
    """The rows that are not idle, and as many idle ones as make parts and processes equal.

    All processes must call it together: they ask which of them has the most rows that are not idle.

    Args:
        is_idle_K: Which rows of this process have no gradient.
        parts: The number of micro-batches that the rows are divided into, a divisor of K.

    Returns:
        The indices of the rows, ascending; a multiple of `parts` of them, as many on each process.
    """
    most = int(gather((~is_idle_K).sum()).max())
    per_part = max(1, -(-most // parts))
    idle_last = is_idle_K.int().argsort(stable=True)
    return idle_last[: per_part * parts].sort().values


def _any_process_has_gradient(inputs: Mapping[str, torch.Tensor]) -> bool:
    """Whether a row of this micro-batch has a gradient on any process; all must ask together."""
    counts_K = inputs["completion_mask"].bool().any(dim=1)
    has_gradient_K = (inputs["advantages"] != 0) & counts_K
    return bool(gather(has_gradient_K.any()).any())


def _in_their_places(
    values: torch.Tensor | None, rows: torch.Tensor, total: int
) -> torch.Tensor | None:
    """Values of some rows among `total` rows, of which the others are 0."""
    if values is None:
        return None
    zeros = values.new_zeros(total, *values.shape[1:])
    return zeros.index_copy(0, rows, values)
