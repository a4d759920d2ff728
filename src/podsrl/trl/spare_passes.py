"""The passes of rows without gradient are spared: the same gradient, in fewer passes.

| where | what is spared | not |
|---|---|---|
| `rows_with_log_probs`, before the update | the pass for old log-probs | with vLLM, with images, \
where TRL or a subclass computes the advantages |
| `without_zero_advantage_rows`, at the end of a generation | rows of the batch | with images |
| `may_leave_out`, in the update | whole micro-batches | the last one of a step, with DeepSpeed or \
FSDP |

A *pass* is forward and backward over a row. A zero-advantage row has no gradient, and a row whose
answer was cut off and masked has none either. Every process must make as many passes, and at least
one a micro-batch, so some of these rows may stay.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import gather

from podsrl.errors import InvalidInputError
from podsrl.trl.generation import KeptRows
from podsrl.trl.run_state import RunState

if TYPE_CHECKING:
    from podsrl.trl.seam import Seam
    from podsrl.trl.settings import Settings

#: TRL's losses that are divided by the tokens of the whole batch, which does not change with the
#: rows that are left out. The others are means over rows.
_PER_TOKEN_LOSSES = ("dapo", "cispo", "vespo")


class PassSparing:
    """The rows of a trainer's batches that have a pass.

    Args:
        trainer: TRL's trainer, whose loss and engine say where passes can be spared.
        state: What counts the rows that had a pass.
        world: The number of processes.
    """

    def __init__(self, trainer: "Seam", state: RunState, world: int) -> None:
        self._trainer = trainer
        self._state = state
        self._world = world
        self._loss_type: str | None = None  # by which rows of the batch were left out

    def rows_with_log_probs(self, settings: "Settings", kept: KeptRows) -> torch.Tensor | None:
        """The rows of this process that need old log-probs; None: all of them.

        Args:
            settings: Whether passes are spared, and whose advantages the rows have.
            kept: What is kept of the generation under way.
        """
        if not (settings.skip_zero_advantage and settings.has_own_advantages):
            return None
        if self._trainer.use_vllm:  # every row's log-probs are compared with vLLM's own
            return None
        if kept.has_images:  # pixels are not one per row
            return None
        return rows_to_pass(kept.own_advantages == 0)

    def may_leave_out(self, settings: "Settings", inputs: Mapping[str, torch.Tensor]) -> bool:
        """Whether a micro-batch needs no pass, as no row of any process has a gradient.

        Not the last one of a step, in which gradients are joined, nor with sharded weights.
        """
        trainer = self._trainer
        is_sharded = trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled
        joins_gradients = trainer.accelerator.sync_gradients
        if not settings.skip_zero_advantage or is_sharded or joins_gradients:
            return False
        return not _any_process_has_gradient(inputs)

    def count(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Count the rows of a micro-batch that has a pass, of all processes."""
        self._state.rows_passed += len(inputs["advantages"]) * self._world

    def shorten(self, settings: "Settings", batch: dict[str, Any]) -> dict[str, Any]:
        """The batch without rows that have no gradient, by the advantages that it has now."""
        if not settings.skip_zero_advantage:
            return batch
        self._loss_type = self._trainer.loss_type
        parts = self._trainer.args.steps_per_generation or 1
        return without_zero_advantage_rows(batch, parts, self._loss_type)

    def check_loss_type(self, settings: "Settings") -> None:
        """Refuse another loss for rows that were left out by the one before.

        Raises:
            InvalidInputError: It was changed while rows are still to be trained on.
        """
        now = self._trainer.loss_type
        before = self._loss_type
        is_alike = (now in _PER_TOKEN_LOSSES) == (before in _PER_TOKEN_LOSSES)
        if settings.skip_zero_advantage and before is not None and not is_alike:
            raise InvalidInputError(
                f"loss_type was changed from {before!r} to {now!r} while rows are still to be"
                " trained on, of which some were left out by the loss before: change it where a new"
                " generation begins, or set skip_zero_advantage=False"
            )


def log_probs_of_rows(
    rows: torch.Tensor | None, compute: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
) -> Any:
    """Compute TRL's values of some rows alone; those of the others are 0.

    Args:
        rows: The indices of the rows; None: all.
        compute: TRL's method, which is given the model and all else.
    """
    if rows is None:
        return compute(model, *args, **kwargs)

    total = len(args[0] if args else kwargs["input_ids"])
    args_of_rows = [_of_rows(value, rows, total) for value in args]
    kwargs_of_rows = {name: _of_rows(value, rows, total) for name, value in kwargs.items()}
    values_of_rows = compute(model, *args_of_rows, **kwargs_of_rows)

    # Rows without a gradient keep their place, with values that the loss multiplies by 0.
    return [_in_their_places(values, rows, total) for values in values_of_rows]


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
    is_idle_K = ~_has_gradient(batch)
    if "num_images" in batch:  # pixels are not one per row, so each row of this process passes
        is_idle_K = torch.zeros_like(is_idle_K)

    # All processes ask together how many rows pass, those with images and those without.
    rows = rows_to_pass(is_idle_K, parts)
    if len(rows) == len(is_idle_K):
        return batch

    total = len(is_idle_K)
    shorter = {name: _of_rows(values, rows, total) for name, values in batch.items()}
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
    return bool(gather(_has_gradient(inputs).any()).any())


def _has_gradient(batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Whether each row has an advantage, one or one for each token, and a token that counts."""
    advantages = batch["advantages"]
    has_advantage_K = (advantages != 0).reshape(len(advantages), -1).any(dim=1)
    return has_advantage_K & batch["completion_mask"].bool().any(dim=1)


def _of_rows(values: Any, rows: torch.Tensor, total: int) -> Any:
    """The values of some rows, of what has a value for each of `total` rows; all else as it is."""
    if isinstance(values, torch.Tensor) and values.ndim and len(values) == total:
        return values[rows]
    if isinstance(values, list) and len(values) == total:
        return [values[row] for row in rows.tolist()]
    return values


def _in_their_places(
    values: torch.Tensor | None, rows: torch.Tensor, total: int
) -> torch.Tensor | None:
    """The values at their rows among `total` rows; the other rows are 0."""
    if values is None:
        return None
    zeros = values.new_zeros(total, *values.shape[1:])
    return zeros.index_copy(0, rows, values)
