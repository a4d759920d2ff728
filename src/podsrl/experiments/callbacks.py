"""What happens beside training: records, evaluations, and stopping on time."""

from dataclasses import replace
from typing import Any

from accelerate.utils import gather_object
from transformers import TrainerCallback

from podsrl.evaluation.records import Evaluation, RunFolder
from podsrl.evaluation.runner import Progress, Scores, sample_and_grade, score
from podsrl.experiments.spec import Spec
from podsrl.tasks import Task
from podsrl.tasks.base import Row
from podsrl.trl import PODSTrainer


class Recorder(TrainerCallback):
    """Writes every logged training step to the run's metrics."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """TRL logs other things too, such as the run's totals at its end; they are left out."""
        if state.is_world_process_zero and logs and "pods/training_seconds" in logs:
            self.run.append_metrics({"step": state.global_step, **logs})


class Evaluator(TrainerCallback):
    """Evaluates before, during and after training, outside training time, and stops on time."""

    def __init__(
        self,
        trainer: PODSTrainer,
        run: RunFolder,
        spec: Spec,
        task: Task,
        rows: list[Row],
        progress: Progress = iter,
    ) -> None:
        self.trainer, self.run, self.spec = trainer, run, spec
        self.task, self.rows, self.progress = task, rows, progress
        self.scores: dict[int, Scores] = {}  # by optimiser step
        self._last_seconds = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure the model before the first step."""
        self._last_seconds = self.trainer.clock.training_seconds
        if state.global_step == 0:
            self._evaluate(0)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluate when a step or a time is due; stop when the training time is spent."""
        seconds, run = self.trainer.clock.training_seconds, self.spec.run
        every_steps, every_seconds = run.evaluation_steps, run.evaluation_seconds
        due = bool(every_steps) and state.global_step % int(every_steps or 1) == 0
        if every_seconds:
            due |= seconds // every_seconds > self._last_seconds // every_seconds
        self._last_seconds = seconds
        if due:
            self._evaluate(state.global_step)
        if run.max_training_seconds and seconds >= run.max_training_seconds:
            control.should_training_stop = True
            control.should_save = args.save_strategy != "no"

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure the trained model."""
        self._evaluate(state.global_step)

    def _evaluate(self, step: int) -> None:
        run, trainer = self.spec.run, self.trainer
        if step in self.scores or not self.rows:
            return
        self.scores[step] = scores = self._measure()
        if not trainer.accelerator.is_main_process:
            return
        self.run.append_evaluation(
            Evaluation(
                step=step,
                training_seconds=trainer.clock.training_seconds,
                rollouts_generated=trainer.rollouts_generated,
                rollouts_trained=trainer.rollouts_trained,
                task=run.task,
                split=run.evaluation_split,
                problems=len(self.rows),
                repeats=run.evaluation_repeats,
                answer_accuracy=scores.answer_accuracy,
                format_accuracy=scores.format_accuracy,
                both_accuracy=scores.both_accuracy,
                mean_length=scores.mean_length,
            )
        )

    def _measure(self) -> Scores:
        """Every process samples and grades its share of the problems."""
        trainer = self.trainer
        rank, world = trainer.accelerator.process_index, trainer.accelerator.num_processes
        sampling = self.spec.evaluation_sampling
        with trainer.model_for_generation() as model:
            mine = sample_and_grade(
                model,
                trainer.processing_class,
                self.task,
                self.rows[rank::world] or self.rows[:1],
                self.spec.run.evaluation_repeats,
                replace(sampling, seed=sampling.seed + rank),
                self.progress if rank == 0 else iter,
            )
        everyone = gather_object(mine if rank < len(self.rows) else [])
        return score(everyone)
