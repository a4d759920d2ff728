"""Reward models that score n rollouts in passes as large as TRL's own.

TRL scores all rows of a generation by one forward pass. Those are m of each prompt, and here n: a
pass would have n / m times as many rows, and its activations as much more memory.
"""

from types import SimpleNamespace
from typing import Any

import torch


class InBatches(torch.nn.Module):
    """A reward model that is given at most so many rows at a time.

    A row's score does not depend on the others: TRL pads all rows of a call alike, on the right,
    before they come here, so each is the same in any batch. Kernels may round otherwise for
    another number of rows. Up to `rows` of them are passed on as they are.

    Args:
        model: The reward model, as TRL prepared it for its device or sharded it.
        rows: The most rows of a pass. All processes are given as many rows, so that those of a
            sharded model make as many passes.
    """

    def __init__(self, model: torch.nn.Module, rows: int) -> None:
        super().__init__()
        self.model = model
        self.rows = rows

    def forward(self, input_ids: torch.Tensor, **inputs: Any) -> Any:
        """The model's output; of several passes the `logits`, which are what TRL reads."""
        inputs["input_ids"] = input_ids
        total = len(input_ids)
        if total <= self.rows:
            return self.model(**inputs)

        logits = []
        for first in range(0, total, self.rows):
            batch = {
                name: value[first : first + self.rows] if _has_rows(value, total) else value
                for name, value in inputs.items()
            }
            logits.append(self.model(**batch).logits)
        return SimpleNamespace(logits=torch.cat(logits))

    def __getattr__(self, name: str) -> Any:
        """Let what is asked of the reward model, such as its `config`, be answered by it."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)


def _has_rows(value: Any, total: int) -> bool:
    return torch.is_tensor(value) and value.ndim > 0 and len(value) == total


def in_batches(function: Any, args: Any) -> Any:
    """A reward function as it is; a reward model with passes of as many rows as TRL gives it.

    Those are the rows that TRL scores at once where none is dropped: of a generation, or of a batch
    of an evaluation where that is larger.

    Args:
        function: One of the trainer's `reward_funcs`.
        args: TRL's config, complete.
    """
    if not isinstance(function, torch.nn.Module):
        return function
    of_generation = args.per_device_train_batch_size * (args.steps_per_generation or 1)
    return InBatches(function, max(of_generation, args.per_device_eval_batch_size))
