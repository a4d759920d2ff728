"""The files that a PODS checkpoint holds beyond TRL's, so that a resumed run continues exactly."""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from transformers import TrainerState, trainer


@contextmanager
def completed_before_use(saving: Any) -> Iterator[None]:
    """Inside, transformers' trainer uploads and deletes no checkpoint; it does so at the end.

    So a run that is killed while it saves has the checkpoint before, with a limit of 1, too.
    """
    uploads: list[str] = []
    surplus: list[dict[str, Any]] = []
    with (
        patch.object(saving, "_push_from_checkpoint", uploads.append),
        patch.object(trainer, "rotate_checkpoints", lambda **which: surplus.append(which)),
    ):
        yield
    for folder in uploads:
        saving._push_from_checkpoint(folder)
    for which in surplus:
        trainer.rotate_checkpoints(**which)


def replay(sampler: Any, epochs: int) -> None:
    """Bring a shuffling sampler, seeded anew, to where it was after so many epochs."""
    for _ in range(epochs):
        deque(sampler, maxlen=0)


def write(state: dict[str, Any], folder: Path, rank: int) -> None:
    """Write a rank's state into a checkpoint, as the last of its files."""
    folder.mkdir(parents=True, exist_ok=True)
    path = state_file(folder, rank)
    unfinished = path.with_suffix(".tmp")
    torch.save(state, unfinished)
    os.replace(unfinished, path)


def read(folder: Path, rank: int, device: torch.device) -> dict[str, Any] | None:
    """What `write` wrote: this rank's, or the first rank's where there were fewer.

    None for a checkpoint of plain TRL.
    """
    path = state_file(folder, rank)
    if not path.is_file():
        path = state_file(folder, 0)
        if not path.is_file():
            return None
    where = "cpu" if device.type == "cpu" else device  # torch.load knows no "cpu:0"
    state: dict[str, Any] = torch.load(path, map_location=where, weights_only=True)
    return state


def step_of(folder: str | Path) -> int:
    """The optimiser step of a complete checkpoint, whatever its folder is called."""
    return TrainerState.load_from_json(str(Path(folder) / "trainer_state.json")).global_step


def last_complete(output_dir: str | Path) -> Path | None:
    """The newest checkpoint that was written to its end, or None.

    A run that was killed while it saved leaves a half-written checkpoint behind.
    """
    folders = [p for p in Path(output_dir).glob("checkpoint-*") if state_file(p, 0).is_file()]
    return max(folders, key=step_of, default=None)


def state_file(folder: Path, rank: int) -> Path:
    """Where a rank's state is; a checkpoint without it is not complete."""
    return folder / f"pods_state_{rank}.pt"
