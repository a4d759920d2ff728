"""What happens beside training: evaluations, and stopping on time."""

from dataclasses import replace
from typing import Any

from accelerate.utils import gather_object
from transformers import TrainerCallback

from podslab.evaluation.records import Evaluation, append_evaluation, evaluations
from podslab.evaluation.sampling import Progress, Sampling, Scores, sample_and_grade, score
from podslab.tasks import Task
from podslab.tasks.base import Row
from podslab.training.budget import Budget, Spent
from podslab.training.lab_trainer import LabTrainer
from podslab.training.spec import Spec


class Evaluator(TrainerCallback):
    """Evaluates before, during and after training, outside training time, and stops on time."""

    def __init__(
        self, trainer: LabTrainer, spec: Spec, task: Task, rows: list[Row], progress: Progress
    ) -> None:
        self.trainer = trainer
        self.run = trainer.pods.recorder.run
        self.spec = spec
        self.task = task
        self.rows = rows
        self.progress = progress
        self.scores: dict[int, Scores] = {}  # by optimiser step
        self._evaluated_steps: set[int] = set()
        self._budget = Budget()
        self._last_point = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure the model before the first step."""
        self._evaluated_steps = {evaluation.step for evaluation in evaluations(self.run)}
        self._budget = Budget.of(self.spec, state.max_steps)
        self._last_point = self._point(self.trainer.spent())
        if state.global_step == 0:
            self._evaluate(0)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluate when a step, a time or a point of the budget is due; stop when it is spent."""
        spent = self.trainer.spent()
        is_spent = self._budget.is_spent(spent)
        point = self._point(spent)
        passed_point = point > self._last_point
        self._last_point = point

        # Before the step's checkpoint is saved, so that none lacks its evaluation.
        every = self.spec.run.evaluation_steps
        step_is_due = every is not None and state.global_step % every == 0
        if is_spent or passed_point or step_is_due:
            self._evaluate(state.global_step)

        if is_spent:
            control.should_training_stop = True
            control.should_save = args.save_strategy != "no"

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure the trained model."""
        self._evaluate(state.global_step)

    def _point(self, spent: Spent) -> int:
        """How many of the evaluations over the budget are due."""
        return self._budget.points(spent, self.spec.run.evaluations or 0)

    def _evaluate(self, step: int) -> None:
        """Measure the model after a step, unless that was done before; the main process records."""
        if step in self._evaluated_steps or not self.rows:
            return
        scores = self._measure()
        self.scores[step] = scores
        self._evaluated_steps.add(step)
        if self.trainer.accelerator.is_main_process:
            append_evaluation(self.run, self._as_record(step, scores))

    def _as_record(self, step: int, scores: Scores) -> Evaluation:
        run_state = self.trainer.pods.state
        run = self.spec.run
        return Evaluation(
            step=step,
            training_seconds=run_state.clock.training_seconds,
            rollouts_generated=run_state.rollouts_generated,
            rollouts_trained=run_state.rollouts_trained,
            tokens_generated=run_state.tokens_generated,
            task=run.task,
            split=run.evaluation_split,
            problems=len(self.rows),
            repeats=run.evaluation_repeats,
            answer_accuracy=scores.answer_accuracy,
            format_accuracy=scores.format_accuracy,
            both_accuracy=scores.both_accuracy,
            mean_length=scores.mean_length,
        )

    def _measure(self) -> Scores:
        """Every process samples and grades its share of the problems."""
        trainer = self.trainer
        rank = trainer.accelerator.process_index
        world = trainer.accelerator.num_processes
        share = self.rows[rank::world]

        # With sharded weights generation is collective: every process makes as many calls as the
        # one with the largest share, which is the first.
        largest = len(self.rows[::world])
        padded_share = share + self.rows[:1] * (largest - len(share))

        # In the precision of training, which may be mixed.
        with trainer.model_for_generation() as model, trainer.accelerator.autocast():
            graded = sample_and_grade(
                model=model,
                tokenizer=trainer.processing_class,
                task=self.task,
                rows=padded_share,
                repeats=self.spec.run.evaluation_repeats,
                sampling=self._sampling_of(rank),
                progress=self.progress if rank == 0 else iter,
            )
        return score(gather_object(graded[: len(share)]))

    def _sampling_of(self, rank: int) -> Sampling:
        """How a process samples: with other random numbers than the others."""
        sampling = self.spec.evaluation_sampling
        return replace(sampling, seed=sampling.seed + rank)
