"""`PODSTrainer`: TRL's `GRPOTrainer` that generates n rollouts per prompt and trains on m."""

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback
from trl import GRPOTrainer
from trl.models import unwrap_model_for_generation

from podsrl.advantages import group_advantages
from podsrl.downsampling import resolve_rule
from podsrl.errors import InvalidInputError, PodsError, RewardError, UnsupportedError
from podsrl.runs.folder import RunFolder
from podsrl.trl import checkpoint, vllm
from podsrl.trl.auto import AutoRollouts
from podsrl.trl.clock import PhaseClock, peak_memory
from podsrl.trl.config import AUTO, PODSConfig
from podsrl.trl.fast_generation import generating_fast
from podsrl.trl.ranks import Columns, gather_rows, select_rows, share_of_rows
from podsrl.trl.rollout_log import RolloutLog
from podsrl.trl.selection import Selection, check_rewards

logger = logging.getLogger(__name__)


class PODSTrainer(GRPOTrainer):
    """GRPO with rollout down-sampling (PODS, arXiv 2504.13818).

    Use it as `trl.GRPOTrainer`, with a `PODSConfig`. For each prompt `num_rollouts` completions are
    generated and scored once; the rule keeps `num_generations` of them; everything after that
    (padding, old and reference log-probs, advantages, loss) is TRL's own code on the kept rows.

    TRL's metrics (`reward`, `completions/*`, ...) describe all n rollouts, those under `pods/` what
    the update saw. With n = m it is `GRPOTrainer`, bit for bit. A step in which no rollout at all
    could be scored leaves the weights as they are.

    Raises:
        InvalidInputError: `args` is not a `PODSConfig`.
        UnsupportedError: tools, environments or images, which are refused at construction.
        RewardError: while training, a reward function raised or returned an infinite reward.
    """

    _tag_names = ["trl", "grpo", "pods"]  # noqa: RUF012 (TRL's own class attribute)
    _name = "PODS"
    _paper = {  # noqa: RUF012
        "title": "Not All Rollouts are Useful: Down-Sampling Rollouts in LLM Reinforcement"
        " Learning",
        "id": "2504.13818",
        "citation": (
            "@article{xu2025rollouts,\n"
            "    title   = {{Not All Rollouts are Useful: Down-Sampling Rollouts in LLM"
            " Reinforcement Learning}},\n"
            "    author  = {Yixuan Even Xu and Yash Savani and Fei Fang and J. Zico Kolter},\n"
            "    year    = 2025,\n"
            "    eprint  = {arXiv:2504.13818},\n"
            "}"
        ),
    }

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
        _refuse_unsupported(args, train_dataset, kwargs)
        with vllm.sized_for_rollouts(args.most_rollouts, int(args.num_generations or 0)):
            super().__init__(model, reward_funcs, args, train_dataset, eval_dataset, **kwargs)
        self.clock = PhaseClock(args.training_clock)
        self.num_rollouts = args.most_rollouts  # n; AutoRollouts changes it
        self.rollouts_generated = 0
        self.rollouts_trained = 0
        self.tokens_generated = 0  # of all rollouts, prompts included
        self._rule = resolve_rule(args.downsampling_rule)
        self._rows: list[dict[str, Any]] = []
        self._selection: Selection | None = None  # set from _generate until its update begins
        self._generation = (-1, 0)  # optimiser step, and which of its generations
        self._scorable = self._scorable_in_window = False
        self._rollout_log = None
        if args.rollout_log and self.accelerator.is_main_process:
            run = RunFolder(str(args.output_dir))
            self._rollout_log = RolloutLog(run, args.rollout_log_max_rows)
        self.add_callback(self.clock)
        self.auto = AutoRollouts(self) if args.num_rollouts == AUTO else None
        if self.auto is not None:
            self.add_callback(self.auto)
        self.add_callback(_StepCallback(self))

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
        """Let TRL's method run on n rows per prompt; `_generate` leaves it the kept ones."""
        if not self.model.training:
            return super()._generate_and_score_completions(inputs)
        prompts_P = gather_object(inputs)[:: self.num_generations]
        n, last = self.num_rollouts, len(prompts_P) - 1
        share = share_of_rows(len(prompts_P) * n, *self._rank_of_world)
        self._rows = [dict(prompts_P[min(place // n, last)]) for place in share]
        self._groups = len(prompts_P)
        step, k = self.state.global_step, self._generation[1]
        self._generation = (step, k + 1 if step == self._generation[0] else 0)
        try:
            output = super()._generate_and_score_completions(self._rows)
            with self.clock.phase("select"):
                self._finish(output)
        finally:
            self._selection = None
        return output

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        """Generate and score all n, and hand TRL the kept rows as if there had been no others.

        `prompts` and `self._rows` are shortened in place: the caller goes on with the same lists.
        """
        if not self.model.training:
            return super()._generate(prompts)
        with self.clock.phase("generate"), self._groups_of(self.num_rollouts):
            prompt_ids, completion_ids, tool_mask, completions, logps, extra, _, _ = (
                super()._generate(prompts)
            )
        _merge_extra_fields(self._rows, extra)
        with self.clock.phase("score"):
            rewards = self._score(prompts, completions, completion_ids)
        with self.clock.phase("select"):
            columns: Columns = {
                "row": self._rows,
                "prompt": prompts,
                "prompt_ids": prompt_ids,
                "completion_ids": completion_ids,
                "tool_mask": tool_mask,
                "completion": completions,
                "logps": logps,
                **self._take_extra_logs(len(prompts)),
            }
            kept = self._select(columns, rewards)
            self._rows[:], prompts[:] = kept.pop("row") or (), kept["prompt"] or ()
            self._put_extra_logs(kept)
        names = ("prompt_ids", "completion_ids", "tool_mask", "completion", "logps")
        return (*(kept[name] for name in names), {}, None, [])

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """TRL's; in training each prompt is read once, by vLLM or by transformers."""
        once: AbstractContextManager[None] = nullcontext()
        if self.use_vllm and self.model.training:
            once = vllm.one_request_per_prompt(self.vllm_generation, self._groups)
        elif self.args.fast_generation and not self.use_transformers_continuous_batching:
            once = generating_fast(self.accelerator.unwrap_model(self.model_wrapped))
        with once:
            return super()._generate_single_turn(*args, **kwargs)

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        """The kept rollouts' rewards, already known; TRL's own method in evaluation."""
        if self._selection is None:
            return super()._calculate_rewards(inputs, prompts, completions, ids)
        return self._selection.kept_rewards_per_func

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """TRL's step; remembers whether the gradients so far rest on any scored rollout."""
        loss = super().training_step(*args, **kwargs)
        self._scorable_in_window |= self._scorable
        return loss

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if self._rollout_log is not None:
            self._rollout_log.sync()
        name = f"checkpoint-{self.state.global_step}"
        checkpoint.save(self, Path(self._get_output_dir(trial=trial)) / name)

    def _load_optimizer_and_scheduler(self, folder: str | None) -> None:
        super()._load_optimizer_and_scheduler(folder)
        if folder is not None:
            checkpoint.load(self, Path(folder))

    # ---- between generation and update -----------------------------------------------------------

    @property
    def _rank_of_world(self) -> tuple[int, int]:
        return self.accelerator.process_index, self.accelerator.num_processes

    @contextmanager
    def _groups_of(self, size: int) -> Iterator[None]:
        """TRL asks its generation engine for `num_generations` completions of each prompt."""
        kept = self.num_generations
        self.num_generations = size
        try:
            yield
        finally:
            self.num_generations = kept

    def _score(self, prompts: list[Any], completions: list[Any], ids: list[Any]) -> torch.Tensor:
        try:
            rewards = super()._calculate_rewards(self._rows, prompts, completions, ids)
        except PodsError:
            raise
        except Exception as error:
            raise RewardError(
                f"a reward function failed at step {self.state.global_step + 1}:"
                f" {type(error).__name__}: {error}"
            ) from error
        check_rewards(rewards[None], self.reward_func_names)
        return rewards

    def _select(self, columns: Columns, rewards_per_func: torch.Tensor) -> Columns:
        """Choose what to keep of all groups, and return the rows that this rank trains on."""
        rank, world = self._rank_of_world
        n, m = self.num_rollouts, self.num_generations
        total = self._groups * n
        selection = Selection.choose(
            rewards_per_func[:total].view(self._groups, n, -1),
            self.reward_weights,
            gather_rows(columns, total),
            m,
            self._rule,
            [self.args.seed, *self._generation],
            world,
        )
        self._selection = selection
        if self.auto is not None:
            self.auto.observe(selection)
        if self.rollouts_generated == 0:
            logger.info(
                "selected %d of %d in %d groups; the update sees %d rows",
                *(m, n, self._groups, self._groups * m),
            )
        places = [selection.kept_places[i] for i in selection.by_rank[rank]]
        return select_rows(selection.rollouts, places)

    def _finish(self, output: dict[str, Any]) -> None:
        """After TRL's method: advantages to their ranks, metrics over all n, the rollout log."""
        selection = self._selection
        if selection is None or len(output["advantages"]) != len(output["prompt_ids"]):
            raise UnsupportedError(
                "this version of TRL does not take the kept rows from _generate; podsrl was tested"
                " with trl>=1.16,<1.17"
            )
        rank, world = self._rank_of_world
        advantages = self.accelerator.gather(output["advantages"])  # group by group
        if self.args.advantage_baseline == "group":
            advantages = group_advantages(
                selection.rewards_P_N,
                selection.kept_P_M,
                baseline="group",
                scale=self.scale_rewards != "none",
            ).flatten()
            self._logs["advantages"].extend(advantages.tolist())
        if world > 1:
            self._logs_by_group([place for places in selection.by_rank for place in places])
        output["advantages"] = advantages[selection.by_rank[rank]]

        for name, value in selection.metrics(self.reward_func_names).items():
            values = self._metrics["train"][name]
            if not name.startswith("pods/"):
                values.pop()  # TRL's, over the kept rollouts
            values.append(value)
        self._scorable = selection.any_scorable
        self.rollouts_generated += selection.rewards_P_N.numel()
        self.rollouts_trained += selection.kept_P_M.numel()
        self.tokens_generated += sum(selection.tokens)
        if self._rollout_log is not None:
            self._log_rollouts(self._rollout_log, selection, advantages)

    def _log_rollouts(self, log: RolloutLog, selection: Selection, advantages: Any) -> None:
        prompt_ids_P = (selection.rollouts["prompt_ids"] or ())[:: self.num_rollouts]
        prompts_P = self._tokenizer.batch_decode(list(prompt_ids_P))
        columns = selection.log_columns(prompts_P, self.reward_func_names, advantages)
        log.write(self.state.global_step + 1, columns)

    def _logs_by_group(self, places: list[int]) -> None:
        """TRL gathers texts rank by rank, but rewards come group by group: line them up."""
        for values in (
            self._logs["prompt"],
            self._logs["completion"],
            *self._logs["extra"].values(),
        ):
            by_place = dict(zip(places, values, strict=True))
            values.extend([by_place[place] for place in range(len(places))])

    def _take_extra_logs(self, rows: int) -> Columns:
        """What the reward functions gave to `log_extra`, as columns beside the others."""
        pending = self._pending_extra_logs
        names = sorted(set(gather_object(list(pending))))
        taken: Columns = {f"extra/{name}": pending.pop(name, [None] * rows) for name in names}
        for name, values in taken.items():
            if len(values or ()) != rows:
                raise RewardError(
                    f"log_extra({name.removeprefix('extra/')!r}, ...) got {len(values or ())}"
                    f" values for {rows} rollouts; give one value per rollout, once"
                )
        return taken

    def _put_extra_logs(self, kept: Columns) -> None:
        for name, values in kept.items():
            if name.startswith("extra/"):
                self._pending_extra_logs[name.removeprefix("extra/")] = list(values or ())


class _StepCallback(TrainerCallback):
    """What PODSTrainer does around an optimiser step."""

    def __init__(self, trainer: PODSTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Forget rollouts of another run in this folder, or of steps that are done again."""
        if self.trainer._rollout_log is not None:
            self.trainer._rollout_log.drop_after(state.global_step)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Without gradients the optimiser moves nothing: no momentum, no weight decay."""
        if not self.trainer._scorable_in_window:
            logger.warning("step %d: no rollout could be scored; no update", state.global_step + 1)
            kwargs["optimizer"].zero_grad(set_to_none=True)
        self.trainer._scorable_in_window = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Log the step's seconds by phase and the totals so far."""
        trainer, metrics = self.trainer, self.trainer._metrics["train"]
        for phase, seconds in trainer.clock.last_step.items():
            metrics[f"pods/seconds_{phase}"].append(seconds)
        metrics["pods/peak_memory"] = [float(peak_memory())]
        metrics["pods/training_seconds"] = [trainer.clock.training_seconds]
        metrics["pods/rollouts_generated"] = [float(trainer.rollouts_generated)]
        metrics["pods/rollouts_trained"] = [float(trainer.rollouts_trained)]
        metrics["pods/tokens_generated"] = [float(trainer.tokens_generated)]


def _merge_extra_fields(rows: list[dict[str, Any]], extra: dict[str, Any]) -> None:
    """Columns that a rollout_func returned go to the reward functions."""
    for name, values in extra.items():
        for i, row in enumerate(rows):
            row[name] = values[i] if isinstance(values, list) else values


def _refuse_unsupported(args: Any, train_dataset: Any, kwargs: dict[str, Any]) -> None:
    if not isinstance(args, PODSConfig):
        raise InvalidInputError(
            f"PODSTrainer needs args=podsrl.trl.PODSConfig(...), got {type(args).__name__};"
            " PODSConfig takes every field of GRPOConfig"
        )
    for name in ("tools", "environment_factory"):
        if kwargs.get(name):
            raise UnsupportedError(
                f"{name}= is not supported by PODSTrainer yet: multi-turn rollouts carry state that"
                " can't be dropped row by row. Use a rollout_func, or trl.GRPOTrainer."
            )
    images = {"image", "images"} & set(getattr(train_dataset, "column_names", None) or ())
    if images:
        raise UnsupportedError(
            f"the dataset has a column {images.pop()!r}: images are not supported by PODSTrainer"
            " yet. Remove the column, or use trl.GRPOTrainer."
        )
