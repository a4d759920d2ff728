"""`PODSTrainer`: TRL's `GRPOTrainer` that generates n rollouts per prompt and trains on m."""

from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import broadcast_object_list, gather, gather_object

from podsrl.errors import UnsupportedError
from podsrl.trl.advice import Advice
from podsrl.trl.checkpoint import ResumableTrainer, last_complete
from podsrl.trl.clock import TOTALS, PhaseClock, StepCallback
from podsrl.trl.config import UNIFORM, PODSConfig, check_arguments
from podsrl.trl.messages import logger, show_messages
from podsrl.trl.metrics import masked_rows, pods_metrics, trl_metrics
from podsrl.trl.prompts import PromptChooser
from podsrl.trl.recorder import PAPER, RunRecorder
from podsrl.trl.rewards import check_rewards, checked, refuse_twice
from podsrl.trl.rollouts import (
    Columns,
    Kept,
    Rollouts,
    columns_of,
    dataset_images,
    gather_rows,
    keep_environments,
    own_copy,
    rows_to_pass,
    share_of_rows,
    take_extra_logs,
    weighted_sums,
    without_zero_advantage_rows,
)
from podsrl.trl.swapped import engine_for_rollouts, swapped


@dataclass(frozen=True)
class _Asked:
    """What TRL's method was given, for the update."""

    rows: list[dict[str, Any]]  # of the dataset, on this rank
    groups: int  # prompts of all ranks
    began: float


class PODSTrainer(ResumableTrainer):
    """GRPO with rollout down-sampling (PODS, arXiv 2504.13818).

    Use it as `trl.GRPOTrainer`, with a `PODSConfig`. For each prompt `num_rollouts` completions are
    generated and scored once; the rule keeps `num_generations` of them; everything after that
    (padding, old and reference log-probs, loss) is TRL's own code on the kept rows.

    TRL's metrics (`reward`, `completions/*`, ...) describe all n rollouts, those under `pods/` what
    the update saw. With n = m and no option of ours it is `GRPOTrainer`, bit for bit. A step
    without any scored rollout, or with a gradient of NaN, moves no weight; DeepSpeed's does.

    Raises:
        InvalidInputError: `args` is not a `PODSConfig`.
        RewardError: While training, a reward function raised or returned something that is no
            reward.
    """

    _tag_names = ["trl", "grpo", "pods"]  # noqa: RUF012 (TRL's own class attribute)
    _name, _paper = "PODS", PAPER

    num_generations: int
    model: torch.nn.Module
    _logs: dict[str, Any]
    generations_of_step = 0  # for the optimiser step that is not yet done
    _asked: _Asked | None = None  # while TRL's method generates for the update
    _kept: Kept | None = None  # from `_generate` to the end of TRL's method

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
        engine = engine_for_rollouts(args.num_rollouts or 0, int(args.num_generations or 0))
        with engine, swapped(args, _in_pods_trainer=True):
            super().__init__(model, reward_funcs, args, train_dataset, eval_dataset, **kwargs)
        check_arguments(args, self.reward_funcs, None, None)  # with those of environments
        refuse_twice(self.reward_func_names)
        named = zip(self.reward_funcs, self.reward_func_names, strict=True)
        self.reward_funcs = [checked(function, name, self._next_step) for function, name in named]
        show_messages()
        self.clock = PhaseClock()
        self.advice = Advice()
        self.selection = args.selection()
        by_all = vars(self).get("aux_loss_enabled") or vars(self).get("use_liger_kernel")
        if (
            args.skip_zero_advantage and by_all
        ):  # a mixture of experts, or Liger's loss before TRL 1.16
            logger.info(
                "skip_zero_advantage is off: with this model or loss every row has a gradient"
            )
            args.skip_zero_advantage = False
        summed = self.multi_objective_aggregation == "sum_then_normalize"
        self._spares = args.skip_zero_advantage and summed
        if args.prompt_selection != UNIFORM:
            self.prompts = PromptChooser(args.prompt_selection, self.train_dataset, args.seed)
        name = getattr(self.accelerator.unwrap_model(self.model).config, "_name_or_path", "")
        self.recorder = RunRecorder(args, name, self.reward_func_names)
        for callback in (self.recorder, self.clock, StepCallback(self)):
            self.add_callback(callback)
        if args.push_to_hub and args.rollout_log and self.accelerator.is_main_process:
            logger.info("push_to_hub uploads every rollout, too; rollout_log=False writes none")

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's method on its own rows; with environments, which it resets first, on n of each."""
        if not self.model.training:
            output = super()._generate_and_score_completions(inputs)
            self.model.eval()  # TRL's continuous batching leaves it in training mode
            return output
        began = self.clock.now()
        groups = len(inputs) * self.accelerator.num_processes // self.num_generations
        if self.prompts is not None:
            first = self.accelerator.process_index * len(inputs)
            places = range(first, first + len(inputs))
            inputs = self.prompts.rows(groups, places, self.num_generations)
        if self.environment_factories is not None:  # an environment may change its own row
            inputs = [row for row, _ in self._n_of_each([(row, None) for row in inputs])]
        self._asked = _Asked(inputs, groups, began)
        try:
            with swapped(self, log_multimodal=self.log_multimodal):
                output = super()._generate_and_score_completions(inputs)
            with self.clock.phase("select"):
                self._finish(output)
                if self.args.skip_zero_advantage:
                    parts = self.args.steps_per_generation or 1
                    output = without_zero_advantage_rows(output, parts, self.loss_type)
        finally:
            self._asked = self._kept = None
        return output

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        """Generate and score n rollouts of each prompt; return as many rows as TRL goes on with.

        TRL logs `prompts`, and prepares images with them, after this: they become the kept rows'.
        """
        asked = self._asked
        if asked is None:  # an evaluation
            return super()._generate(prompts)
        self.clock.spent["generate"] += self.clock.now() - asked.began  # TRL reset environments
        if self.environment_factories is not None:
            rows, expanded = asked.rows, prompts
        else:
            pairs = self._n_of_each(list(zip(asked.rows, prompts, strict=True)))
            rows, expanded = map(list, zip(*pairs, strict=True))
        in_dataset = dataset_images(asked.rows) is not None
        rollouts = self._generate_rollouts(asked.groups, rows, expanded)
        with self.clock.phase("select"):
            self._kept = kept = self._select(rollouts)
            self._pending_extra_logs.update(kept.extra_logs())
            prompts[:] = kept.columns["prompt"] or ()
            if self.environment_factories is not None:
                keep_environments(self, kept, rows)
            if kept.some_ranks_lack_images:  # TRL's log of images would wait for all ranks
                self.log_multimodal = False
            return kept.generated(in_dataset)

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        """The kept rollouts' rewards, already known; TRL's own method in evaluation."""
        if self._kept is None:
            return super()._calculate_rewards(inputs, prompts, completions, ids)
        return self._kept.of.rewards_P_N_F[self._kept.kept_P_N]

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """TRL's; before the update not of rows that will be left out of it, whose values are 0."""
        method, kept = super()._get_per_token_logps_and_entropies, self._kept
        images = kept and (kept.of.columns["images"] or kept.of.columns["tool_images"])
        if kept is None or images or self.use_vllm or not self._spares:
            return method(model, *args, **kwargs)  # vLLM's own are compared with these
        fills_K = kept.advantages(self.selection.baseline, str(self.scale_rewards))[kept.share] == 0
        passed, rows = rows_to_pass(fills_K), len(fills_K)
        found = method(model, *(v[passed] if torch.is_tensor(v) else v for v in args), **kwargs)
        for_all = [(v if v is None else v.new_zeros(rows, *v.shape[1:]), v) for v in found]
        return [zeros if zeros is None else zeros.index_copy(0, passed, v) for zeros, v in for_all]

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """TRL's; 0 without a pass where no row has a gradient, but where gradients are joined."""
        spared = (
            self.args.skip_zero_advantage and model.training and not self.accelerator.sync_gradients
        )
        if spared and not (self.is_deepspeed_enabled or self.is_fsdp_enabled):
            taught_K = (inputs["advantages"] != 0) & inputs["completion_mask"].bool().any(dim=1)
            if not gather(taught_K.any()).any():
                return torch.zeros((), device=taught_K.device, requires_grad=True)
        rows = len(inputs["advantages"]) * self.accelerator.num_processes
        self.rows_passed += model.training * rows
        return super().compute_loss(model, inputs, *args, **kwargs)

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        """TRL's, from a whole checkpoint; then the run's folder says that it is complete."""
        if resume_from_checkpoint is True:  # of a kill while saving the newest is not whole
            resume_from_checkpoint = str(last_complete(str(self.args.output_dir)) or "") or True
        vars(self).update(dict.fromkeys((*TOTALS, "generations_of_step", "_step"), 0))  # of before
        self._pending_extra_logs.clear()
        self.clock.training_seconds = 0.0
        try:
            output = super().train(resume_from_checkpoint, *args, **kwargs)
            self.write_prompts()
            self.recorder.finish(self.state.global_step, self.clock.training_seconds)
            return output
        finally:
            self.recorder.run.unlock()

    def _n_of_each(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Of rows and prompts, m of each as in TRL: this rank's share of n of each."""
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        m, n = self.num_generations, self.selection.num_rollouts
        first = -rank * len(pairs) % m  # of a prompt, among the rows of this rank
        pairs_P = gather_object(pairs[first::m])
        last = len(pairs_P) * n - 1
        places = share_of_rows(last + 1, rank, world)
        return [own_copy(*pairs_P[min(place, last) // n]) for place in places]

    def _generate_rollouts(self, groups: int, rows: list[Any], prompts: list[Any]) -> Rollouts:
        """TRL generates and scores these rows; those of all ranks are gathered."""
        for_engine: dict[str, Any] = {"num_generations": self.selection.num_rollouts}
        if self.tools and self.environment_factories is None:  # every row has the same ones
            for name in ("_sync_tool_dicts", "_async_tool_dicts"):
                for_engine[name] = [getattr(self, name)[0]] * len(rows)
        with self.clock.phase("generate"), swapped(self, **for_engine):
            columns = columns_of(rows, prompts, super()._generate(prompts))
        with self.clock.phase("score"):
            completions, ids = columns["completion"], columns["completion_ids"]
            rewards_R_F = super()._calculate_rewards(rows, prompts, completions, ids)
            check_rewards(rewards_R_F, self.reward_func_names, self._next_step())
        with self.clock.phase("select"):
            if self.environment_factories is not None:
                columns["environment"] = self._batch_environments
            columns |= take_extra_logs(self._pending_extra_logs, len(rows))
            return self._gathered(groups, columns, rewards_R_F)

    def _gathered(self, groups: int, columns: Columns, rewards_R_F: torch.Tensor) -> Rollouts:
        n = self.selection.num_rollouts
        columns = gather_rows(columns, groups * n)  # without the padding of the last ranks
        rewards_P_N_F = rewards_R_F[: groups * n].view(groups, n, -1)
        rewards_P_N = weighted_sums(rewards_P_N_F, self.reward_weights)
        weights_F = self.args.selection_weights or self.reward_weights.tolist()
        masked_P_N = torch.zeros_like(rewards_P_N, dtype=torch.bool)
        if self.mask_truncated_completions:
            ends = {self._tokenizer.eos_token_id, self._tokenizer.pad_token_id}
            ends |= {*getattr(self, "eos_token_ids", ())}  # not before TRL 1.16
            cut = [bool(ids) and ids[-1] not in ends for ids in columns["completion_ids"] or ()]
            masked_P_N.view(-1)[:] = torch.tensor(cut)
        return Rollouts(
            step=self.state.global_step,
            index=self.generations_of_step,
            columns=columns,
            rewards_P_N_F=rewards_P_N_F,
            rewards_P_N=rewards_P_N,
            weights_F=torch.tensor(weights_F, device=rewards_P_N.device),
            rewarded_F=self.reward_weights,
            masked_P_N=masked_P_N,
        )

    def _select(self, rollouts: Rollouts) -> Kept:
        """Which rollouts of all groups are kept; the same on every rank."""
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        if self.rollouts_generated == 0 and rank == 0:
            groups = len(rollouts.rewards_P_N)
            what = f"selected {self.selection.in_words} in {groups} groups"
            logger.info(f"{what}; the update sees {groups * self.num_generations} rows")
        scores_P_N = rollouts.scores().cpu().double().numpy()
        kept = [self.selection.select(scores_P_N, rollouts.step, rollouts.index)]
        if world > 1:  # a rule of the user's may draw other random numbers on each rank
            broadcast_object_list(kept)
        kept_P_N = torch.zeros(scores_P_N.shape, dtype=torch.bool)
        for kept_N, places in zip(kept_P_N, kept[0], strict=True):
            kept_N[places] = True
        return Kept(rollouts, kept_P_N.to(rollouts.rewards_P_N.device), rank, world)

    def _finish(self, output: dict[str, Any]) -> None:
        """After TRL's method: advantages, metrics over all n, the rollout log."""
        kept = self._kept
        if kept is None or len(output["advantages"]) != len(output["prompt_ids"]):
            raise UnsupportedError(
                "this version of TRL does not take the kept rows from _generate; podsrl was tested"
                " with trl>=1.9,<1.17"
            )
        whole = self.selection.num_rollouts == self.selection.num_kept
        # not TRL's: in float32 the mean of 8 rewards of 0.1 is another number, and no row a filler
        if self._spares or (not whole and self.multi_objective_aggregation == "sum_then_normalize"):
            advantages_K = kept.advantages(self.selection.baseline, str(self.scale_rewards))
            output["advantages"] = advantages_K[kept.share]
            self._logs["advantages"].extend(advantages_K.tolist())
        else:
            advantages_K = self.accelerator.gather(output["advantages"])
        logged = self._metrics["train"]
        if not whole:  # with n = m every value stays TRL's own
            for name, value in trl_metrics(kept.of, self.reward_func_names).items():
                logged[name][-1] = value
        found = pods_metrics(kept, advantages_K, self.reward_func_names, self.selection.baseline)
        if "importance_sampling_ratio" in output:  # of vLLM's log-probs
            found["pods/masked_rows"] = float(self.accelerator.gather(masked_rows(output)).sum())
        if self.prompts is not None:
            found |= self.prompts.count(kept.of.compared())
        for name, value in found.items():
            logged[name].append(value)
        if self.accelerator.is_main_process:
            self.advice.look(kept.of, () if whole else self.reward_func_names, found)
        self.batch_is_scored = not bool(torch.isnan(kept.of.rewards_P_N).all())
        self.generations_of_step += 1
        self.rollouts_generated += kept.kept_P_N.numel()
        self.rollouts_trained += len(kept.places)
        self.tokens_generated += int(kept.of.tokens.sum())
        self.recorder.record(kept, advantages_K, self._tokenizer)

    def _next_step(self) -> int:
        """The optimiser step that is being generated for, from 1."""
        return int(self.state.global_step) + 1
