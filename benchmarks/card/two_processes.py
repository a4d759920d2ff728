"""One of two processes that train a tiny model together, for `benchmarks.card.measure`.

torchrun starts it: two_processes FOLDER BACKEND STEPS DEVICE. The first process writes found.json
into the folder; one that fails writes error-RANK.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

RANK = os.environ.get("RANK", "0")
#: Rollouts of a prompt, and the rows that are kept of it.
_N, _M = 8, 4


def train(folder: Path, backend: str, steps: int, device: str) -> None:
    """Train, and write what the first process has seen.

    Args:
        folder: Where it is written.
        backend: Of torch.distributed: "nccl" or "gloo".
        steps: The optimiser steps.
        device: "cuda": both processes have the first card; or "cpu".
    """
    if device == "cuda":
        os.environ["LOCAL_RANK"] = "0"  # accelerate gives a process the card of this number

    import torch
    from transformers import PrinterCallback

    from benchmarks.sizes.measure import RandomRewards, settings_of_steps
    from benchmarks.sizes.models import make_model, make_prompts, make_tokenizer
    from benchmarks.sizes.shapes import SHAPES
    from podsrl.trl import PODSConfig, PODSTrainer

    torch.manual_seed(0)
    trainer = PODSTrainer(
        make_model(SHAPES["tiny"], "cpu", torch.float32),
        RandomRewards(),
        PODSConfig(
            str(folder / "run"),
            num_rollouts=_N,
            num_generations=_M,
            per_device_train_batch_size=_M,
            gradient_accumulation_steps=1,
            max_completion_length=8,
            max_steps=steps,
            ddp_backend=backend,
            **settings_of_steps(device),
        ),
        make_prompts(8, tokens=8),
        processing_class=make_tokenizer(SHAPES["tiny"]),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()

    accelerator = trainer.accelerator
    total = sum(weight.detach().double().sum() for weight in trainer.model.parameters())
    totals = accelerator.gather(torch.as_tensor(total).reshape(1)).tolist()
    if accelerator.is_main_process:
        found = _found(trainer, totals)
        (folder / "found.json").write_text(json.dumps(found))
    accelerator.end_training()


def _found(trainer: Any, totals: list[float]) -> dict[str, Any]:
    """What the first process has seen: where it trained, and the steps."""
    import torch.distributed as dist

    return {
        "backend": dist.get_backend(),
        "processes": trainer.accelerator.num_processes,
        "device": str(trainer.accelerator.device),
        "same_weights": len(set(totals)) == 1,
        "steps": [
            {name: line[name] for name in ("loss", "step_time", "pods/moved_rows") if name in line}
            for line in trainer.state.log_history
            if "loss" in line
        ],
    }


def main() -> None:
    """Train by the words of the command line; an error is written down, and ends the process."""
    folder, backend, steps, device = sys.argv[1:]
    try:
        train(Path(folder), backend, int(steps), device)
    except Exception as error:
        Path(folder, f"error-{RANK}").write_text(f"process {RANK}: {type(error).__name__}: {error}")
        raise


if __name__ == "__main__":
    main()
