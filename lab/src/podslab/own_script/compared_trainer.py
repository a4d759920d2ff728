"""The trainer that stands in for the script's: it trains one arm, is measured, and ends in time."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import torch
from accelerate.utils import gather_object, set_seed
from transformers import EarlyStoppingCallback, TrainerCallback
from trl import GRPOTrainer

from podslab.engine.measuring import Measuring
from podslab.evaluation.records import Evaluation, append_evaluation
from podslab.own_script.job import PROBE_STEPS, Probe, ScriptJob
from podslab.own_script.questions import Questions
from podslab.own_script.settings import GivenSettings, config_of, given_settings
from podslab.recommend.measured_steps import MeasuredStep
from podslab.training.lab_trainer import LabTrainer
from podsrl.errors import InvalidInputError
from podsrl.rollout_log import files
from podsrl.rollout_log.environment import describe_environment
from podsrl.rollout_log.files import plain
from podsrl.trl.checkpoint import last_complete
from podsrl.trl.clock import peak_memory
from podsrl.trl.seam import in_front, swapped
from podsrl.trl.trainer import with_parameters_of


class ScriptEnded(SystemExit):
    """The budget is spent: what the script would do after training is not wanted."""


class ComparedTrainer(LabTrainer):
    """`PODSTrainer` under the script's name for a trainer, as one arm of a comparison.

    The script's config is replaced by that of the arm. `train` spends the budget, measures the
    model on questions that no arm trains on, and ends the script.
    """

    job: ScriptJob  # set before the script is run
    began: float  # when the process was started, on the monotonic clock
    is_training = False  # whether the script has called train()

    @with_parameters_of(GRPOTrainer.__init__)
    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        **kwargs: Any,
    ) -> None:
        self.given = given_settings(args)
        self.questions = Questions.of(train_dataset, eval_dataset, self.job.held_out)
        self._refuse_ready_optimizer(kwargs)
        self._leave_out_early_stopping(kwargs)
        super().__init__(
            model,
            reward_funcs,
            config_of(self.given, self.job),
            self.questions.train,
            eval_dataset,  # for a script that evaluates before it trains
            clock=self.job.clock,
            **kwargs,
        )

    @staticmethod
    def _refuse_ready_optimizer(kwargs: dict[str, Any]) -> None:
        """A rate can't be put into an optimiser that exists already."""
        optimizer, scheduler = kwargs.pop("optimizers", None) or (None, None)
        if optimizer is not None or scheduler is not None:
            raise InvalidInputError(
                "the script gives its trainer an optimizer of its own, whose rate pods compare"
                " can't set; name it in the config (optim=...), and leave out optimizers"
            )

    @staticmethod
    def _leave_out_early_stopping(kwargs: dict[str, Any]) -> None:
        """Time ends a run, and transformers' callback asks for an evaluation that there is not."""
        kwargs["callbacks"] = [
            callback
            for callback in kwargs.get("callbacks") or []
            if not (
                isinstance(callback, EarlyStoppingCallback) or callback is EarlyStoppingCallback
            )
        ]

    def train(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Spend the arm's budget, from its last checkpoint if it has one, and end the script.

        Raises:
            InvalidInputError: Something else has ended training before.
            ScriptEnded: Always else.
        """
        checkpoint = last_complete(self.job.folder)
        if checkpoint is None:
            set_seed(self.job.seed)  # the script may have set one of its own
        measured = self._measured()
        self.add_callback(measured)
        self.pods.recorder.config = {
            **self.pods.recorder.config,
            "arm": self.job.method,
            "task": Path(self.job.script).stem,
            "max_training_seconds": self.job.seconds,
        }
        ComparedTrainer.is_training = True
        super().train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        if not measured.is_done:
            raise InvalidInputError(
                f"training ended at step {self.state.global_step}, before its time was over:"
                " something of the script stops it, such as a callback (should_training_stop) or a"
                " dataset of its own that ends; leave it out to compare"
            )
        raise ScriptEnded(0)

    def _measured(self) -> "Measuring | _Probe | _TimedSteps":
        """The callback that measures this run, and ends it."""
        if self.job.sizes is not None:
            return _TimedSteps(self)
        if self.job.describe:
            return _Probe(self)
        return Measuring(self.spent, self.job.budget, self.job.schedule, self._record)

    def _record(self, step: int) -> None:
        """Measure the model after so many steps, and record it."""
        job = self.job
        questions = self.questions.of_job(job)
        rewards_P_K, length = self.measure(questions, job.answers, greedy=False)
        greedy_P_1, _ = self.measure(questions, 1, greedy=True)
        if not self.accelerator.is_main_process:
            return
        append_evaluation(
            self.pods.recorder.run,
            Evaluation(
                **self.progress(step),
                task=Path(job.script).stem,
                split=job.questions,
                problems=len(questions),
                repeats=job.answers,
                answer_accuracy=rewards_P_K.nanmean(dim=0).tolist(),
                format_accuracy=(),
                both_accuracy=(),
                mean_length=(length,),
                rewards=rewards_P_K.tolist(),
                greedy_rewards=greedy_P_1[:, 0].tolist(),
            ),
        )

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Generate and score, which is all that a measurement wants; TRL goes on to the loss.

        Where TRL asks for log-probs of the answers before it scores them, its passes are as large
        as those of training, so that they fit into memory where training does.
        """
        rows_of_pass = self.args.per_device_train_batch_size
        with swapped(self.args, per_device_eval_batch_size=rows_of_pass):
            self._prepare_inputs(inputs)
        return torch.zeros((), device=self.accelerator.device), None, None

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        """TRL's, in the order of the questions.

        TRL shuffles them by the run's seed, and runs of several seeds are compared by question.
        """
        sampler: Any = super()._get_eval_sampler(eval_dataset)
        sampler.shuffle = False
        return sampler

    def measure(self, questions: Any, answers: int, greedy: bool) -> tuple[torch.Tensor, float]:
        """The rewards of answers to each question, shape (P, K), and their mean length in tokens.

        An answer that no function could score has NaN.

        TRL's own evaluation generates and scores them. Random numbers and metrics are those of an
        evaluation of their own, so that a run goes on as if it had not been measured.
        """
        calculate_rewards = self._calculate_rewards  # as a subclass in the script has it
        batches: list[torch.Tensor] = []
        own_lengths: list[int] = []

        def recorded(inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
            rewards_R_F = calculate_rewards(inputs, prompts, completions, ids)
            weighted_R = (rewards_R_F * self.reward_weights.to(rewards_R_F.device)).nansum(dim=1)
            weighted_R[torch.isnan(rewards_R_F).all(dim=1)] = torch.nan
            batches.append(weighted_R.cpu())
            own_lengths.extend(len(completion) for completion in ids)
            return rewards_R_F

        devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
        with (
            torch.random.fork_rng(devices),
            in_front(self, _calculate_rewards=recorded),
            swapped(self, num_generations_eval=answers),
            self._greedy() if greedy else nullcontext(),
        ):
            torch.manual_seed(self.accelerator.process_index)
            was_training = self.model.training
            self.evaluate(questions)
            self.model.train(was_training)  # TRL logs a step by the mode that the model is in

        # The last batch of several processes is filled up with the first questions.
        rewards_R = torch.cat(batches)[: len(questions) * answers]
        lengths = gather_object(own_lengths)
        return rewards_R.view(len(questions), answers), sum(lengths) / max(1, len(lengths))

    @contextmanager
    def _greedy(self) -> Iterator[None]:
        """Inside, the likeliest token is generated."""
        engine = getattr(self, "vllm_generation", None)
        if self.use_vllm and engine is not None:
            with swapped(engine, temperature=0.0):
                yield
            return

        likeliest = type(self.generation_config)(
            **{
                **self.generation_config.to_dict(),
                "do_sample": False,
                "temperature": None,
                "top_p": None,
                "top_k": None,
                "min_p": None,
            }
        )
        with swapped(self, generation_config=likeliest):
            yield


class _Probe(TrainerCallback):
    """Makes a few steps, and writes down what a plan needs to know."""

    def __init__(self, trainer: ComparedTrainer) -> None:
        self.trainer = trainer
        self.seconds_to_start = 0.0
        self.is_done = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """All that comes before the first step."""
        self.seconds_to_start = time.monotonic() - self.trainer.began

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """After the last step of a look: time an evaluation, write, stop."""
        if state.global_step < PROBE_STEPS:
            return
        self.is_done = True
        control.should_training_stop = True
        trainer = self.trainer
        job = trainer.job

        few = trainer.questions.of_job(job).select(range(min(8, trainer.questions.number(job))))
        began = time.monotonic()
        trainer.measure(few, job.answers, greedy=False)
        seconds_per_answer = (time.monotonic() - began) / (len(few) * job.answers)

        if trainer.accelerator.is_main_process:
            given = trainer.given
            methods, problems = _all_settings(given, job)
            Probe(
                learning_rate=float(trainer.args.learning_rate),
                methods=methods,
                problems=problems,
                own_method=given.own_method,
                prompts=trainer.questions.train_prompts,
                questions=trainer.questions.numbers,
                is_held_out=trainer.questions.is_held_out,
                reward_functions=list(trainer.reward_func_names),
                seconds_to_start=self.seconds_to_start,
                seconds_per_step=sum(trainer.pods.clock.last_step.values()),
                seconds_per_answer=seconds_per_answer,
                repeated_rows=trainer.questions.repeated_rows,
                warmup_share=given.warmup_share,
            ).write(Path(job.folder) / "probe.json")


class _TimedSteps(TrainerCallback):
    """Makes a few generations with their updates, and writes down the mean step."""

    def __init__(self, trainer: ComparedTrainer) -> None:
        self.trainer = trainer
        self.is_done = False
        self.seconds: dict[str, float] = {}
        args = trainer.args
        updates = int(args.steps_per_generation or 1) * args.num_iterations
        #: Optimiser steps that a generation serves.
        self.updates = max(1, math.ceil(updates / args.gradient_accumulation_steps))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Add up the steps after the first generation; write and stop after the last one."""
        trainer = self.trainer
        if state.global_step <= self.updates:
            return
        for phase, seconds in trainer.pods.clock.last_step.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

        steps = state.global_step - self.updates
        if steps < trainer.job.timed_steps * self.updates:
            return
        self.is_done = True
        control.should_training_stop = True
        if trainer.accelerator.is_main_process:
            rows = args.per_device_train_batch_size * args.gradient_accumulation_steps
            files.write_json(
                Path(trainer.job.folder) / "step.json",
                {
                    "step": asdict(
                        MeasuredStep(
                            method=trainer.job.method,
                            rollouts_per_row=args.num_rollouts / args.num_generations,
                            rows=rows * trainer.accelerator.num_processes,
                            seconds={name: of / steps for name, of in self.seconds.items()},
                            steps=steps,
                            peak_memory=float(peak_memory()),
                            rows_of_pass=args.per_device_train_batch_size,
                            rows_of_prompt=args.num_generations,
                        )
                    ),
                    "machine": _machine(),
                },
            )


def _machine() -> str:
    """The GPU, or the processor and its cores."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    environment = describe_environment()
    return f"{environment['cpu']}, {environment['cores']} cores"


def _as(job: ScriptJob, method: str) -> ScriptJob:
    return replace(job, method=method)


def _all_settings(
    given: GivenSettings, job: ScriptJob
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """All fields of each method's config as plain values, and why others do not fit the script."""
    methods = {}
    problems = {}
    for name in job.describe:
        try:
            methods[name] = plain(config_of(given, _as(job, name)).settings())
        except InvalidInputError as error:
            problems[name] = str(error)
    return methods, problems
