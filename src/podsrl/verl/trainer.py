"""verl's v1 trainers with rows dropped between the rewards and everything that costs memory.

Nothing of verl is copied: its methods are wrapped. What they rely on is pinned by
tests/verl/test_verl_contract.py.
"""

import logging
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.v1 import (
    PPOTrainer,
    PPOTrainerColocateAsync,
    PPOTrainerSeparateAsync,
    PPOTrainerSync,
    register_trainer,
)

from podsrl.drives import DriveWatch, FittedWeights
from podsrl.errors import UnsupportedError
from podsrl.selection import kept_in_words
from podsrl.verl.groups import (
    Group,
    advantages_of,
    group_rows,
    metrics_of_parts,
    parse_key,
    parts_of,
    select,
)
from podsrl.verl.metrics import all_rollout_metrics, selection_metrics, summarise_rows
from podsrl.verl.rounds import in_rounds
from podsrl.verl.settings import read_options

logger = logging.getLogger(__name__)
logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))  # verl leaves the root logger at WARNING

_EPS = 1e-6  # of verl's compute_grpo_outcome_advantage


@dataclass
class _Selected:
    """What was sampled for one mini-batch and selected; a step of `separate_async` has several.

    Attributes:
        groups: with their kept rollouts.
        rewards, turns: of all n rollouts' rows.
        tags: of all n rollouts' rows, by verl's keys.
        kept_keys: rows of the kept rollouts.
        seconds: of the selection.
        padding: rows that verl added.
    """

    groups: list[Group]
    rewards: list[float]
    turns: list[int]
    tags: dict[str, dict]
    kept_keys: set[str]
    seconds: float = 0.0
    padding: int = 0


class _DownSampling(PPOTrainer):
    """Leaves m of the n rollouts of each prompt when verl balances the batch."""

    pods_mode: ClassVar[str]  # our name, and our section under trainer.v1

    def __init__(self, config: Any) -> None:
        self.pods_options = read_options(config, self.pods_mode)
        if self.pods_options.rollouts_per_round is not None:
            in_rounds(config, self.pods_mode)
        # verl chooses the replay buffer and more by comparing this name with "sync".
        config.trainer.v1.trainer_mode = self.pods_mode.removeprefix("pods_")
        super().__init__(config)
        self._pods_step: list[_Selected] = []  # of the step so far; the last one is being trained
        self._pods_dumping = False
        self._pods_dumped: list[tuple[Any, ...]] = []  # of the step so far
        self._pods_logged = False
        self._pods_fit = FittedWeights()
        self._pods_weights: dict[str, float] | None = None  # in the reward, as far as is known
        self._pods_watch = DriveWatch((), ())

    def _balance_batch(self, batch: Any, metrics: dict, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        kept = self._pods_drop_rows(batch, metrics)
        selected = self._pods_step[-1]
        selected.seconds = metrics["pods/seconds_select"] = time.perf_counter() - start
        with self._pods_update_sees_m():
            balanced = super()._balance_batch(kept, metrics, *args, **kwargs)
        padding = len(balanced) - len(kept)
        selected.padding = metrics["pods/padding_rows"] = padding
        if not self._pods_logged:
            self._pods_logged = True
            logger.info(self._pods_first_step(len(kept), padding))
        return balanced

    def _compute_advantage(self, batch: Any, metrics: dict) -> Any:
        with self._pods_update_sees_m():
            batch = super()._compute_advantage(batch, metrics)
        advantages = self._pods_advantages()
        if advantages:
            self._pods_overwrite(advantages, batch.partition_id)
        return batch

    def _update_critic(self, batch: Any, metrics: dict) -> Any:
        with self._pods_update_sees_m():
            return super()._update_critic(batch, metrics)

    def _update_actor(self, batch: Any, metrics: dict) -> Any:
        with self._pods_update_sees_m():
            return super()._update_actor(batch, metrics)

    def _compute_metrics(
        self, batch: Any, metrics: dict, timing_raw: dict, *args: Any, **kwargs: Any
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, *args, **kwargs)
        step, self._pods_step = self._pods_step, []
        if len(step) > 1:  # verl has averaged what each of them reported
            metrics.update(self._pods_metrics(step))
            metrics["pods/seconds_select"] = sum(one.seconds for one in step)
            metrics["pods/padding_rows"] = sum(one.padding for one in step)
        n = self.config.actor_rollout_ref.rollout.n
        first = self.pods_options.rollouts_per_round or n  # later rounds are of the harder prompts
        rows = [
            (reward, tag, turns)
            for one in step
            for (key, tag), reward, turns in zip(
                one.tags.items(), one.rewards, one.turns, strict=True
            )
            if parse_key(key)[1] < first
        ]
        kl_in_reward = bool(self.config.algorithm.use_kl_in_reward)
        summary = summarise_rows(*zip(*rows, strict=True))
        metrics.update(all_rollout_metrics(summary, timing_raw, kl_in_reward))

    def _log_rollout_data(self, batch: Any, timing_raw: dict, rollout_data_dir: str) -> None:
        """verl asks when dropped rows are gone; all n were written when they were selected."""

    def _dump_generations(
        self,
        inputs: list,
        outputs: list,
        gts: list,
        scores: list,
        reward_extra_infos_dict: dict[str, list],
        dump_path: str,
    ) -> None:
        if not self._pods_dumping:
            super()._dump_generations(
                inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path
            )
            return
        kept_keys = self._pods_step[-1].kept_keys
        kept = [key in kept_keys for key in reward_extra_infos_dict["uid"]]
        extra = {**reward_extra_infos_dict, "kept": kept}
        self._pods_dumped.append((inputs, outputs, gts, scores, extra))
        if self.local_trigger_step + 1 < self.parameter_sync_step:
            return  # verl writes one file per step
        dumped, self._pods_dumped = self._pods_dumped, []
        lists = [[value for one in dumped for value in one[i]] for i in range(4)]
        together = {name: [value for one in dumped for value in one[4][name]] for name in extra}
        super()._dump_generations(*lists, together, dump_path)

    @contextmanager
    def _pods_update_sees_m(self) -> Iterator[None]:
        """verl sizes mini-batches by rollout.n and pads a batch that is no multiple of them."""
        rollout = self.config.actor_rollout_ref.rollout
        n, rollout.n = rollout.n, self.pods_options.m
        try:
            yield
        finally:
            rollout.n = n

    def _pods_drop_rows(self, batch: Any, metrics: dict) -> Any:
        """The batch without the rows that the rule drops, which the TransferQueue forgets."""
        options = self.pods_options
        names = ["rm_scores", "num_turns", "extra_fields"]
        if options.seed is not None:
            names.append("index")
        data = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=names
        )
        parts = _parts(data)
        rewards = _rewards(data, parts)
        order = None
        if options.seed is not None:
            indices = zip(batch.keys, list(data["index"]), strict=True)
            order = {parse_key(key)[0]: index for key, index in indices}
        groups = group_rows(batch.keys, rewards, parts)
        turn = self.global_steps * self.parameter_sync_step + self.local_trigger_step
        groups = select(groups, options, turn, order)
        kept_keys = set().union(*(group.kept_keys for group in groups))
        selected = _Selected(
            groups=groups, rewards=rewards, turns=list(data["num_turns"]), kept_keys=kept_keys,
            tags=dict(zip(batch.keys, batch.tags, strict=True)),
        )  # fmt: skip
        if self.local_trigger_step == 0:
            self._pods_step = []
        self._pods_step.append(selected)
        self._pods_weigh(groups)
        metrics.update(self._pods_metrics([selected]))
        self._pods_warn(metrics)
        if self.config.trainer.get("rollout_data_dir", None):
            self._pods_dump(batch)

        kept = batch.select_keys([key for key in batch.keys if key in kept_keys])
        dropped = [key for key in batch.keys if key not in kept_keys]
        if dropped:
            tq.kv_clear(keys=dropped, partition_id=batch.partition_id)
        return kept

    def _pods_weigh(self, groups: list[Group]) -> None:
        """Learn what each number of the reward function's dictionary weighs in the reward."""
        self._pods_weights = None
        names, parts_P_N_F = parts_of(groups)
        if not names:
            return
        rewards_P_N = np.full(parts_P_N_F.shape[:2], np.nan)
        for rewards_N, group in zip(rewards_P_N, groups, strict=True):
            rewards_N[: len(group.rewards_N)] = group.rewards_N
        flat_R_F = parts_P_N_F.reshape(-1, len(names))
        weights = self._pods_fit.observe(names, flat_R_F, rewards_P_N.reshape(-1))
        if weights is not None:
            self._pods_weights = dict(zip(names, weights, strict=True))

    def _pods_metrics(self, step: list[_Selected]) -> dict[str, float]:
        groups = [group for one in step for group in one.groups]
        tags = {key: tag for one in step for key, tag in one.tags.items()}
        scale = bool(self.config.algorithm.get("norm_adv_by_std_in_grpo", True))
        options, weights = self.pods_options, self._pods_weights
        parts = metrics_of_parts(groups, options, scale, _EPS, weights)
        most = self.config.actor_rollout_ref.rollout.n * len(groups)
        saved = 1 - sum(len(group.sessions) for group in groups) / most
        return {
            **selection_metrics(groups, tags, options), **parts, "pods/rollouts_saved": saved
        }  # fmt: skip

    def _pods_warn(self, metrics: dict) -> None:
        weights = self._pods_weights
        if weights is None:
            return
        if self._pods_watch.names != list(weights):
            self._pods_watch = DriveWatch(list(weights), list(weights.values()))
        self._pods_watch.weigh(list(weights.values()))
        driven = {name: metrics[f"pods/drives/{name}"] for name in weights}
        warning = self._pods_watch.observe([driven[n] if w else 0.0 for n, w in weights.items()])
        if warning is not None:
            logger.warning(warning)

    def _pods_dump(self, batch: Any) -> None:
        self._pods_dumping = True
        try:
            super()._log_rollout_data(batch, self.timing_raw, self.config.trainer.rollout_data_dir)
        finally:
            self._pods_dumping = False

    def _pods_advantages(self) -> dict[str, float]:
        """Advantages by row where verl's own are not the ones asked for.

        With baseline="kept" those are the groups with a kept rollout that could not be scored (it
        has advantage 0 and counts in no mean; verl would make the whole group NaN), and those of
        which one was kept (GRPO in verl would take its reward for advantage).
        """
        algorithm = self.config.algorithm
        baseline = self.pods_options.baseline
        every = groups = self._pods_step[-1].groups
        if baseline == "kept":
            groups = [group for group in every if (group.kept_rewards != group.kept_rewards).any()]
            grpo = algorithm.adv_estimator == "grpo"
            single = [group for group in every if grpo and len(group.kept) == 1]
            if groups and not grpo:
                raise UnsupportedError(
                    f"{len(groups)} groups have fewer than m = {self.pods_options.m} rollouts that"
                    " could be scored (the reward function returned NaN); only"
                    " algorithm.adv_estimator=grpo can train on the others, got"
                    f" {algorithm.adv_estimator}. Let the reward function return a number"
                )
            groups = groups + single
        scale = bool(algorithm.get("norm_adv_by_std_in_grpo", True))
        advantages: dict[str, float] = {}
        for group in groups:
            advantages |= advantages_of(group, baseline, scale, _EPS)
        return advantages

    def _pods_overwrite(self, advantages: dict[str, float], partition_id: str) -> None:
        keys = list(advantages)
        data = tq.kv_batch_get(
            keys=keys, partition_id=partition_id, select_fields=["response_mask"]
        )
        rows = torch.nested.as_nested_tensor(
            [
                mask.float() * advantages[key]
                for key, mask in zip(keys, data["response_mask"].unbind(), strict=True)
            ],
            layout=torch.jagged,
        )
        fields = TensorDict({"advantages": rows, "returns": rows.clone()}, batch_size=len(keys))
        tq.kv_batch_put(keys=keys, partition_id=partition_id, fields=fields)

    def _pods_first_step(self, rows: int, padding: int) -> str:
        n = self.config.actor_rollout_ref.rollout.n
        groups = self._pods_step[-1].groups
        short = sum(len(group.sessions) < self.pods_options.m for group in groups)
        kept = kept_in_words(self.pods_options.m, n, self.pods_options.scope)
        return (
            f"{self.pods_mode}: selected {kept} in {len(groups)} groups"
            + (f" ({short} had fewer and kept all)" if short else "")
            + f"; the update sees {rows} rows"
            + (f" and {padding} rows of verl's padding" if padding else "")
        )


def _parts(data: TensorDict) -> list[dict[str, Any]]:
    """What the reward function gave for each row beside the reward."""
    parts: list[dict[str, Any]] = [{} for _ in data["rm_scores"].unbind()]
    for i, fields in enumerate(data.get("extra_fields", ())):
        fields = getattr(fields, "data", fields)
        parts[i] = dict((fields or {}).get("reward_extra_info") or {})
    return parts


def _rewards(data: TensorDict, parts: list[dict[str, Any]]) -> list[float]:
    """Reward of each row; NaN too if the reward function returned {"unscorable": 1, ...}."""
    rewards = [row.sum().item() for row in data["rm_scores"].unbind()]
    return [
        math.nan if part.get("unscorable") else reward
        for reward, part in zip(rewards, parts, strict=True)
    ]


@register_trainer("pods_sync")
class PODSTrainerSync(_DownSampling, PPOTrainerSync):
    """verl's `sync` trainer on m of n rollouts."""

    pods_mode = "pods_sync"


@register_trainer("pods_separate_async")
class PODSTrainerSeparateAsync(_DownSampling, PPOTrainerSeparateAsync):
    """verl's `separate_async` trainer on m of n rollouts.

    Its replay buffer hands out complete groups that are fresh enough; those are selected from.
    """

    pods_mode = "pods_separate_async"


@register_trainer("pods_colocate_async")
class PODSTrainerColocateAsync(_DownSampling, PPOTrainerColocateAsync):
    """verl's `colocate_async` trainer on m of n rollouts."""

    pods_mode = "pods_colocate_async"
