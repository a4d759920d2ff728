"""verl's v1 trainers with rows dropped between the rewards and everything that costs memory.

What they rely on is pinned by tests/host_verl/test_verl_contract.py.
"""

import logging
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo import v1

from podsrl.errors import UnsupportedError
from podsrl.methods import method_of
from podsrl.verl import groups as by_prompt
from podsrl.verl.groups import Group, Row
from podsrl.verl.metrics import all_rollout_metrics

logger = logging.getLogger(__name__)
logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))  # verl leaves the root logger at WARNING


@dataclass(frozen=True)
class _MiniBatch:
    """What was sampled for one update and selected; a step of `separate_async` has several."""

    groups: list[Group]
    seconds: float  # that the selection took
    padding: int  # rows that verl added


class _DownSampling(v1.PPOTrainer):
    """Leaves m of the n rollouts of each prompt when verl balances the batch."""

    pods_mode: ClassVar[str]  # our name, and our section under trainer.v1

    def __init__(self, config: Any) -> None:
        self.pods_selection = by_prompt.read_selection(config, self.pods_mode)
        # verl chooses the replay buffer and more by comparing this name with "sync".
        config.trainer.v1.trainer_mode = self.pods_mode.removeprefix("pods_")
        super().__init__(config)
        self._pods_step: list[_MiniBatch] = []  # of the step so far; the last one is being trained
        self._pods_to_mark: set[str] | None = None  # kept rows, while ours are being written
        self._pods_dumped: dict[str, list] = {}  # of the step so far
        self._pods_announced = False
        self._pods_scale = bool(config.algorithm.get("norm_adv_by_std_in_grpo", True))

    def _balance_batch(self, batch: Any, metrics: dict, *args: Any, **kwargs: Any) -> Any:
        """verl's, on the kept rows: the first thing that it does once the rewards are there."""
        start = time.perf_counter()
        groups = self._pods_select(batch)
        kept = self._pods_drop_rows(batch, by_prompt.kept_keys(groups))
        seconds = time.perf_counter() - start

        with self._pods_update_sees_m():
            balanced = super()._balance_batch(kept, metrics, *args, **kwargs)

        if self.local_trigger_step == 0:
            self._pods_step = []
        padding = len(balanced) - len(kept)
        self._pods_step.append(_MiniBatch(groups, seconds, padding))
        metrics.update(self._pods_metrics(self._pods_step[-1:]))
        self._pods_announce(len(groups), len(kept))
        return balanced

    def _pods_announce(self, groups: int, rows: int) -> None:
        """Say once what is selected."""
        if not self._pods_announced:
            self._pods_announced = True
            method = method_of(self.pods_selection)
            what = f"{self.pods_selection.in_words} in {groups} groups"
            logger.info(
                f"{self.pods_mode}: method {method}: selected {what}; the update sees {rows} rows"
            )

    def _compute_advantage(self, batch: Any, metrics: dict) -> Any:
        with self._pods_update_sees_m():
            batch = super()._compute_advantage(batch, metrics)
        if groups := self._pods_groups_of_ours():
            baseline = self.pods_selection.baseline
            advantages = by_prompt.advantages_of_rows(groups, baseline, self._pods_scale)
            self._pods_overwrite(advantages, batch.partition_id)
        return batch

    def _update_critic(self, batch: Any, metrics: dict) -> Any:
        with self._pods_update_sees_m():
            return super()._update_critic(batch, metrics)

    def _update_actor(self, batch: Any, metrics: dict) -> Any:
        with self._pods_update_sees_m():
            return super()._update_actor(batch, metrics)

    def _compute_metrics(self, batch: Any, metrics: dict, timing_raw: dict, **more: Any) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, **more)

        step, self._pods_step = self._pods_step, []
        if len(step) > 1:  # verl has averaged what each mini-batch reported
            metrics.update(self._pods_metrics(step))

        rows = [
            row
            for mini_batch in step
            for group in mini_batch.groups
            for rollout in group
            for row in rollout.rows
        ]
        kl_in_reward = bool(self.config.algorithm.use_kl_in_reward)
        metrics.update(all_rollout_metrics(rows, timing_raw, kl_in_reward))

    def _log_rollout_data(self, batch: Any, timing_raw: dict, rollout_data_dir: str) -> None:
        """verl asks when dropped rows are gone; all n were written when they were selected."""

    def _dump_generations(self, dump_path: str, **lists: Any) -> None:
        """verl's; the file of a step has all n rollouts, and says which were kept."""
        if self._pods_to_mark is not None:  # else these are verl's validation
            uids = lists.pop("reward_extra_infos_dict")["uid"]
            lists["uid"] = uids
            lists["kept"] = [key in self._pods_to_mark for key in uids]

            # verl writes one file per step, which may have several mini-batches.
            lists = {name: self._pods_dumped.get(name, []) + lists[name] for name in lists}
            if self.local_trigger_step + 1 < self.parameter_sync_step:
                self._pods_dumped = dict(lists)
                return
            self._pods_dumped = {}
            lists["reward_extra_infos_dict"] = {name: lists.pop(name) for name in ("uid", "kept")}
        super()._dump_generations(dump_path=dump_path, **lists)

    @contextmanager
    def _pods_update_sees_m(self) -> Iterator[None]:
        """verl sizes mini-batches by rollout.n and pads a batch that is no multiple of them."""
        rollout = self.config.actor_rollout_ref.rollout
        n = rollout.n
        rollout.n = self.pods_selection.num_kept
        try:
            yield
        finally:
            rollout.n = n

    def _pods_select(self, batch: Any) -> list[Group]:
        """The rollouts of the batch, marked where the update shall see them."""
        is_seeded = self.pods_selection.seed is not None
        fields = ["rm_scores", "num_turns", "extra_fields"]
        if is_seeded:
            fields.append("index")
        data = tq.kv_batch_get(batch.keys, partition_id=batch.partition_id, select_fields=fields)

        order = None
        if is_seeded:  # uids are drawn anew in every run, the dataset's numbers are not
            order = {
                by_prompt.parse_key(key)[0]: number
                for key, number in zip(batch.keys, list(data["index"]), strict=True)
            }
        groups = by_prompt.group_rows(_rows(batch, data), order)
        turn = self.global_steps * self.parameter_sync_step + self.local_trigger_step
        return by_prompt.select(groups, self.pods_selection, turn)

    def _pods_drop_rows(self, batch: Any, keys: set[str]) -> Any:
        """The batch with these rows only; the others are written, and the TransferQueue forgets."""
        if folder := self.config.trainer.get("rollout_data_dir", None):
            self._pods_to_mark = keys
            super()._log_rollout_data(batch, self.timing_raw, folder)
            self._pods_to_mark = None

        if dropped := [key for key in batch.keys if key not in keys]:
            tq.kv_clear(keys=dropped, partition_id=batch.partition_id)
        return batch.select_keys([key for key in batch.keys if key in keys])

    def _pods_metrics(self, step: list[_MiniBatch]) -> dict[str, float]:
        groups = [group for mini_batch in step for group in mini_batch.groups]
        return {
            **by_prompt.metrics_of(groups, self.pods_selection.baseline, self._pods_scale),
            "pods/seconds_select": sum(mini_batch.seconds for mini_batch in step),
            "pods/padding_rows": sum(mini_batch.padding for mini_batch in step),
        }

    def _pods_groups_of_ours(self) -> list[Group]:
        """The groups whose advantages verl does not compute as asked for.

        With baseline="kept" those are groups with a kept rollout that could not be scored, which
        verl would make NaN, and those of one kept rollout, whose reward GRPO would take.
        """
        groups = self._pods_step[-1].groups
        if not self.pods_selection.advantages_sum_to_zero:
            return groups
        kept_rewards = [[rollout.reward for rollout in group if rollout.kept] for group in groups]
        keeps_unscored = [any(map(math.isnan, rewards)) for rewards in kept_rewards]
        estimator = self.config.algorithm.adv_estimator
        if estimator != "grpo" and any(keeps_unscored):
            raise UnsupportedError(
                f"fewer rollouts could be scored than are kept of {sum(keeps_unscored)} prompts"
                " (the reward function returned NaN); only algorithm.adv_estimator=grpo can train"
                f" on the others, got {estimator}. Let the reward function return a number"
            )
        keeps_one = [estimator == "grpo" and len(rewards) == 1 for rewards in kept_rewards]
        return [
            group
            for group, unscored, alone in zip(groups, keeps_unscored, keeps_one, strict=True)
            if unscored or alone
        ]

    def _pods_overwrite(self, advantages: dict[str, float], partition_id: str) -> None:
        """Put these advantages, by the keys of rows, in the place of verl's, for every token."""
        where = {"keys": list(advantages), "partition_id": partition_id}
        masks = tq.kv_batch_get(**where, select_fields=["response_mask"])["response_mask"]
        by_token = [
            mask.float() * advantage
            for mask, advantage in zip(masks.unbind(), advantages.values(), strict=True)
        ]
        rows = torch.nested.as_nested_tensor(by_token, layout=torch.jagged)
        fields = {"advantages": rows, "returns": rows.clone()}
        tq.kv_batch_put(**where, fields=TensorDict(fields, batch_size=len(advantages)))


def _rows(batch: Any, data: TensorDict) -> list[Row]:
    """The rows of a batch; unscorable too is one of which the reward function says so."""
    extra_fields = list(data.get("extra_fields", [None] * len(batch.keys)))
    turns = list(data["num_turns"])  # a look into `data` makes a list of all rows: once, not by row
    rows = []
    for i, scores in enumerate(data["rm_scores"].unbind()):
        fields = getattr(extra_fields[i], "data", extra_fields[i])
        parts = dict((fields or {}).get("reward_extra_info") or {})
        row = Row(
            key=batch.keys[i],
            reward=math.nan if parts.get("unscorable") else scores.sum().item(),
            parts=parts,
            turns=int(turns[i]),
            tag=batch.tags[i],
        )
        rows.append(row)
    return rows


@v1.register_trainer("pods_sync")
class PODSTrainerSync(_DownSampling, v1.PPOTrainerSync):
    pods_mode = "pods_sync"


@v1.register_trainer("pods_separate_async")
class PODSTrainerSeparateAsync(_DownSampling, v1.PPOTrainerSeparateAsync):
    pods_mode = "pods_separate_async"


@v1.register_trainer("pods_colocate_async")
class PODSTrainerColocateAsync(_DownSampling, v1.PPOTrainerColocateAsync):
    pods_mode = "pods_colocate_async"
