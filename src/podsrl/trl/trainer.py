"""`PODSTrainer`: TRL's `GRPOTrainer` that generates n rollouts per prompt and trains on m."""

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from accelerate.utils import broadcast, gather_object
from trl.models import unwrap_model_for_generation

from podsrl.downsampling import downsample, downsample_batch, resolve_rule
from podsrl.drives import DriveWatch
from podsrl.errors import UnsupportedError
from podslab.evaluation.fast_generation import generating_fast
from podsrl.selection import kept_in_words
from podsrl.trl.model_card import PAPER
from podsrl.trl import vllm
from podsrl.trl.batch import (
    GENERATED,
    Batch,
    columns_of,
    dataset_images,
    kept_images,
    put_extra_logs,
    take_extra_logs,
)
from podsrl.trl.clock import PhaseClock
from podsrl.trl.config import AUTO, PODSConfig, check_arguments
from podsrl.trl.messages import show_messages
from podsrl.trl.metrics import drives_of, pods_metrics, trl_metrics
from podsrl.trl.recorder import RunRecorder
from podsrl.trl.resumable import ResumableTrainer
from podsrl.trl.rewards import check_rewards, checked, refuse_twice
from podsrl.trl.rounds import Rounds, generate_in_any_order, unlogged, why_in_order
from podsrl.trl.step_callback import StepCallback

if TYPE_CHECKING:
    from podsrl.trl.auto import RolloutChooser

logger = logging.getLogger(__name__)


class PODSTrainer(ResumableTrainer):
    """GRPO with rollout down-sampling (PODS, arXiv 2504.13818).

    Use it as `trl.GRPOTrainer`, with a `PODSConfig`. For each prompt `num_rollouts` completions are
    generated and scored once; the rule keeps `num_generations` of them; everything after that
    (padding, old and reference log-probs, advantages, loss) is TRL's own code on the kept rows.

    TRL's metrics (`reward`, `completions/*`, ...) describe all n rollouts, those under `pods/` what
    the update saw. With n = m it is `GRPOTrainer`, bit for bit. A step in which no rollout at all
    could be scored leaves the weights as they are.

    Raises:
        InvalidInputError: `args` is not a `PODSConfig`.
        RewardError: while training, a reward function raised or returned something that is no
            reward.
    """

    _tag_names = ["trl", "grpo", "pods"]  # noqa: RUF012 (TRL's own class attribute)
    _name = "PODS"
    _paper = PAPER

    args: PODSConfig
    num_generations: int
    model: torch.nn.Module
    _logs: dict[str, Any]

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
        tools, environments = kwargs.get("tools"), kwargs.get("environment_factory")
        check_arguments(args, reward_funcs, tools, environments, train_dataset)  # before loading
        with vllm.sized_for_rollouts(args.most_rollouts, int(args.num_generations or 0)):
            super().__init__(model, reward_funcs, args, train_dataset, eval_dataset, **kwargs)
        check_arguments(args, self.reward_funcs, tools)
        refuse_twice(self.reward_func_names)
        show_messages()
        self.clock = PhaseClock(args.training_clock)
        self.auto = self._rollout_chooser()
        self.num_rollouts = args.most_rollouts if self.auto is None else self.auto.n  # n
        self.rollouts_generated = 0
        self.rollouts_trained = 0
        self.tokens_generated = 0  # of all rollouts, prompts included
        self.rounds = Rounds(args) if args.rollouts_per_round else None
        if self.rounds is not None and self.use_vllm:
            why = why_in_order(self)
            self.rounds.in_any_order = why is None
            if why is not None:
                self._say("every prompt's next round waits for the first rounds of all: %s", why)
        self._rule = resolve_rule(args.downsampling_rule)
        self._drive_watch = DriveWatch(self.reward_func_names, self.reward_weights.tolist())
        self._batch: Batch | None = None  # the one that was generated last
        self._batch_environments: Any = None  # where TRL sets them, names by row
        self._in_step: list[Batch] = []  # generated in the optimiser step that is not yet done
        # whether the rows in TRL's buffer, and the gradients so far, rest on any scored rollout
        self._scorable = self._scorable_gradients = False
        name = getattr(self.accelerator.unwrap_model(self.model).config, "_name_or_path", "")
        self.recorder = RunRecorder(args, name, self.reward_func_names)
        self.add_callback(self.recorder)
        self.add_callback(self.clock)
        self.add_callback(StepCallback(self))
        if args.push_to_hub and args.rollout_log:
            self._say("push_to_hub uploads every rollout, too; rollout_log=False writes none")

    def _rollout_chooser(self) -> "RolloutChooser | None":
        args = self.args
        if args.num_rollouts != AUTO:
            return None
        from podsrl.trl.auto import RolloutChooser  # needs scipy

        rows = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
        prompts = max(1, rows // self.num_generations)
        most, rule = args.max_num_rollouts, args.downsampling_rule
        across = args.selection_scope == "batch"
        auto = RolloutChooser(self.num_generations, most, prompts, rule, across)
        self._say("num_rollouts auto: %s", auto.reason)
        return auto

    def _say(self, message: str, *values: Any) -> None:
        if self.accelerator.is_main_process:
            logger.info(message, *values)

    @contextmanager
    def model_for_generation(self) -> Iterator[Any]:
        """The model with whole weights on every process, as TRL generates with it.

        All processes enter and leave together. In between each may generate what it likes, but with
        sharded weights (FSDP, ZeRO-3) all must make as many calls: each is collective.
        """
        checkpointing: Any = self.args.gradient_checkpointing_kwargs
        with (
            unwrap_model_for_generation(
                self.model_wrapped,
                self.accelerator,
                gather_deepspeed3_params=self.args.ds3_gather_for_generation,
                gradient_checkpointing_kwargs=checkpointing,
            ) as model,
            self._dist.summon_full_params(self.model_wrapped, recurse=False),
        ):
            yield model

    # ---- TRL's methods, wrapped ------------------------------------------------------------------

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Let TRL's method run on n rows per prompt; `_generate` leaves it the kept ones.

        One pass: TRL takes environments from their pool, resets them, and prepares tools and images
        for the n rows before it calls `_generate`. A second pass over the kept rows would do all
        that again, and a selection after this method would pay for log-probs of all n.
        """
        if not self.model.training:
            with patch.object(self, "_batch", None):
                output = super()._generate_and_score_completions(inputs)
            self.model.eval()  # TRL's continuous batching leaves it in training mode
            return output
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        rows = enumerate(inputs, rank * len(inputs))
        prompts_P = gather_object([row for i, row in rows if i % self.num_generations == 0])
        n, step = self.num_rollouts, self.state.global_step
        first = self.args.rollouts_per_round or n
        self._batch = batch = Batch.begin(
            *(prompts_P, n, first, step, self._batch, rank, world),
            apart=self.environment_factories is not None,
        )
        if self.mask_truncated_completions:
            batch.ends = frozenset([*self.eos_token_ids, self._tokenizer.pad_token_id])
        with ExitStack() as self._preparing, patch.object(self, "log_multimodal", False):
            self._preparing.enter_context(self.clock.phase("generate"))
            output = super()._generate_and_score_completions(batch.rows)
        with self.clock.phase("select"):
            self._finish(batch, output)
        return output

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        """Generate and score all n, and hand TRL the kept rows as if there had been no others.

        `prompts` and the batch's rows are shortened in place: the caller goes on with these lists.
        """
        batch = self._batch
        if batch is None:  # an evaluation
            return super()._generate(prompts)
        self._preparing.close()
        if self.rounds is not None and self.rounds.in_any_order:
            generate_in_any_order(self, batch, prompts, super()._generate)
        else:
            self._generate_round(batch, batch.rows, prompts)
            while self.rounds is not None and (groups := self.rounds.goes_on(batch)):
                with unlogged(self):
                    self._generate_round(batch, *batch.next_round(groups))
        with self.clock.phase("select"):
            given = dataset_images(batch.rows)
            kept = batch.keep(self._select(batch))
            batch.rows[:], prompts[:] = kept["row"] or (), kept["prompt"] or ()
            put_extra_logs(self._pending_extra_logs, kept)
            self._batch_environments = kept["environment"]
            for name in ("environments", "_sync_tool_dicts", "_async_tool_dicts"):
                live = getattr(self, name, None)  # TRL sets what this run uses
                setattr(self, name, None if live is None else batch.here(live))
        images = kept_images(kept["images"], given is not None)
        if self._is_vlm and self.args.log_multimodal:  # TRL's own gathers where a rank has images
            shown = gather_object(images or [None] * len(prompts))
            self._logs["images"].extend(shown if any(shown) else [])
        return (*(kept[name] for name in GENERATED[:5]), {}, images, kept["tool_images"] or [])

    def _generate_round(self, batch: Batch, rows: list[Any], prompts: list[Any]) -> None:
        """Generate and score this rank's share of what the batch asks for."""
        # TRL asks its generation engine for `num_generations` completions of each prompt
        with self.clock.phase("generate"), patch.object(self, "num_generations", batch.asked):
            columns = columns_of(rows, prompts, super()._generate(prompts))
        completions, ids = columns["completion"], columns["completion_ids"]
        with self.clock.phase("score"), self._checked_rewards():
            rewards = super()._calculate_rewards(rows, prompts, completions, ids)
            check_rewards(rewards, self.reward_func_names, batch.step + 1)
        with self.clock.phase("select"):
            columns["environment"] = self._batch_environments
            columns |= take_extra_logs(self._pending_extra_logs, len(prompts))
            batch.add_rollouts(columns, rewards, self.reward_weights)

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """TRL's; in training each prompt is read once, by vLLM or by transformers.

        After a tool call each rollout is a prompt of its own, and `num_generations` is 1.
        """
        once: AbstractContextManager[Any] = nullcontext()
        if self.use_vllm:
            several = kwargs.get("num_generations", args[-1]) > 1
            if self._batch is not None and several:
                asked = self._batch.asked
                prompts = len(self._batch.places) // asked
                once = vllm.one_request_per_prompt(self.vllm_generation, prompts, asked)
        elif self.args.fast_generation and not self.use_transformers_continuous_batching:
            once = generating_fast(self.accelerator.unwrap_model(self.model_wrapped))
        with once:
            return super()._generate_single_turn(*args, **kwargs)

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        """The kept rollouts' rewards, already known; TRL's own method in evaluation."""
        if self._batch is None:
            with self._checked_rewards():
                return super()._calculate_rewards(inputs, prompts, completions, ids)
        return self._batch.rewards_P_N_F[self._batch.kept_P_N]

    def _checked_rewards(self) -> AbstractContextManager[Any]:
        """Inside, a reward function that fails is named."""
        step = self.state.global_step + 1
        named = zip(self.reward_funcs, self.reward_func_names, strict=True)
        functions = [checked(function, name, step) for function, name in named]
        return patch.object(self, "reward_funcs", functions)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's; then the run's folder says that it is complete."""
        output = super().train(*args, **kwargs)
        self.recorder.finish(self.state.global_step, self.clock.training_seconds)
        return output

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """TRL's; then it tells how the rollouts were selected, and how many so far."""
        super().create_model_card(*args, **kwargs)
        self.recorder.complete_model_card(self.rollouts_generated, self.rollouts_trained)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """TRL's step; remembers whether the gradients so far rest on any scored rollout."""
        loss = super().training_step(*args, **kwargs)
        self._between_micro_batches = True
        self._scorable_gradients |= self._scorable
        return loss

    # ---- checkpoints -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What this rank needs, beyond TRL's checkpoint, to go on exactly.

        TRL forgets the rollouts that are still to be trained on when a checkpoint falls between two
        generations (num_iterations > 1, or several optimiser steps per generation); they go along.
        """
        return {
            "world": self.accelerator.num_processes,
            "micro_step": self._step,
            "buffered_inputs": None if self._generates_next() else self._buffered_inputs,
            "scorable": self._scorable,
            "training_seconds": self.clock.training_seconds,
            "rollouts_generated": self.rollouts_generated,
            "rollouts_trained": self.rollouts_trained,
            "tokens_generated": self.tokens_generated,
            "auto": None if self.auto is None else self.auto.state_dict(),
            "rewards_seen": None if self.rounds is None else self.rounds.seen,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave; from another number of processes not exactly."""
        self.clock.training_seconds = state["training_seconds"]
        self.rollouts_generated = state["rollouts_generated"]
        self.rollouts_trained = state["rollouts_trained"]
        self.tokens_generated = state["tokens_generated"]
        if self.auto is not None and state["auto"] is not None:
            self.auto.load_state_dict(state["auto"])
            self.num_rollouts = self.auto.n
        if self.rounds is not None and state["rewards_seen"] is not None:
            self.rounds.seen = state["rewards_seen"]
        if state["world"] != self.accelerator.num_processes:
            logger.warning(
                "the checkpoint was saved by %d processes and is resumed on %d: the run goes on"
                " with the same weights and optimiser, but with other rollouts than it would have"
                " drawn",
                *(state["world"], self.accelerator.num_processes),
            )
            return
        self._step = state["micro_step"]
        self._buffered_inputs = state["buffered_inputs"]
        self._scorable = state["scorable"]

    def _generates_next(self) -> bool:
        """Will the next micro-batch come from a new generation?"""
        return self._step % ((self.args.steps_per_generation or 1) * self.num_iterations) == 0

    # ---- between generation and update -----------------------------------------------------------

    def _select(self, batch: Batch) -> torch.Tensor:
        """Which rollouts of all groups to keep, shape (P, N); the same on every rank."""
        m, rows = self.num_generations, batch.groups * self.num_generations
        if self.rollouts_generated == 0:
            kept = kept_in_words(m, batch.n, self.args.selection_scope)
            said = "selected %s in %d groups; the update sees %d rows"
            self._say(said, kept, batch.groups, rows)
        seed = [self.args.seed, batch.step, batch.index]
        rewards_P_N = batch.rewards_to_select_by(self.args.selection_weights)
        if self.args.selection_scope == "batch":
            return downsample_batch(rewards_P_N, rows, seed)
        kept_P_M = downsample(rewards_P_N, m, self._rule, seed)
        # a rule of the user's may draw other random numbers on each rank
        kept_P_M = broadcast(torch.as_tensor(kept_P_M))
        return torch.zeros_like(rewards_P_N, dtype=torch.bool).scatter(1, kept_P_M, True)

    def _finish(self, batch: Batch, output: dict[str, Any]) -> None:
        """After TRL's method: advantages, metrics over all n, the rollout log."""
        if not batch.kept_places or len(output["advantages"]) != len(output["prompt_ids"]):
            raise UnsupportedError(
                "this version of TRL does not take the kept rows from _generate; podsrl was tested"
                " with trl>=1.15,<1.17"
            )
        args, plain = self.args, batch.n == self.num_generations
        if args.advantage_baseline == "group" or (args.selection_scope == "batch" and not plain):
            scale_rewards: Any = self.scale_rewards
            batch.advantages_K = batch.own_advantages(args.advantage_baseline, scale_rewards)
            output["advantages"] = batch.advantages_K[batch.share]
            self._logs["advantages"].extend(batch.advantages_K.tolist())
        else:
            batch.advantages_K = self.accelerator.gather(output["advantages"])
        self._log_metrics(batch)
        self._in_step.append(batch)
        self._scorable = not bool(torch.isnan(batch.rewards_P_N).all())
        self.rollouts_generated += len(batch.generated_places)
        self.rollouts_trained += len(batch.kept_places)
        self.tokens_generated += sum(batch.tokens)
        self.recorder.record(batch, self._tokenizer)
        batch.forget()

    def _log_metrics(self, batch: Batch) -> None:
        """TRL's metrics cover the kept rollouts: put those of all n in their place. Add ours."""
        logged = self._metrics["train"]
        if batch.n > self.num_generations:  # with n = m every value stays TRL's own
            for name, value in trl_metrics(batch, self.reward_func_names).items():
                logged[name][-1] = value
        names, scale = self.reward_func_names, self.scale_rewards != "none"
        weights, selecting = self.reward_weights.tolist(), self.args.selection_weights
        driven = drives_of(batch, names, weights, selecting, scale)
        for name, value in {**pods_metrics(batch), **driven}.items():
            logged[name].append(value)
        warning = self._drive_watch.observe([driven[f"pods/drives/{name}"] for name in names])
        if warning is not None and self.accelerator.is_main_process:
            logger.warning(warning)
