"""verl's v1 trainers with rows dropped between the rewards and everything that costs memory.

Nothing of verl is copied: its methods are wrapped. What they rely on is pinned by
tests/host_verl/test_verl_contract.py.
"""

import logging
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.v1 import (
    PPOTrainer,
    PPOTrainerColocateAsync,
    PPOTrainerSync,
    register_trainer,
)

from podsrl.errors import UnsupportedError
from podsrl.verl.groups import (
    Group,
    advantages_of,
    group_rows,
    metrics_of_parts,
    parse_key,
    select,
)
from podsrl.verl.metrics import all_rollout_metrics, selection_metrics, summarise_rows
from podsrl.verl.settings import read_options

logger = logging.getLogger(__name__)
logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))  # verl leaves the root logger at WARNING

_EPS = 1e-6  # of verl's compute_grpo_outcome_advantage


class _DownSampling(PPOTrainer):
    """Leaves m of the n rollouts of each prompt when verl balances the batch."""

    pods_mode: ClassVar[str]  # our name, and our section under trainer.v1
    host_mode: ClassVar[str]  # the mode of verl that we are

    def __init__(self, config: Any) -> None:
        self.pods_options = read_options(config, self.pods_mode)
        # verl chooses the replay buffer and more by comparing this name with "sync".
        config.trainer.v1.trainer_mode = self.host_mode
        super().__init__(config)
        self._pods_groups: list[Group] = []
        self._pods_all_rows: Any = None
        self._pods_dumping: set[str] | None = None
        self._pods_logged = False

    def _balance_batch(self, batch: Any, metrics: dict, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        kept = self._pods_drop_rows(batch, metrics)
        metrics["pods/seconds_select"] = time.perf_counter() - start
        with self._pods_update_sees_m():
            balanced = super()._balance_batch(kept, metrics, *args, **kwargs)
        padding = len(balanced) - len(kept)
        metrics["pods/padding_rows"] = padding
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
        kl_in_reward = bool(self.config.algorithm.use_kl_in_reward)
        metrics.update(all_rollout_metrics(self._pods_all_rows, timing_raw, kl_in_reward))

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
        if self._pods_dumping is not None:
            kept = [key in self._pods_dumping for key in reward_extra_infos_dict["uid"]]
            reward_extra_infos_dict = {**reward_extra_infos_dict, "kept": kept}
        super()._dump_generations(inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path)

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
        groups = select(groups, options, self.global_steps, order)
        kept_keys = set().union(*(group.kept_keys for group in groups))

        self._pods_groups = groups
        self._pods_all_rows = summarise_rows(rewards, batch.tags, list(data["num_turns"]))
        tags = dict(zip(batch.keys, batch.tags, strict=True))
        metrics.update(selection_metrics(groups, tags, options))
        scale = bool(self.config.algorithm.get("norm_adv_by_std_in_grpo", True))
        metrics.update(metrics_of_parts(groups, options, scale, _EPS))
        if self.config.trainer.get("rollout_data_dir", None):
            self._pods_dump(batch, kept_keys)

        kept = batch.select_keys([key for key in batch.keys if key in kept_keys])
        dropped = [key for key in batch.keys if key not in kept_keys]
        if dropped:
            tq.kv_clear(keys=dropped, partition_id=batch.partition_id)
        return kept

    def _pods_dump(self, batch: Any, kept_keys: set[str]) -> None:
        self._pods_dumping = kept_keys
        try:
            super()._log_rollout_data(batch, self.timing_raw, self.config.trainer.rollout_data_dir)
        finally:
            self._pods_dumping = None

    def _pods_advantages(self) -> dict[str, float]:
        """Advantages by row where verl's own are not the ones asked for.

        With baseline="kept" those are the groups with a kept rollout that could not be scored (it
        has advantage 0 and counts in no mean; verl would make the whole group NaN), and with
        scope="batch" also those of which one was kept (verl would take its reward for advantage).
        """
        algorithm = self.config.algorithm
        baseline = self.pods_options.baseline
        groups = self._pods_groups
        if baseline == "kept":
            groups = [group for group in groups if (group.kept_rewards != group.kept_rewards).any()]
            single = [group for group in self._pods_groups if self._pods_is_single(group)]
            if groups and algorithm.adv_estimator != "grpo":
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

    def _pods_is_single(self, group: Group) -> bool:
        return self.pods_options.scope == "batch" and len(group.kept) == 1

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
        groups = self._pods_groups
        short = sum(len(group.sessions) < self.pods_options.m for group in groups)
        across = " on average" if self.pods_options.scope == "batch" else ""
        return (
            f"{self.pods_mode}: selected {self.pods_options.m} of {n}{across} in"
            f" {len(groups)} groups"
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
    host_mode = "sync"


@register_trainer("pods_colocate_async")
class PODSTrainerColocateAsync(_DownSampling, PPOTrainerColocateAsync):
    """verl's `colocate_async` trainer on m of n rollouts."""

    pods_mode = "pods_colocate_async"
    host_mode = "colocate_async"
