"""One run: load, train, evaluate, record; resumable at any point."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import PartialState
from datasets import Dataset
from transformers import PrinterCallback, ProgressCallback, TrainerCallback
from trl import ModelConfig, get_peft_config, get_quantization_config

from podslab.engine.budget import Spent
from podslab.evaluation.sampling import Progress, Scores
from podslab.models import resolve
from podslab.tasks import Task
from podslab.tasks.base import Row, spread
from podslab.training.evaluator import Evaluator
from podslab.training.lab_trainer import LabTrainer
from podslab.training.output_folder import refuse_taken, where_to_resume
from podslab.training.preflight import reward_functions, task_of
from podslab.training.spec import Spec
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import checkpoint

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Data:
    """A run's task with its rows; those to train on are `with_prompts`."""

    task: Task
    train: list[Row]
    held_out: list[Row]


@dataclass(frozen=True)
class FinishedRun:
    """A finished run.

    Args:
        run: Its folder.
        checkpoint: Its last complete checkpoint; None where none was saved.
        scores: Of the evaluations in this process, by optimiser step; an earlier one's are in the
            folder.
        steps: The optimiser steps.
        training_seconds: The training time.
    """

    run: RunFolder
    checkpoint: Path | None
    scores: dict[int, Scores]
    steps: int
    training_seconds: float


def load_data(spec: Spec) -> Data:
    """The rows that a run trains on and is evaluated on; a `PodsError` if they can't be had."""
    run = spec.run
    task = task_of(spec)
    held_out: list[Row] = []
    if run.evaluation_problems:
        rows = task.load(run.evaluation_split, run.data_path)
        held_out = spread(rows, run.evaluation_problems)

    train = with_prompts(task, task.load(run.train_split, run.data_path))
    if held_out and run.train_split != run.evaluation_split:
        _check_held_out(task, train, held_out, run.data_path)
    return Data(task, train, held_out)


def _check_held_out(
    task: Task, train: Sequence[Row], held_out: Sequence[Row], data_path: str | None
) -> None:
    """Refuse a folder without splits, where both are the same rows; warn of problems in both."""
    trained = {repr(row["prompt"]) for row in train}
    in_both = sum(repr(task.prompt(row)) in trained for row in held_out)
    if data_path and in_both == len(held_out):
        raise InvalidInputError(
            f"all problems to evaluate on, from {data_path}, are problems to train on, too:"
            " name a folder with a file for each split, or set evaluation_problems to 0"
        )
    if in_both:
        logger.warning(
            "%d of the %d problems to evaluate on are problems to train on, too",
            in_both,
            len(held_out),
        )


def with_prompts(task: Task, rows: Sequence[Row]) -> list[Row]:
    """Rows with the task's prompt beside their own columns; there must be some."""
    if not rows:
        raise InvalidInputError(f"task {task.name!r} has no rows to train on: the dataset is empty")
    return [{**row, "prompt": task.prompt(row)} for row in rows]


def train(
    spec: Spec,
    data: Data,
    callbacks: Sequence[TrainerCallback] = (),
    progress: Callable[[str], Progress] = lambda what: iter,
) -> FinishedRun:
    """Run the settings to their end and record everything in `output_dir`.

    Args:
        spec: The settings.
        data: From `load_data`.
        callbacks: Of transformers, such as a progress bar.
        progress: For long work, called with what it is; gives a wrapper such as tqdm.

    Raises:
        PodsError: The output folder is taken, there is no checkpoint to resume from, a reward
            function fails, ...
    """
    processes = PartialState()
    _check_processes(spec)
    config = spec.flat()  # building the trainer changes the settings
    run = RunFolder(str(spec.training.output_dir))
    refuse_taken(run.path, spec.run.resume)
    resume_from = where_to_resume(run, config) if spec.run.resume else None
    processes.wait_for_everyone()  # all have looked at the folder before one writes into it

    if resume_from is not None:
        spent = _spent_at(run, resume_from)
        # TRL would train one step more.
        if spent is not None and spec.budget.is_spent(spent):
            if processes.is_main_process:
                run.truncate_after(spent.steps)
                run.finish(spec.run.arm, spec.training.seed, spent.steps, spent.training_seconds)
            return FinishedRun(
                run=run,
                checkpoint=resume_from,
                scores={},
                steps=spent.steps,
                training_seconds=spent.training_seconds,
            )

    trainer = build_trainer(spec, data, progress)  # what fails here leaves no folder
    if resume_from is None and processes.is_main_process:
        # before anything of a run that started a moment ago is deleted
        trainer.pods.recorder.run.lock()
        run.truncate_after(-1)  # what an earlier run left that ended in its first step
    trainer.pods.recorder.config = config
    evaluator = Evaluator(trainer, spec, data.task, data.held_out, progress("evaluating"))
    for callback in (evaluator.callback(), *callbacks):
        trainer.add_callback(callback)

    trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
    processes.wait_for_everyone()
    return FinishedRun(
        run=run,
        checkpoint=checkpoint.last_complete(run.path),
        scores=evaluator.scores,
        steps=trainer.state.global_step,
        training_seconds=trainer.pods.clock.training_seconds,
    )


def _check_processes(spec: Spec) -> None:
    """Refuse another number of processes than the settings are meant for."""
    world = spec.training.world_size
    if spec.run.processes not in (None, world):
        raise InvalidInputError(
            f"these settings are meant for {spec.run.processes} processes, and this is one of"
            f" {world}: `pods train --dry-run` prints the command that starts them. With"
            f" --processes {world} they run here, with batches of another size"
        )


def _spent_at(run: RunFolder, folder: Path) -> Spent | None:
    """The spending of a run at a checkpoint; None where that step was not logged."""
    step = checkpoint.step_of(folder)
    for row in run.metrics():
        if row["step"] == step and "pods/training_seconds" in row:
            return Spent(
                steps=step,
                training_seconds=row["pods/training_seconds"],
                rollouts=row.get("pods/rollouts_generated", 0),
                rows_passed=row.get("pods/rows_passed", 0),
            )
    return None


def build_trainer(spec: Spec, data: Data, progress: Callable[[str], Progress]) -> LabTrainer:
    """The trainer for a run, without TRL's own progress bar and printed logs."""
    args = spec.training
    given: Any = args.model_init_kwargs or {}
    args.model_init_kwargs = _model_options(spec.model) | given
    name = resolve(
        str(spec.model.model_name_or_path),
        spec.tiny_settings,
        progress("warm-starting the tiny model"),
    )
    try:
        trainer = LabTrainer(
            model=name,
            reward_funcs=reward_functions(data.task, spec.run.form_reward),
            args=args,
            train_dataset=Dataset.from_list(data.train),
            peft_config=get_peft_config(spec.model),
            clock=spec.run.training_clock,
        )
    except OSError as error:  # what transformers raises for a model that is not there
        first_line = str(error).strip().splitlines()[0]
        raise InvalidInputError(f"can't load the model {name!r}: {first_line}") from error

    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    return trainer


def _model_options(model: ModelConfig) -> dict[str, Any]:
    """The options by which transformers loads the model; unset ones are left to transformers."""
    options: dict[str, Any] = {"revision": model.model_revision, "dtype": model.dtype}
    if model.attn_implementation is not None:
        options["attn_implementation"] = model.attn_implementation
    quantization = get_quantization_config(model)
    if quantization is not None:
        options["quantization_config"] = quantization
    return options
