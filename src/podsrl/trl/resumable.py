"""TRL's trainer with checkpoints that a run goes on from exactly."""

import logging
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from trl import GRPOTrainer

from podsrl.trl import checkpoint
from podsrl.trl.config import PODSConfig
from podsrl.trl.recorder import RunRecorder

logger = logging.getLogger(__name__)

REFERENCE = "pods_reference.pt"  # in a checkpoint: the weights of a reference that moves


class ResumableTrainer(GRPOTrainer):
    """What `PODSTrainer` adds to TRL's checkpoints: its own state, and where the sampler was."""

    args: PODSConfig
    recorder: RunRecorder
    _sampler: Any = None  # TRL's, unless the dataset is iterable
    _between_micro_batches = False  # of one optimiser step
    _not_loaded = False  # of a checkpoint's weights

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """What this rank needs, beyond TRL's checkpoint, to go on exactly."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""

    def load_checkpoint(self, folder: Path) -> None:
        """Load what a checkpoint folder holds of `state_dict`; nothing if it is plain TRL's."""
        state = checkpoint.read(folder, self.accelerator.process_index, self.accelerator.device)
        if state is not None:
            self.load_state_dict(state)
            self._load_reference(folder)

    def save_last_step(self) -> None:
        """Save a checkpoint of the last finished step, after an error while generating or scoring.

        Not if there is one, saving is off, or the error came between the micro-batches of a step:
        their gradients would be missing.
        """
        step = self.state.global_step
        if self._between_micro_batches:
            return
        folder = Path(str(self.args.output_dir)) / f"checkpoint-{step}"
        saved = checkpoint.state_file(folder, self.accelerator.process_index).is_file()
        if step and not saved and self.args.save_strategy != "no":
            self._save_checkpoint(self.model, trial=None)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        rank, name = self.accelerator.process_index, f"checkpoint-{self.state.global_step}"
        with checkpoint.completed_before_use(self):
            super()._save_checkpoint(model, trial)
            self.recorder.sync()
            if not rank:  # its file makes the checkpoint complete
                self.accelerator.wait_for_everyone()
            folder = Path(self._get_output_dir(trial=trial)) / name
            reference = self._reference()
            if reference is not None and not rank:
                torch.save(reference.state_dict(), folder / REFERENCE)
            checkpoint.write(self.state_dict(), folder, rank)
            if rank:
                self.accelerator.wait_for_everyone()

    def _reference(self) -> Any:
        """The reference model, where it follows the policy and every process has the whole."""
        sharded = self.is_deepspeed_enabled or self.is_fsdp_enabled
        if self.ref_model is None or not self.args.sync_ref_model or sharded:
            return None
        return self.accelerator.unwrap_model(self.ref_model)

    def _load_reference(self, folder: Path) -> None:
        reference, path = self._reference(), folder / REFERENCE
        if reference is not None and path.is_file():
            reference.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        elif self.ref_model is not None and self.args.sync_ref_model:
            logger.warning(
                "the checkpoint holds no reference (sharded weights, or sync_ref_model is new):"
                " it begins anew"
            )

    @contextmanager
    def _loads_all(self, folder: str | None) -> Iterator[None]:
        """Inside, transformers loads weights from a folder; then what it has left out is loaded.

        Mixtures of experts and some vision models are saved by the names that the hub has, and
        transformers' trainer does not translate them back.
        """
        self._not_loaded = False
        yield
        if self._not_loaded and folder is not None:
            whole = self.accelerator.unwrap_model(self.model)
            saved = type(whole).from_pretrained(folder, dtype=whole.dtype)
            whole.load_state_dict(saved.state_dict())

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        with self._loads_all(resume_from_checkpoint):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_best_model(self) -> None:
        with self._loads_all(self.state.best_model_checkpoint):
            super()._load_best_model()

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Weights are missing, unless they are tied to others that were loaded."""
        state = self.accelerator.unwrap_model(self.model).state_dict()
        missing = set(load_result.missing_keys) & set(state)
        loaded = {weight.data_ptr() for name, weight in state.items() if name not in missing}
        self._not_loaded |= any(state[name].data_ptr() not in loaded for name in missing)
        if not self._not_loaded:
            super()._issue_warnings_after_load(load_result)

    def _load_optimizer_and_scheduler(self, folder: str | None) -> None:
        super()._load_optimizer_and_scheduler(folder)
        if folder is not None:
            self.load_checkpoint(Path(folder))
            if self._sampler is not None:
                checkpoint.replay(self._sampler, int(self.state.epoch + 1e-6))

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self._sampler = super()._get_train_sampler(dataset)
        return self._sampler
