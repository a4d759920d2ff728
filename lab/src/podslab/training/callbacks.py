"""What happens beside training: evaluations, and stopping on time."""

from dataclasses import replace
from typing import Any

from accelerate.utils import broadcast_object_list, gather_object
from transformers import TrainerCallback

from podslab.evaluation.records import ACCURACIES, Evaluation, append_evaluation, evaluations
from podslab.evaluation.sampling import Progress, Scores, sample_and_grade, score
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
        self.trainer, self.run, self.spec = trainer, trainer.recorder.run, spec
        self.task, self.rows, self.progress = task, rows, progress
        self.scores: dict[int, Scores] = {}  # by optimiser step
        self._evaluated: set[int] = set()
        self._budget = Budget()
        self._last_point = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure the model before the first step."""
        self._evaluated = {evaluation.step for evaluation in evaluations(self.run)}
        self._budget = Budget.of(self.spec, state.max_steps)
        self._last_point = self._point(self.spent())
        if state.global_step == 0:
            self._evaluate(0)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluate when a step, a time or a point of the budget is due; stop when it is spent."""
        spent = self.spent()
        point, every = self._point(spent), self.spec.run.evaluation_steps
        ends = self._budget.is_spent(spent)
        due = ends or point > self._last_point
        due |= every is not None and state.global_step % every == 0
        self._last_point = point
        if due:  # before the step's checkpoint is saved, so that none lacks its evaluation
            self._evaluate(state.global_step)
        if ends:
            control.should_training_stop = True
            control.should_save = args.save_strategy != "no"

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure the trained model."""
        self._evaluate(state.global_step)

    def spent(self) -> Spent:
        """The same on every process, whose clocks differ a little, so that all stop together."""
        trainer = self.trainer
        mine = [Spent(trainer.state.global_step, trainer.clock.training_seconds)]
        broadcast_object_list(mine)
        return mine[0]

    def _point(self, spent: Spent) -> int:
        """How many of the evaluations over the budget are due."""
        return self._budget.points(spent, self.spec.run.evaluations or 0)

    def _evaluate(self, step: int) -> None:
        run, trainer = self.spec.run, self.trainer
        if step in self._evaluated or not self.rows:
            return
        self.scores[step] = scores = self._measure()
        self._evaluated.add(step)
        if not trainer.accelerator.is_main_process:
            return
        append_evaluation(
            self.run,
            Evaluation(
                step=step,
                training_seconds=trainer.clock.training_seconds,
                rollouts_generated=trainer.run_state.rollouts_generated,
                rollouts_trained=trainer.run_state.rollouts_trained,
                tokens_generated=trainer.run_state.tokens_generated,
                task=run.task,
                split=run.evaluation_split,
                problems=len(self.rows),
                repeats=run.evaluation_repeats,
                **{name: getattr(scores, name) for name in (*ACCURACIES, "mean_length")},
            ),
        )

    def _measure(self) -> Scores:
        """Every process samples and grades its share of the problems."""
        trainer = self.trainer
        rank, world = trainer.accelerator.process_index, trainer.accelerator.num_processes
        sampling = self.spec.evaluation_sampling
        share = self.rows[rank::world]
        # with sharded weights generation is collective: every process makes as many calls
        padded = share + self.rows[:1] * (len(self.rows[::world]) - len(share))
        # in the precision of training, which may be mixed
        with trainer.model_for_generation() as model, trainer.accelerator.autocast():
            mine = sample_and_grade(
                model,
                trainer.processing_class,
                self.task,
                padded,
                self.spec.run.evaluation_repeats,
                replace(sampling, seed=sampling.seed + rank),
                self.progress if rank == 0 else iter,
            )
        everyone = gather_object(mine[: len(share)])
        return score(everyone)
