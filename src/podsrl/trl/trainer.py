"""`PODSTrainer`: TRL's `GRPOTrainer` that generates n rollouts per prompt and trains on m."""

from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback
from trl import GRPOTrainer

from podsrl.errors import MissingDependencyError, UnsupportedError
from podsrl.hosts import first_line
from podsrl.rewards import Rewards
from podsrl.trl.advice import Advice
from podsrl.trl.check_arguments import check_arguments
from podsrl.trl.check_data import check_environments, check_parameters
from podsrl.trl.checkpoint import ResumableTrainer, last_complete
from podsrl.trl.clock import PhaseClock, peak_memory
from podsrl.trl.columns import (
    Columns,
    columns_of,
    extra_logs_of,
    filled,
    generated_for_trl,
    numbers_of,
    take_extra_logs,
)
from podsrl.trl.completions_table import Logs, with_dropped, write_to_tensorboard
from podsrl.trl.config import PODSConfig, constructing_pods_trainer
from podsrl.trl.effective import EffectiveSettings, effective_settings
from podsrl.trl.environments import keep_environments, same_tools_for_all
from podsrl.trl.exchange import Exchange, n_of_each
from podsrl.trl.generation import Asked, Generation, Rollouts, Selected
from podsrl.trl.images import dataset_images
from podsrl.trl.logged import masked_rows, pods_metrics, trl_metrics
from podsrl.trl.messages import logger, show_messages
from podsrl.trl.recorder import PAPER, RunRecorder
from podsrl.trl.reward_functions import check_rewards, checked, refuse_twice
from podsrl.trl.reward_models import in_batches
from podsrl.trl.run_state import RunState
from podsrl.trl.signatures import with_parameters_of
from podsrl.trl.spare_passes import PassSparing, without_zero_advantage_rows
from podsrl.trl.steady import checkpointing_paused, input_hooks_replaced, loaders_forgotten
from podsrl.trl.step_safety import StepSafety
from podsrl.trl.swapped import engine_for_rollouts, swapped


class PODSTrainer(PassSparing, StepSafety, ResumableTrainer):
    """GRPO with rollout down-sampling (PODS, arXiv 2504.13818).

    Use it as `trl.GRPOTrainer`, with a `PODSConfig`. For each prompt `num_rollouts` completions are
    generated and scored once; the rule keeps `num_generations` of them; everything after that
    (padding, old and reference log-probs, loss) is TRL's own code on the kept rows.

    TRL's metrics (`reward`, `completions/*`, ...) describe all n rollouts, those under `pods/` what
    the update saw. With n = m and no option of ours it is `GRPOTrainer`, bit for bit. A step
    without any scored rollout, or with a gradient of NaN, moves no weight; DeepSpeed's does.

    Raises:
        InvalidInputError: `args` is not a `PODSConfig`, or what it is given does not fit together.
        RewardError: While training, a reward function raised or returned something that is no
            reward.
    """

    _tag_names = ["trl", "grpo", "pods"]  # noqa: RUF012 (TRL's own class attribute)
    _name: str  # what the model's card says that it was trained with
    _paper: dict[str, str]

    num_generations: int
    model: torch.nn.Module
    _generation: Generation | None = None  # while TRL's method generates for the update
    _logs: dict[str, Any]
    _completions: Logs | None = None  # of the last generation for the update, kept and dropped

    @with_parameters_of(GRPOTrainer.__init__)
    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: PODSConfig | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        **kwargs: Any,
    ) -> None:
        args = PODSConfig() if args is None else args
        check_arguments(args, reward_funcs, kwargs.get("environment_factory"), train_dataset)
        if kwargs.get("rollout_func") is None:  # it may add columns
            functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
            check_parameters(functions, train_dataset, "train_dataset")

        engine = engine_for_rollouts(int(args.num_rollouts or 0), int(args.num_generations or 0))
        try:
            with engine, constructing_pods_trainer():
                super().__init__(model, reward_funcs, args, train_dataset, eval_dataset, **kwargs)
        except ImportError as error:  # such as TRL's that vLLM is not there
            raise MissingDependencyError(str(error)) from error

        check_arguments(args, self.reward_funcs, None, None)  # now with those of environments
        if self.environment_factories is not None:
            check_environments(self._environment_pool, train_dataset, "train_dataset")
        refuse_twice(self.reward_func_names)
        self.reward_funcs = [
            checked(in_batches(function, args), name, self._next_step)
            for function, name in zip(self.reward_funcs, self.reward_func_names, strict=True)
        ]

        show_messages()
        self.effective = effective_settings(
            args, self, self.reward_weights.tolist(), self.reward_func_names
        )
        self._name, self._paper = _method_of_card(self.effective)
        self.run_state = RunState()
        self.exchange = Exchange(
            self.accelerator.process_index, self.accelerator.num_processes, self.accelerator.device
        )
        self.advice = Advice()
        model_name = getattr(self.accelerator.unwrap_model(self.model).config, "_name_or_path", "")
        self.recorder = RunRecorder(args, model_name, self.effective)
        for callback in (self.recorder, self.run_state.clock, _StepMetrics(self)):
            self.add_callback(callback)
        if args.push_to_hub and args.rollout_log and self.accelerator.is_main_process:
            logger.info("push_to_hub uploads every rollout, too; rollout_log=False writes none")

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        """TRL's, from a whole checkpoint; then the run's folder says that it is complete."""
        if resume_from_checkpoint is True:
            # After a kill while saving, the newest checkpoint is not whole, and TRL would take it.
            newest = last_complete(str(self.args.output_dir))
            resume_from_checkpoint = True if newest is None else str(newest)

        # Of an earlier `train()`: counters, the place in TRL's buffer, what was still to be logged.
        self.run_state.reset()
        self._step = 0
        self._pending_extra_logs.clear()
        try:
            with input_hooks_replaced(self.model):
                output = super().train(resume_from_checkpoint, *args, **kwargs)
            self.recorder.finish(self.state.global_step, self.clock.training_seconds)
            return output
        finally:
            self.recorder.close()

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's; its table of completions has the dropped rollouts, too, and a column `kept`."""
        if self._completions is None or not self.model.training:
            super().log(logs, start_time)
            return
        with swapped(self, _logs=self._completions):
            super().log(logs, start_time)
        if self.accelerator.is_main_process and "loss" in logs:  # of a step, not the totals
            callbacks = self.callback_handler.callbacks
            write_to_tensorboard(callbacks, self._completions, self.state.global_step)

    def get_eval_dataloader(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's; it is of one evaluation."""
        with loaders_forgotten(self.accelerator):
            return super().get_eval_dataloader(*args, **kwargs)

    @property
    def clock(self) -> PhaseClock:
        """The clock of the run."""
        return self.run_state.clock

    # ---- TRL's method, and the places where it comes back to the trainer

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's method on its own rows; with environments, which it resets first, on n of each."""
        if not self.model.training:
            with checkpointing_paused(self.model):
                output = super()._generate_and_score_completions(inputs)
            self.model.eval()  # TRL's continuous batching leaves it in training mode
            return output

        self._generation = Generation(self._asked(inputs))
        try:
            # `_hand_over` may switch the log of images off, for this generation alone.
            log_images = swapped(self, log_multimodal=self.log_multimodal)
            with log_images, checkpointing_paused(self.model):
                output = super()._generate_and_score_completions(self._generation.asked.rows)
            with self.clock.phase("select"):
                return self._finish(self._generation, output)
        finally:
            self._generation = None

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        """Generate and score n rollouts of each prompt; return as many rows as TRL goes on with."""
        generation = self._generation
        if generation is None:  # an evaluation
            return super()._generate(prompts)

        # Until here TRL reset environments, which is part of generating.
        self.clock.spent["generate"] += self.clock.now() - generation.asked.began
        rows, prompts_of_rollouts = self._rows_to_generate(generation.asked, prompts)
        total = generation.asked.num_prompts * self.effective.selection.num_rollouts
        columns = self._generate_rollouts(total, rows, prompts_of_rollouts)
        by_function_R_F = self._score_rollouts(columns)
        with self.clock.phase("select"):
            rollouts = self._know_rollouts(generation.asked.num_prompts, columns, by_function_R_F)
            generation.selected = self._select(rollouts)
            return self._hand_over(generation, prompts, rows)

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        """The kept rollouts' rewards, already known; TRL's own method in evaluation."""
        if self._generation is None or self._generation.selected is None:
            return super()._calculate_rewards(inputs, prompts, completions, ids)
        return self._generation.selected.rewards_for_trl

    # ---- asked -> generated -> scored -> selected -> finished

    def _asked(self, inputs: list[dict[str, Any]]) -> Asked:
        num_prompts = len(inputs) * self.accelerator.num_processes // self.num_generations
        began = self.clock.now()
        if self.environment_factories is not None:
            # TRL resets an environment for each row before it generates. Each rollout has its own
            # copy of the row, which its environment may change.
            pairs = self._n_of_each([(row, None) for row in inputs])
            inputs = [row for row, _ in pairs]
        return Asked(inputs, num_prompts, began)

    def _rows_to_generate(self, asked: Asked, prompts: list[Any]) -> tuple[list[Any], list[Any]]:
        """The dataset row and the prompt of each rollout that this process makes."""
        if self.environment_factories is not None:  # these are n of each already
            return asked.rows, prompts
        pairs = self._n_of_each(list(zip(asked.rows, prompts, strict=True)))
        return [row for row, _ in pairs], [prompt for _, prompt in pairs]

    def _n_of_each(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        return n_of_each(
            pairs,
            m=self.num_generations,
            n=self.effective.selection.num_rollouts,
            process=self.exchange.process,
            world=self.exchange.world,
        )

    def _generate_rollouts(self, total: int, rows: list[Any], prompts: list[Any]) -> Columns:
        """What TRL's `_generate` makes of these rows, as columns."""
        # A vLLM server is asked for n of every n-th prompt of all processes. Where one of them
        # generates a rollout twice, these are not n of a prompt: it is asked for one of each row.
        n = 1 if self.exchange.is_padded(total) else self.effective.selection.num_rollouts
        tools = same_tools_for_all(self, len(rows))
        with self.clock.phase("generate"), swapped(self, num_generations=n, **tools):
            return columns_of(rows, prompts, super()._generate(prompts))

    def _score_rollouts(self, columns: Columns) -> torch.Tensor:
        """The rewards of all processes by function, shape (R, F), as TRL gathers them."""
        with self.clock.phase("score"):
            by_function_R_F = super()._calculate_rewards(
                columns["row"], columns["prompt"], columns["completion"], columns["completion_ids"]
            )
            check_rewards(by_function_R_F, self.reward_func_names, self._next_step())
            return by_function_R_F

    def _know_rollouts(
        self, num_prompts: int, columns: Columns, by_function_R_F: torch.Tensor
    ) -> Rollouts:
        """What all processes know of all rollouts, and this one's without its padding."""
        selection = self.effective.selection
        n = selection.num_rollouts
        total = num_prompts * n

        # Of all rollouts: a few numbers.
        numbers = numbers_of(columns, self._cut_off(columns))
        numbers_P_N_3 = self.exchange.gather_numbers(numbers, total).reshape(num_prompts, n, 3)
        tokens_P_N, cut_off_P_N, has_image_P_N = np.moveaxis(numbers_P_N_3, -1, 0)
        by_function = self.exchange.in_order_of_places(by_function_R_F, total)
        by_function_P_N_F = by_function.view(num_prompts, n, -1)

        # Of this process's: all that belongs to a row.
        if self.environment_factories is not None:
            columns["environment_name"] = self._batch_environments
        generated = len(columns["row"] or ())
        columns |= take_extra_logs(self._pending_extra_logs, generated)
        share = self.exchange.share(total)
        names = self.exchange.all_names(name for name in columns if columns[name] is not None)
        columns = filled(columns, names, len(share))
        if selection.across_prompts or num_prompts % self.exchange.world:  # else no row ever moves
            self.exchange.refuse_what_cannot_move(columns, every=n)

        return Rollouts(
            step=self.state.global_step,
            index=self.run_state.generations_of_step,
            columns=columns,
            share=share,
            by_function_P_N_F=by_function_P_N_F,
            rewards=Rewards(
                by_function_P_N_F=by_function_P_N_F.cpu().numpy(),
                reward_weights_F=np.array(self.effective.reward_weights),
                selection_weights_F=np.array(self.effective.selection_weights),
                cut_off_P_N=cut_off_P_N.astype(bool),
            ),
            tokens_P_N=tokens_P_N,
            has_image_P_N=(
                has_image_P_N.astype(bool) if {"images", "tool_images"} & set(names) else None
            ),
        )

    def _cut_off(self, columns: Columns) -> np.ndarray:
        """Of which rollouts TRL's loss masks everything, since they were cut off."""
        completions = columns["completion_ids"] or ()
        if not self.mask_truncated_completions:
            return np.zeros(len(completions), dtype=bool)
        ends = {self._tokenizer.eos_token_id, self._tokenizer.pad_token_id}
        ends |= set(getattr(self, "eos_token_ids", ()))  # not before TRL 1.16
        return np.array([bool(ids) and ids[-1] not in ends for ids in completions], dtype=bool)

    def _select(self, rollouts: Rollouts) -> Selected:
        """Which rollouts of all prompts are kept; the same on every process."""
        selection = self.effective.selection
        scores_P_N = rollouts.rewards.scores_P_N
        if self.run_state.rollouts_generated == 0 and self.exchange.process == 0:
            prompts = len(scores_P_N)
            rows = prompts * selection.num_kept
            line = first_line(selection, prompts, rows, method=self.effective.method)
            logger.info(f"{line}; {self.effective.passes_in_words}")

        chosen = selection.select(scores_P_N, rollouts.step, rollouts.index)
        kept_P_N = np.zeros(scores_P_N.shape, dtype=bool)
        for kept_N, kept in zip(kept_P_N, chosen, strict=True):
            kept_N[kept] = True
        return Selected(
            rollouts=rollouts,
            # A rule of the user's may draw other random numbers on each process.
            kept_P_N=self.exchange.of_first(kept_P_N),
            baseline=selection.baseline,
            scale_rewards=str(self.scale_rewards),
            process=self.exchange.process,
            world=self.exchange.world,
        )

    def _hand_over(
        self, generation: Generation, prompts: list[Any], rows: list[Any]
    ) -> tuple[Any, ...]:
        """The kept rows as TRL's `_generate` returns rows, and all else that TRL holds of rows."""
        selected = generation.selected
        assert selected is not None
        columns = self.exchange.to_their_rows(
            selected.rollouts.columns, selected.rows, selected.kept_P_N.size
        )
        self._pending_extra_logs.update(extra_logs_of(columns))
        # TRL goes on with its own list of prompts: it prepares images with it, logs it, and slices
        # the advantages by its length. What the dataset had is asked before its rows are shortened.
        images_in_dataset = dataset_images(generation.asked.rows) is not None
        prompts[:] = columns["prompt"] or ()
        if self.environment_factories is not None:
            keep_environments(self, selected, columns, rows)
        if selected.some_processes_lack_images:
            self.log_multimodal = False  # TRL's log of images would wait for all processes
        return generated_for_trl(columns, images_in_dataset)

    def _finish(self, generation: Generation, output: dict[str, Any]) -> dict[str, Any]:
        """After TRL's method: advantages, metrics over all n, the rollout log, spared rows."""
        selected = generation.selected
        if selected is None or len(output["advantages"]) != len(output["prompt_ids"]):
            raise UnsupportedError(
                "this version of TRL does not take the kept rows from _generate; podsrl was tested"
                " with trl>=1.9,<1.17"
            )

        advantages_P_N = self._set_advantages(selected, output)
        metrics = self._log_metrics(selected, advantages_P_N, output)
        self._count(selected)
        self.recorder.record(selected, advantages_P_N, self._tokenizer)
        if self.log_completions and not self.effective.keeps_all:
            self._completions = with_dropped(self._logs, selected, self.effective.reward_functions)
        if self.accelerator.is_main_process:
            judged_F = () if self.effective.keeps_all else self.effective.reward_functions
            self.advice.look(selected.rollouts, selected.kept_P_N, judged_F, metrics)

        if self.effective.skip_zero_advantage:
            parts = self.args.steps_per_generation or 1
            return without_zero_advantage_rows(output, parts, self.loss_type)
        return output

    def _set_advantages(self, selected: Selected, output: dict[str, Any]) -> np.ndarray:
        """Put the advantages into TRL's batch and log; return them as shape (P, N).

        They are TRL's own where it computes what is asked for. TRL was given the kept rewards
        ascending by place. Where rows moved, its rows are in another order, and so must be the
        advantages.
        """
        has_moved = bool(selected.rows.moved)
        if self.effective.has_own_advantages:
            advantages_P_N = selected.advantages_P_N
            output["advantages"] = selected.own_advantages
        else:
            by_place_K = self.accelerator.gather(output["advantages"])
            advantages_P_N = np.zeros(selected.kept_P_N.shape)
            advantages_P_N[selected.kept_P_N] = by_place_K.tolist()
            if has_moved:
                first_row = self.exchange.process * len(output["advantages"])
                own_rows = slice(first_row, first_row + len(output["advantages"]))
                output["advantages"] = by_place_K[selected.rows_of_trl[own_rows]]

        if self.effective.has_own_advantages or has_moved:
            self._log_advantages(selected, advantages_P_N)
        if has_moved:
            self._log_rewards(selected)
        return advantages_P_N

    def _log_advantages(self, selected: Selected, advantages_P_N: np.ndarray) -> None:
        """Put these in the place of what TRL logs beside its completions, in their order.

        TRL's logs hold as many rows as a generation has, so that new ones push out the others.
        """
        advantages_K = advantages_P_N[selected.kept_P_N]
        self._logs["advantages"].extend(advantages_K[selected.rows_of_trl].tolist())

    def _log_rewards(self, selected: Selected) -> None:
        """The same for the rewards by function."""
        rewards_F_K = selected.rewards_for_trl[selected.rows_of_trl].T.tolist()
        for name, rewards_K in zip(self.reward_func_names, rewards_F_K, strict=True):
            self._logs["rewards"][name].extend(rewards_K)

    def _log_metrics(
        self, selected: Selected, advantages_P_N: np.ndarray, output: dict[str, Any]
    ) -> dict[str, float]:
        names_F = self.effective.reward_functions
        logged = self._metrics["train"]
        if not self.effective.keeps_all:  # with n = m every value stays TRL's own
            for name, value in trl_metrics(selected.rollouts, names_F).items():
                logged[name][-1] = value

        metrics = pods_metrics(selected, advantages_P_N, names_F)
        if "importance_sampling_ratio" in output:  # of vLLM's log-probs
            masked = self.accelerator.gather(masked_rows(output)).sum()
            metrics["pods/masked_rows"] = float(masked)
        for name, value in metrics.items():
            logged[name].append(value)
        return metrics

    def _count(self, selected: Selected) -> None:
        total_P_N = selected.rollouts.rewards.total_P_N
        self.run_state.batch_is_scored = not bool(np.isnan(total_P_N).all())
        self.run_state.generations_of_step += 1
        self.run_state.rollouts_generated += selected.kept_P_N.size
        self.run_state.rollouts_trained += int(selected.kept_P_N.sum())
        self.run_state.tokens_generated += int(selected.rollouts.tokens_P_N.sum())

    def _next_step(self) -> int:
        """The optimiser step that is being generated for, from 1."""
        return int(self.state.global_step) + 1


class _StepMetrics(TrainerCallback):
    """Logs the seconds of an optimiser step by phase and the totals so far, after its clock."""

    def __init__(self, trainer: PODSTrainer) -> None:
        self.trainer = trainer

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """At the end of a step."""
        run_state = self.trainer.run_state
        logged = self.trainer._metrics["train"]
        for phase, seconds in run_state.clock.last_step.items():
            logged[f"pods/seconds_{phase}"].append(seconds)
        logged["pods/peak_memory"] = [float(peak_memory())]
        logged["pods/training_seconds"] = [run_state.clock.training_seconds]
        for name, total in run_state.totals().items():
            logged[f"pods/{name}"] = [float(total)]
        run_state.generations_of_step = 0


def _method_of_card(effective: EffectiveSettings) -> tuple[str, dict[str, str]]:
    """What the model's card says that it was trained with, and the paper that it cites for it."""
    if effective.keeps_all:
        return GRPOTrainer._name, GRPOTrainer._paper
    if effective.method == "pods":
        return "PODS", PAPER
    return f"GRPO on rows chosen by {effective.selection.rule}", {}
