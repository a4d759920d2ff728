"""Checkpoints that a run goes on from exactly: what they hold beyond TRL's, and whether whole.

A resumed run may have other settings than before. What changes nothing that is learned is let pass;
of the rest it is said what is otherwise, and rollouts that no longer fit are generated anew.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from transformers import TrainerState

from podsrl.errors import InvalidInputError, listed
from podsrl.rollout_log.files import plain
from podsrl.trl.messages import logger

if TYPE_CHECKING:
    from podsrl.trl.down_sampling import DownSampling

#: Beginnings of the settings that say where a run writes, what it shows or where it runs, and
#: change nothing that is learned.
_WITHOUT_EFFECT = (
    "arm",
    "ddp_",
    "dataloader_",
    "disable_tqdm",
    "do_",
    "eval_",
    "evaluation",
    "greater_is_better",
    "hub_",
    "include_",
    "load_best_model_at_end",
    "local_rank",
    "log_",
    "logging_",
    "metric_for_best_model",
    "num_completions_to_print",
    "num_generations_eval",
    "output_dir",
    "per_device_eval_batch_size",
    "prediction_loss_only",
    "project",
    "push_to_hub",
    "report_to",
    "restore_callback_states_from_checkpoint",
    "resume",
    "rollout_log",
    "run_name",
    "save_",
    "skip_memory_metrics",
    "torch_empty_cache_steps",
    "trackio_",
    "use_cpu",
    "vllm_gpu_memory_utilization",
    "vllm_server_",
)
#: The length of a run, which matters where the learning rate follows it.
_LENGTH = ("max_steps", "max_training_seconds", "num_train_epochs")
#: Beginnings of the settings that are about the optimiser's step, and not about rollouts.
_OF_THE_OPTIMISER = (
    *_LENGTH,
    "adam_",
    "epsilon",
    "learning_rate",
    "lr_scheduler_",
    "max_grad_norm",
    "optim",
    "warmup_",
    "weight_decay",
)


class Checkpoints:
    """The additions to TRL's checkpoints: podsrl's own state, and the place of the sampler.

    Rollouts that are still to be trained on, which TRL forgets between two generations, go along.

    Args:
        pods: Whose state is saved and restored.

    Attributes:
        sampler: TRL's, which draws the order of the prompts; None where the dataset is a stream.
    """

    def __init__(self, pods: "DownSampling") -> None:
        self._pods = pods
        self.sampler: Any = None

    def state_dict(self) -> dict[str, Any]:
        """The state that this process needs beyond TRL's checkpoint, to go on exactly."""
        pods = self._pods
        trainer = pods.trainer
        passes_per_generation = (trainer.args.steps_per_generation or 1) * trainer.num_iterations
        is_used_up = pods.host.micro_step % passes_per_generation == 0
        buffered = None if is_used_up else pods.host.buffered_batches
        if (kind := _not_loadable(buffered)) is not None:
            logger.warning(
                "the checkpoint has no rollouts that are still to be trained on, because a batch"
                " holds a %s: a resumed run generates them anew. Tensors, numbers and texts are"
                " saved",
                kind,
            )
            buffered = None
        return {
            "world": trainer.accelerator.num_processes,
            "run": pods.recorder.run_id,
            "micro_step": pods.host.micro_step,
            "buffered_inputs": buffered,
            "settings": plain(pods.recorder.config),
            **pods.state.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave; from another number of processes not exactly."""
        pods = self._pods
        pods.recorder.run_id = state["run"]
        pods.state.load_state_dict(state)

        world = pods.trainer.accelerator.num_processes
        if state["world"] != world:
            pods.state.batch_is_scored = False
            logger.warning(
                f"the checkpoint was saved by {state['world']} processes and is resumed on {world}:"
                " weights and optimiser are the same, other rollouts are drawn"
            )
            return

        # The rows that were left go on where they fit the settings of now; else it generates first.
        buffered = state["buffered_inputs"]
        changed = changes(state["settings"], plain(pods.recorder.config))
        unfit = concerning_rollouts(changed)
        if buffered and not unfit:
            pods.host.go_on_from(state["micro_step"], buffered)
            return

        pods.host.go_on_from(0, None)
        if buffered:
            logger.warning(
                "rollouts that were still to be trained on are generated anew, with the settings of"
                " now: %s",
                listed([str(change) for change in unfit]),
            )

    def save(self, output_dir: str) -> None:
        """Write our state first: trainer_state.json, which transformers writes last, says whole."""
        trainer = self._pods.trainer
        folder = Path(output_dir) / f"checkpoint-{trainer.state.global_step}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "trainer_state.json").unlink(missing_ok=True)  # of a run that went back since

        self._pods.recorder.flush()  # what a resumed run does not generate again must be on disk
        torch.save(self.state_dict(), state_file(folder, trainer.accelerator.process_index))
        trainer.accelerator.wait_for_everyone()

    def load(self, folder: str) -> None:
        """Restore podsrl's own state, and the sampler to where it was."""
        trainer = self._pods.trainer
        self._pods.recorder.run_id = None

        # The state of this process; of the first one, where it was saved by fewer of them.
        processes = (trainer.accelerator.process_index, 0)
        files = [state_file(Path(folder), process) for process in processes]
        saved = next((file for file in files if file.is_file()), None)
        if saved is not None:  # else plain TRL saved it
            device = trainer.accelerator.device
            where = "cpu" if device.type == "cpu" else device  # torch.load knows no "cpu:0"
            self.load_state_dict(_load(saved, where))

        if self.sampler is not None:
            # TRL's sampler is seeded anew, and draws the order of an epoch when it begins one. So
            # an order is drawn for each epoch that is over. At the end of an epoch `state.epoch`,
            # a sum of fractions, may be a little below the whole number.
            for _ in range(int(trainer.state.epoch + 1e-6)):
                next(iter(self.sampler))


def last_complete(output_dir: str | Path) -> Path | None:
    """The newest checkpoint that was written to its end, or None."""
    whole: dict[int, Path] = {}
    for folder in Path(output_dir).glob("checkpoint-*"):
        if state_file(folder, 0).is_file():
            with suppress(OSError, ValueError):  # not written yet, or half: it was killed
                whole[step_of(folder)] = folder
    return whole[max(whole)] if whole else None


def tell_of_passed_over(output_dir: str, newest: Path | None) -> None:
    """Tell of checkpoints after the newest whole one, whose steps are done again."""
    after = 0 if newest is None else step_of(newest)
    for folder in sorted(Path(output_dir).glob("checkpoint-*")):
        number = folder.name.removeprefix("checkpoint-")
        if number.isdecimal() and int(number) > after:
            has_ours = state_file(folder, 0).is_file()
            why = "was not written to its end" if has_ours else "has no state of podsrl's"
            logger.warning(
                "%s %s, and is passed over; name it in resume_from_checkpoint to go on from it"
                " all the same",
                folder,
                why,
            )


def step_of(folder: Path) -> int:
    """The optimiser step of a checkpoint; an `OSError` or a `ValueError` if it is not whole."""
    return TrainerState.load_from_json(str(folder / "trainer_state.json")).global_step


def _not_loadable(value: Any) -> str | None:
    """The first type in a value that `torch.load` does not read with weights_only; None: none."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple)):
        found = (_not_loadable(part) for part in value)
        return next((kind for kind in found if kind is not None), None)
    if value is None or type(value) in (bool, int, float, str) or isinstance(value, torch.Tensor):
        return None
    return type(value).__name__


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


# ---- settings of before and of now


class Change(NamedTuple):
    """A setting that changes what is learned, before and now."""

    name: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.name} {self.before!r} -> {self.now!r}"

    @property
    def concerns_rollouts(self) -> bool:
        """Whether rollouts that were generated before may not be what is trained on now."""
        return not self.name.startswith(_OF_THE_OPTIMISER)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """The settings with another value now, of those that change what is learned.

    Args:
        before, now: All settings as plain values. A name that one of them lacks is of another
            version, and is left out.

    >>> before, now = {"beta": 0.0, "run_name": "a"}, {"beta": 0.1, "run_name": "b"}
    >>> [str(change) for change in changes(before, now)]
    ['beta 0.0 -> 0.1']
    """
    found = [
        Change(name, before[name], now[name])
        for name in before
        if name in now and before[name] != now[name] and not name.startswith(_WITHOUT_EFFECT)
    ]
    if _is_constant(before) and _is_constant(now):
        found = [change for change in found if change.name not in _LENGTH]
    return found


def concerning_rollouts(found: Sequence[Change]) -> list[Change]:
    """The changes after which rollouts of before can't be trained on."""
    return [change for change in found if change.concerns_rollouts]


def _is_constant(settings: Mapping[str, Any]) -> bool:
    return str(settings.get("lr_scheduler_type", "")).startswith("constant")
