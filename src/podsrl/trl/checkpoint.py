"""What a PODS checkpoint holds beyond TRL's, so that a resumed run continues exactly."""

import json
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from podsrl.trl.trainer import PODSTrainer

logger = logging.getLogger(__name__)

_FOLDER = re.compile(r"checkpoint-(\d+)")


def save(trainer: "PODSTrainer", folder: Path) -> None:
    """Write this rank's state into a checkpoint, as the last of its files.

    TRL forgets the rollouts that are still to be trained on when a checkpoint falls between two
    generations (num_iterations > 1, or several optimiser steps per generation); they go along.
    """
    every = (trainer.args.steps_per_generation or 1) * trainer.num_iterations
    between = trainer._step % every != 0
    state = {
        "world": trainer.accelerator.num_processes,
        "micro_step": trainer._step,
        "buffered_inputs": trainer._buffered_inputs if between else None,
        "scorable": trainer._scorable,
        "training_seconds": trainer.clock.training_seconds,
        "rollouts_generated": trainer.rollouts_generated,
        "rollouts_trained": trainer.rollouts_trained,
        "tokens_generated": trainer.tokens_generated,
        "auto": None if trainer.auto is None else trainer.auto.state(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = _state_file(folder, trainer.accelerator.process_index)
    unfinished = path.with_suffix(".tmp")
    torch.save(state, unfinished)
    os.replace(unfinished, path)


def load(trainer: "PODSTrainer", folder: Path) -> None:
    """Restore what `save` wrote; a checkpoint of plain TRL, or of another world size, has less."""
    path = _state_file(folder, trainer.accelerator.process_index)
    if not path.is_file():
        path = _state_file(folder, 0)
        if not path.is_file():
            return
    device = trainer.accelerator.device
    where = "cpu" if device.type == "cpu" else device  # torch.load knows no "cpu:0"
    state: dict[str, Any] = torch.load(path, map_location=where, weights_only=True)
    trainer.clock.training_seconds = state["training_seconds"]
    trainer.rollouts_generated = state["rollouts_generated"]
    trainer.rollouts_trained = state["rollouts_trained"]
    trainer.tokens_generated = state["tokens_generated"]
    if trainer.auto is not None and state.get("auto") is not None:
        trainer.auto.restore(state["auto"])
    if state["world"] != trainer.accelerator.num_processes:
        logger.warning(
            "%s was saved by %d processes and is resumed on %d: the run goes on with the same"
            " weights and optimiser, but with other rollouts than it would have drawn",
            *(folder, state["world"], trainer.accelerator.num_processes),
        )
    else:
        trainer._step = state["micro_step"]
        trainer._buffered_inputs = state["buffered_inputs"]
        trainer._scorable = state["scorable"]


def step_of(folder: str | Path) -> int:
    """The optimiser step of a checkpoint folder: what it says itself, else its name; else 0.

    >>> step_of("runs/demo/checkpoint-40")
    40
    """
    state = Path(folder) / "trainer_state.json"
    if state.is_file():  # a checkpoint may have been renamed
        return int(json.loads(state.read_text(encoding="utf-8"))["global_step"])
    match = _FOLDER.fullmatch(Path(folder).name)
    return int(match.group(1)) if match else 0


def last_complete(output_dir: str | Path) -> Path | None:
    """The newest checkpoint that was written to its end, or None.

    A run that was killed while it saved leaves a half-written checkpoint behind.
    """
    folders = [p for p in Path(output_dir).glob("checkpoint-*") if _state_file(p, 0).is_file()]
    return max(folders, key=step_of, default=None)


def _state_file(folder: Path, rank: int) -> Path:
    return folder / f"pods_state_{rank}.pt"


def save_now(trainer: "PODSTrainer") -> None:
    """Save a checkpoint of the last finished step, after an error while generating or scoring.

    Not if there is one, saving is off, or the error came between the micro-batches of a step:
    their gradients would be missing.
    """
    step = trainer.state.global_step
    if trainer._step % trainer.args.gradient_accumulation_steps:
        return
    folder = Path(str(trainer.args.output_dir)) / f"checkpoint-{step}"
    saved = _state_file(folder, trainer.accelerator.process_index).is_file()
    if step and not saved and trainer.args.save_strategy != "no":
        trainer._save_checkpoint(trainer.model, trial=None)
