"""Evaluates a run on its held-out problems, and records what comes of it."""

from dataclasses import replace

from accelerate.utils import gather_object

from podslab.engine.budget import Schedule
from podslab.engine.measuring import Measuring
from podslab.evaluation.records import Evaluation, append_evaluation, evaluations
from podslab.evaluation.sampling import Progress, Sampling, Scores, sample_and_grade, score
from podslab.tasks import Task
from podslab.tasks.base import Row
from podslab.training.lab_trainer import LabTrainer
from podslab.training.spec import Spec


class Evaluator:
    """The held-out problems of a run, with what its evaluations found.

    Args:
        trainer: The trainer whose model is measured.
        spec: The run's settings.
        task: It gives prompts and grades.
        rows: The problems; without any nothing is measured.
        progress: Shows how far an evaluation is.
    """

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

    def callback(self) -> Measuring:
        """The callback that evaluates before, during and after training, and stops on time."""
        run = self.spec.run
        return Measuring(
            spent=self.trainer.spent,
            budget=self.spec.budget,
            schedule=Schedule(points=run.evaluations or 0, every_steps=run.evaluation_steps),
            measure=self.evaluate,
            measured_steps=lambda: [evaluation.step for evaluation in evaluations(self.run)],
        )

    def evaluate(self, step: int) -> None:
        """Measure the model after a step; the main process records."""
        if not self.rows:
            return
        sampling = self.spec.evaluation_sampling
        scores = self._measure(sampling, self.spec.run.evaluation_repeats)
        self.scores[step] = scores
        likeliest = None
        if self.spec.run.evaluation_greedy:
            likeliest = self._measure(replace(sampling, temperature=0.0), repeats=1)

        if self.trainer.accelerator.is_main_process:
            append_evaluation(self.run, self._as_record(step, scores, likeliest))

    def _as_record(self, step: int, scores: Scores, likeliest: Scores | None) -> Evaluation:
        run = self.spec.run
        return Evaluation(
            **self.trainer.progress(step),
            task=run.task,
            split=run.evaluation_split,
            problems=len(self.rows),
            repeats=run.evaluation_repeats,
            answer_accuracy=scores.answer_accuracy,
            format_accuracy=scores.format_accuracy,
            both_accuracy=scores.both_accuracy,
            mean_length=scores.mean_length,
            rewards=scores.rewards,
            greedy_rewards=[reward for (reward,) in likeliest.rewards] if likeliest else (),
        )

    def _measure(self, sampling: Sampling, repeats: int) -> Scores:
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
                repeats=repeats,
                sampling=replace(sampling, seed=sampling.seed + rank),  # other random numbers
                progress=self.progress if rank == 0 else iter,
            )

        # Processes have every so-manieth problem; the record has them in their order.
        gathered = gather_object(graded[: len(share)])
        places = [place for first in range(world) for place in range(first, len(self.rows), world)]
        in_order = sorted(zip(places, gathered, strict=True), key=lambda pair: pair[0])
        return score([graded_K for _, graded_K in in_order])
