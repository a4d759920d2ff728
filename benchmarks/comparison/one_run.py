"""One run of the comparison: train by the settings, and measure beside it."""

import math
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback

from benchmarks.comparison.questions import Questions
from podslab.evaluation.sampling import Sampling, complete
from podslab.recommend.costs_of_runs import read_costs
from podslab.tasks.base import Row
from podslab.training import run as training
from podslab.training.lab_trainer import LabTrainer
from podslab.training.spec import parse
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import PHASES, RunFolder

#: The completions that are generated at once.
_BATCH = 512


def train(settings: Mapping[str, Any], schedule: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Train, and give back what was measured.

    Args:
        settings: As `podslab.training.spec.parse` reads them, without `output_dir`.
        schedule: When and how is measured: `greedy_every` (seconds of training), `samples_at`
            (shares of the run), `samples` (of each question), `sampled_questions`.
        folder: Where the run's own files stand while it is at work; it is deleted at its end.
    """
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt that was stopped
    spec = parse({**settings, "output_dir": str(folder)})
    task = Questions(**settings["task_options"])
    rows = training.with_prompts(task, task.load(spec.run.train_split))
    data = training.Data(task=task, train=rows, held_out=[])
    trainer = training.build_trainer(spec, data, lambda what: iter)
    trainer.pods.recorder.config = spec.flat()

    measuring = Measuring(
        trainer=trainer,
        task=task,
        rows=task.load(spec.run.evaluation_split),
        seconds=float(settings["max_training_seconds"]),
        schedule=schedule,
        sampling=spec.evaluation_sampling,
    )
    trainer.add_callback(measuring)
    trainer.train()

    run = trainer.pods.recorder.run
    result = {
        "measured": measuring.measured,
        **_of_the_log(run.metrics()),
        "g_over_u": _ratio(run),
    }
    shutil.rmtree(folder, ignore_errors=True)
    return result


class Measuring(TrainerCallback):
    """Measures before, during and after training, outside training time, and stops on time.

    Args:
        trainer: Whose clock and counters are read.
        task: It gives prompts, grades and answers.
        rows: The questions, in an order that is the same in every run.
        seconds: The training time of the run.
        schedule: As in `train`.
        sampling: How samples are drawn; the greedy answers are of temperature 0.
    """

    def __init__(
        self,
        trainer: LabTrainer,
        task: Questions,
        rows: Sequence[Row],
        seconds: float,
        schedule: Mapping[str, Any],
        sampling: Sampling,
    ) -> None:
        self.trainer = trainer
        self.task = task
        self.rows = rows
        self.seconds = seconds
        self.schedule = schedule
        self.sampling = replace(sampling, batch_size=_BATCH)
        self.measured: list[dict[str, Any]] = []

        every = float(schedule["greedy_every"])
        before_the_end = np.arange(every, seconds, every).tolist()
        self._greedy_at = [*before_the_end, seconds]
        self._samples_at = [share * seconds for share in schedule["samples_at"]]

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure the model that all runs of a set begin with."""
        self._measure_what_is_due(0.0)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure what is due, and stop once the time is spent."""
        spent = self.trainer.pods.clock.training_seconds
        self._measure_what_is_due(spent)
        if spent >= self.seconds:
            control.should_training_stop = True

    def _measure_what_is_due(self, spent: float) -> None:
        greedy_is_due = spent == 0.0 or _take_due(self._greedy_at, spent)
        samples_are_due = _take_due(self._samples_at, spent)
        if not (greedy_is_due or samples_are_due):
            return

        run_state = self.trainer.pods.state
        point: dict[str, Any] = {
            "seconds": round(spent, 3),
            "step": self.trainer.state.global_step,
            "rollouts": run_state.rollouts_generated,
            "rows": run_state.rollouts_trained,
        }
        with self.trainer.model_for_generation() as model:
            if greedy_is_due:
                point |= self._greedy(model)
            if samples_are_due:
                point |= self._samples(model)
        self.measured.append(point)

    def _greedy(self, model: Any) -> dict[str, Any]:
        """Which questions the likeliest answer is right for, one character for each."""
        greedy = replace(self.sampling, temperature=0.0)
        texts = self._complete(model, self.rows, greedy)
        grades = self.task.grade_batch(texts, self.rows)
        right = "".join("1" if grade.answer else "0" for grade in grades)
        return {"greedy": right, "length": round(self._mean_length(texts), 2)}

    def _samples(self, model: Any) -> dict[str, Any]:
        """Of each question how many samples are right, how many answers differ, their entropy."""
        count = int(self.schedule["samples"])
        rows = self.rows[: int(self.schedule["sampled_questions"])]
        repeated = [row for row in rows for _ in range(count)]
        texts = self._complete(model, repeated, self.sampling)
        grades = self.task.grade_batch(texts, repeated)

        right = []
        distinct = []
        entropy = []
        for start in range(0, len(texts), count):
            answers = [self.task.answer_of(text) for text in texts[start : start + count]]
            right.append(sum(bool(grade.answer) for grade in grades[start : start + count]))
            distinct.append(len(set(answers)))
            entropy.append(round(entropy_of(answers), 3))
        return {
            "right": right,
            "distinct": distinct,
            "entropy": entropy,
            "sampled_length": round(self._mean_length(texts), 2),
        }

    def _complete(self, model: Any, rows: Sequence[Row], sampling: Sampling) -> list[str]:
        """A completion of each row, with random numbers of its own in each batch."""
        texts: list[str] = []
        for start in range(0, len(rows), _BATCH):
            prompts = [self.task.prompt(row) for row in rows[start : start + _BATCH]]
            of_batch = replace(sampling, seed=1000 * sampling.seed + start // _BATCH)
            texts += complete(model, self.trainer.processing_class, prompts, of_batch)
        return texts

    def _mean_length(self, texts: Sequence[str]) -> float:
        """In tokens, without the one that ends a text."""
        tokenizer: Any = self.trainer.processing_class
        return float(np.mean([len(ids) for ids in tokenizer(list(texts))["input_ids"]]))


def _take_due(times: list[float], spent: float) -> bool:
    """Take the times that are over from a list; were there any?"""
    is_due = False
    while times and times[0] <= spent:
        times.pop(0)
        is_due = True
    return is_due


def entropy_of(answers: Sequence[str]) -> float:
    """The entropy of the shares of equal answers, in nats.

    >>> round(entropy_of(["1", "1", "2", "2"]), 4)  # log 2
    0.6931
    """
    shares = [count / len(answers) for count in Counter(answers).values()]
    return abs(sum(share * math.log(share) for share in shares))


def _ratio(run: RunFolder) -> float | None:
    """g/u; None where no row had a pass after the first step, which is an outcome like another."""
    try:
        return round(read_costs([run]).ratio, 3)
    except InvalidInputError:
        return None


def _of_the_log(log: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Seconds by phase, and what taught, over all steps of a run."""
    seconds = {phase: _total(log, f"pods/seconds_{phase}") for phase in PHASES}
    kept = _total(log, "pods/kept_rollouts")
    zero = _total(log, "pods/zero_advantage_rows")
    alike = [float(row["frac_reward_zero_std"]) for row in log if "frac_reward_zero_std" in row]
    norms = [row["grad_norm"] for row in log if "grad_norm" in row]  # None is NaN or infinite
    return {
        "steps": len(log),
        "phases": {phase: round(spent, 2) for phase, spent in seconds.items()},
        "teaching_prompts": round(1 - float(np.mean(alike)), 4),
        "teaching_rows": round(1 - zero / kept, 4),
        "has_not_diverged": None not in norms,
    }


def _total(log: Sequence[Mapping[str, Any]], name: str) -> float:
    return sum(float(row.get(name, 0.0)) for row in log)


def probe_seconds() -> float:
    """The processor time of a fixed piece of work: how fast this machine is at the moment."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(256, 256, generator=generator)
    began = time.process_time()
    for _ in range(200):
        a = torch.tanh(a @ a / 16)
    return time.process_time() - began
