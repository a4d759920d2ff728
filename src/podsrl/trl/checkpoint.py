"""Checkpoints that a run goes on from exactly: what they hold beyond TRL's, and whether whole."""

from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from transformers import TrainerState
from trl import GRPOTrainer

from podsrl.errors import InvalidInputError, listed
from podsrl.rollout_log.files import plain
from podsrl.trl.config import PODSConfig
from podsrl.trl.messages import logger
from podsrl.trl.provenance import changes, concerning_rollouts
from podsrl.trl.recorder import RunRecorder
from podsrl.trl.run_state import RunState


class ResumableTrainer(GRPOTrainer):
    """What `PODSTrainer` adds to TRL's checkpoints: its own state, and where the sampler was.

    Rollouts that are still to be trained on, which TRL forgets between two generations, go along.
    """

    args: PODSConfig
    recorder: RunRecorder
    run_state: RunState
    _sampler: Any = None  # TRL's, unless the dataset is iterable

    def state_dict(self) -> dict[str, Any]:
        """What this process needs, beyond TRL's checkpoint, to go on exactly."""
        passes_per_generation = (self.args.steps_per_generation or 1) * self.num_iterations
        is_used_up = self._step % passes_per_generation == 0
        return {
            "world": self.accelerator.num_processes,
            "run": self.recorder.run_id,
            "micro_step": self._step,
            "buffered_inputs": None if is_used_up else self._buffered_inputs,
            "settings": plain(self.recorder.config),
            **self.run_state.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave; from another number of processes not exactly."""
        self.recorder.run_id = state["run"]
        self.run_state.load_state_dict(state)

        world = self.accelerator.num_processes
        if state["world"] != world:
            self.run_state.batch_is_scored = False
            logger.warning(
                f"the checkpoint was saved by {state['world']} processes and is resumed on {world}:"
                " weights and optimiser are the same, other rollouts are drawn"
            )
            return

        # The rows that were left go on where they fit the settings of now; else it generates first.
        buffered = state["buffered_inputs"]
        changed = changes(state["settings"], plain(self.recorder.config))
        unfit = concerning_rollouts(changed)
        if buffered and not unfit:
            self._step = state["micro_step"]
            self._buffered_inputs = buffered
            return

        self._step = 0
        self._buffered_inputs = None
        if buffered:
            logger.warning(
                "rollouts that were still to be trained on are generated anew, with the settings of"
                " now: %s",
                listed([str(change) for change in unfit]),
            )

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Our state first: trainer_state.json, which transformers writes last, says it is whole."""
        folder = Path(self._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "trainer_state.json").unlink(missing_ok=True)  # of a run that went back since

        self.recorder.flush()  # what a resumed run does not generate again must be on disk
        torch.save(self.state_dict(), state_file(folder, self.accelerator.process_index))
        self.accelerator.wait_for_everyone()
        super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, folder: str | None) -> None:
        """TRL's; then podsrl's own state, and the sampler to where it was."""
        super()._load_optimizer_and_scheduler(folder)
        if folder is None:
            return

        self.recorder.run_id = None
        # The state of this process; of the first one, where it was saved by fewer of them.
        processes = (self.accelerator.process_index, 0)
        files = [state_file(Path(folder), process) for process in processes]
        saved = next((file for file in files if file.is_file()), None)
        if saved is not None:  # else plain TRL saved it
            device = self.accelerator.device
            where = "cpu" if device.type == "cpu" else device  # torch.load knows no "cpu:0"
            self.load_state_dict(_load(saved, where))

        if self._sampler is not None:
            # TRL's sampler is seeded anew, and draws the order of an epoch when it begins one. So
            # an order is drawn for each epoch that is over. At the end of an epoch `state.epoch`,
            # a sum of fractions, may be a little below the whole number.
            for _ in range(int(self.state.epoch + 1e-6)):
                next(iter(self._sampler))

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


def _load(file: Path, device: Any) -> dict[str, Any]:
    """The state that a file holds; an `InvalidInputError` if it is damaged."""
    try:
        state: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
    except (EOFError, OSError, RuntimeError, UnpicklingError) as error:
        raise InvalidInputError(
            f"{file} is damaged ({type(error).__name__}): resume from another checkpoint"
        ) from error
    return state


def state_file(folder: Path, process: int) -> Path:
    """Where a process's state is."""
    return folder / f"pods_state_{process}.pt"
