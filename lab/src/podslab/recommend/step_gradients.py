"""How alike the gradients of the steps of a short run are, and what that says of its prompts."""

from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from podsrl.rollout_log.files import write_json

#: Weights that are compared at most, picked at random: all of a large model don't fit in memory.
WEIGHTS = 1_000_000


class StepGradients(TrainerCallback):
    """Writes the products of the gradients of all steps, at weights that stay as they are.

    With sharded gradients these are of the weights of the main process.

    Args:
        path: of the JSON file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._steps: list[int] = []
        self._gradients: list[torch.Tensor] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Remember what the step would have done."""
        weights = [p for p in kwargs["model"].parameters() if p.requires_grad]
        share = min(1.0, WEIGHTS / max(1, sum(p.numel() for p in weights)))
        random = torch.Generator().manual_seed(0)
        parts = []
        for p in weights:
            chosen = torch.randperm(p.numel(), generator=random)[: round(share * p.numel())]
            if p.grad is not None:
                parts.append(p.grad.detach().flatten()[chosen.to(p.grad.device)].float().cpu())
        if parts:
            self._steps.append(state.global_step + 1)
            self._gradients.append(torch.cat(parts))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write them."""
        if state.is_world_process_zero and len({len(g) for g in self._gradients}) == 1:
            together = torch.stack(self._gradients).double()
            products = (together @ together.T).tolist()
            write_json(self.path, {"steps": self._steps, "products": products})
