"""TRL's trainer with checkpoints that a run goes on from exactly."""

from abc import abstractmethod
from pathlib import Path
from typing import Any

from trl import GRPOTrainer

from podsrl.trl import checkpoint
from podsrl.trl.config import PODSConfig
from podsrl.trl.recorder import RunRecorder


class ResumableTrainer(GRPOTrainer):
    """What `PODSTrainer` adds to TRL's checkpoints: its own state, and where the sampler was."""

    args: PODSConfig
    recorder: RunRecorder
    _sampler: Any = None  # TRL's, unless the dataset is iterable

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

    def save_last_step(self) -> None:
        """Save a checkpoint of the last finished step, after an error while generating or scoring.

        Not if there is one, saving is off, or the error came between the micro-batches of a step:
        their gradients would be missing.
        """
        step = self.state.global_step
        if self._step % self.args.gradient_accumulation_steps:
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
            checkpoint.write(self.state_dict(), folder, rank)
            if rank:
                self.accelerator.wait_for_everyone()

    def _load_optimizer_and_scheduler(self, folder: str | None) -> None:
        super()._load_optimizer_and_scheduler(folder)
        if folder is not None:
            self.load_checkpoint(Path(folder))
            if self._sampler is not None:
                checkpoint.replay(self._sampler, int(self.state.epoch + 1e-6))

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self._sampler = super()._get_train_sampler(dataset)
        return self._sampler
