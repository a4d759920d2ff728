"""Checkpoints that a run goes on from exactly: what they hold beyond TRL's, and whether whole."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerState
from trl import GRPOTrainer

from podsrl.trl.clock import TOTALS, PhaseClock
from podsrl.trl.config import PODSConfig
from podsrl.trl.messages import logger
from podsrl.trl.prompts import PromptChooser
from podsrl.trl.recorder import RunRecorder


class ResumableTrainer(GRPOTrainer):
    """What `PODSTrainer` adds to TRL's checkpoints: its own state, and where the sampler was.

    Rollouts that are still to be trained on, which TRL forgets between two generations, go along.
    """

    args: PODSConfig
    recorder: RunRecorder
    clock: PhaseClock
    prompts: PromptChooser | None = None  # where they are chosen by their history
    rollouts_generated = rollouts_trained = rows_passed = tokens_generated = 0
    #: Whether the rows in TRL's buffer, and the gradients so far, rest on any scored rollout.
    batch_is_scored = gradients_are_scored = False
    _sampler: Any = None  # TRL's, unless the dataset is iterable

    def state_dict(self) -> dict[str, Any]:
        """What this rank needs, beyond TRL's checkpoint, to go on exactly."""
        per_generation = (self.args.steps_per_generation or 1) * self.num_iterations
        return {
            "world": self.accelerator.num_processes,
            "run": self.recorder.run_id,
            "micro_step": self._step,
            "buffered_inputs": self._buffered_inputs if self._step % per_generation else None,
            "batch_is_scored": self.batch_is_scored,
            "training_seconds": self.clock.training_seconds,
            "prompts": self.prompts and self.prompts.state_dict(),
            **{name: getattr(self, name) for name in TOTALS},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave; from another number of processes not exactly."""
        self.recorder.run_id = state.get("run")  # earlier versions saved none
        self.clock.training_seconds = state["training_seconds"]
        for name in TOTALS:
            setattr(self, name, state[name])
        if self.prompts is not None and state.get("prompts") is not None:
            self.prompts.load_state_dict(state["prompts"])
        world = self.accelerator.num_processes
        if state["world"] != world:
            logger.warning(
                f"the checkpoint was saved by {state['world']} processes and is resumed on {world}:"
                " weights and optimiser are the same, other rollouts are drawn"
            )
            return
        buffered = state["buffered_inputs"]  # None where a generation was used up
        goes_on = len(buffered or ()) == self.args.steps_per_generation  # else generate first
        self._step = state["micro_step"] if goes_on else 0
        self._buffered_inputs = buffered if goes_on else None
        self.batch_is_scored = state["batch_is_scored"]

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """TRL's step; remembers whether the gradients so far rest on any scored rollout."""
        loss = super().training_step(*args, **kwargs)
        self.gradients_are_scored |= self.batch_is_scored
        return loss

    def _get_grad_norm(self, *args: Any, **kwargs: Any) -> Any:
        norm = super()._get_grad_norm(*args, **kwargs)
        finite = norm is None or bool(torch.as_tensor(norm).isfinite())
        if not (finite and self.gradients_are_scored):  # without gradients torch moves nothing
            why = "no rollout could be scored" if finite else "the gradient is not finite"
            logger.warning("step %d: %s", self.state.global_step + 1, why)
            self.optimizer.zero_grad(set_to_none=True)  # type: ignore[union-attr]
        self.gradients_are_scored = False
        return norm

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Our state first: trainer_state.json, which transformers writes last, says it is whole."""
        folder = Path(self._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "trainer_state.json").unlink(missing_ok=True)  # of a run that went back since
        torch.save(self.state_dict(), state_file(folder, self.accelerator.process_index))
        self.write_prompts()
        self.accelerator.wait_for_everyone()
        super()._save_checkpoint(model, trial)

    def write_prompts(self) -> None:
        """What is known of the prompts, for people: prompts.parquet in the run's folder."""
        if self.prompts is not None and self.accelerator.is_main_process:
            self.prompts.write(self.recorder.run.path)

    def _load_optimizer_and_scheduler(self, folder: str | None) -> None:
        super()._load_optimizer_and_scheduler(folder)
        if folder is None:
            return
        self.recorder.run_id = None
        ranks = (self.accelerator.process_index, 0)  # the first one's where there were fewer
        files = [file for rank in ranks if (file := state_file(Path(folder), rank)).is_file()]
        if files:  # else plain TRL saved it
            device = self.accelerator.device
            where = "cpu" if device.type == "cpu" else device  # torch.load knows no "cpu:0"
            self.load_state_dict(torch.load(files[0], map_location=where, weights_only=True))
        if self._sampler is not None:  # seeded anew; to where it was after so many epochs
            for _ in range(int(self.state.epoch + 1e-6)):
                next(iter(self._sampler))  # draws the whole epoch

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self._sampler = super()._get_train_sampler(dataset)
        return self._sampler


def last_complete(output_dir: str | Path) -> Path | None:
    """The newest checkpoint that was written to its end, or None."""
    whole: dict[int, Path] = {}
    for folder in Path(output_dir).glob("checkpoint-*"):
        if state_file(folder, 0).is_file():
            with suppress(OSError, ValueError):  # not written yet, or half: it was killed
                whole[step_of(folder)] = folder
    return whole[max(whole)] if whole else None


def step_of(folder: Path) -> int:
    """The optimiser step of a checkpoint; an `OSError` or a `ValueError` if it is not whole."""
    return TrainerState.load_from_json(str(folder / "trainer_state.json")).global_step


def state_file(folder: Path, rank: int) -> Path:
    """Where a rank's state is."""
    return folder / f"pods_state_{rank}.pt"
