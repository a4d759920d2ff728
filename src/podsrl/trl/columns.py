"""Rollouts as columns: what TRL's `_generate` returns, by name, with a value per rollout."""

from collections.abc import Sequence
from typing import Any

from accelerate.utils import gather_object

from podsrl.errors import RewardError
from podsrl.trl.images import dataset_images

Columns = dict[str, Sequence[Any] | None]  # name -> one value per rollout, or nothing at all

#: What TRL's `_generate` returns, in this order.
GENERATED = (
    "prompt_ids",
    "completion_ids",
    "tool_mask",
    "completion",
    "logps",
    "fields",
    "images",
    "tool_images",
)
EXTRA = "extra/"  # before the names of columns that reward functions gave to `log_extra`


def columns_of(
    rows: list[dict[str, Any]], prompts: Sequence[Any], generated: Sequence[Any]
) -> Columns:
    """What TRL's `_generate` returned for these dataset rows and prompts, by name.

    Fields that a `rollout_func` added go into the rows, where reward functions look for them, as
    TRL does it.
    """
    columns: Columns = {"row": rows, "prompt": prompts}
    columns |= zip(GENERATED, generated, strict=True)

    fields: Any = columns.pop("fields")
    for name, values in fields.items():
        for i, row in enumerate(rows):
            if not isinstance(values, list):
                row[name] = values
            elif i < len(values):
                row[name] = values[i]

    if columns["images"] is None:
        columns["images"] = dataset_images(rows)
    columns["tool_images"] = columns["tool_images"] or None
    return columns


def take_extra_logs(pending: dict[str, Any], rows: int) -> Columns:
    """What the reward functions gave to `log_extra`, as columns beside the others.

    TRL would log them beside the rows that it goes on with, so they are taken out of `pending`, and
    those of the kept rollouts are put back.
    """
    names = sorted(set(gather_object(list(pending))))  # in one order on all processes
    taken: Columns = {EXTRA + name: pending.pop(name, [None] * rows) for name in names}
    for name, values in taken.items():
        if len(values or ()) != rows:
            raise RewardError(
                f"log_extra({name.removeprefix(EXTRA)!r}, ...) got {len(values or ())} values"
                f" for {rows} rollouts; give one value per rollout, once"
            )
    return taken
