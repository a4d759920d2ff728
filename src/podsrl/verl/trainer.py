"""verl's v1 trainers with rows dropped between the rewards and everything that costs memory.

What they rely on is pinned by tests/host_verl/test_verl_contract.py.
"""

import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.trainer.ppo import v1
from verl.trainer.ppo.v1.replay_buffer import ReplayBufferAsync
from verl.utils.debug import marked_timer
from verl.utils.seqlen_balancing import (
    calculate_workload,
    get_seqlen_balanced_partitions,
    log_seqlen_unbalance,
)

from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.hosts import first_line
from podsrl.methods import method_of
from podsrl.verl import groups as by_prompt
from podsrl.verl import spare_passes
from podsrl.verl.groups import Row, SelectedGroups
from podsrl.verl.metrics import all_rollout_metrics
from podsrl.verl.spare_passes import KeptRow, Passes

logger = logging.getLogger(__name__)
logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))  # verl leaves the root logger at WARNING

#: Tokens whose values the driver holds at a time: 16 MB of a column of integers, and some copies.
_TOKENS_AT_ONCE = 2 << 20


@dataclass(frozen=True)
class _Update:
    """The samples of one update, and their selection; a step of `separate_async` has several."""

    chosen: SelectedGroups
    seconds: float  # that the selection took, without the writing of rollouts
    lost: int  # rollouts that were asked for and never came
    padding: int  # rows that verl added
    zero_advantage_rows: int  # of the kept ones
    passes: Passes | None  # None: every row has one


class _DownSampling(v1.PPOTrainer):
    """Leaves m of the n rollouts of each prompt when verl balances the batch."""

    pods_mode: ClassVar[str]  # our name, and our section under trainer.v1

    def __init__(self, config: Any) -> None:
        by_prompt.refuse_misplaced_options(OmegaConf.to_container(config, resolve=False))
        self.pods_selection = by_prompt.read_selection(config, self.pods_mode)
        self.pods_sparing = spare_passes.read_sparing(config, self.pods_mode, self.pods_selection)
        spare_passes.refuse_uneven_micro_batches(config, self.pods_selection.num_kept)
        # verl chooses the replay buffer and more by comparing this name with "sync".
        config.trainer.v1.trainer_mode = self.pods_mode.removeprefix("pods_")
        super().__init__(config)
        self._pods_describe(config)
        self._pods_step: list[_Update] = []  # of the step so far; the last one is being trained
        self._pods_to_mark: set[str] | None = None  # kept rows, while ours are being written
        self._pods_dumped: dict[str, list] = {}  # of the step so far
        self._pods_announced = False
        self._pods_scale = bool(config.algorithm.get("norm_adv_by_std_in_grpo", True))

    def _build_replay_buffer(self) -> Any:
        """verl's; the asynchronous one throws away a prompt for one failed rollout, ours does not.

        A group that has at least m rollouts left is as good as any other for the update.
        """
        buffer = super()._build_replay_buffer()
        if type(buffer) is not ReplayBufferAsync:  # the synchronous one keeps such groups itself
            return buffer
        reasons_of_verl = buffer._terminal_eviction_reasons

        def reasons(global_steps: int, partition_id: str) -> Any:
            stale, filtered, failed, counts = reasons_of_verl(global_steps, partition_id)
            sessions: dict[str, set[int]] = {uid: set() for uid in failed}
            for key in buffer.partitions[partition_id]:
                uid, session, _ = by_prompt.parse_key(key)
                if uid in sessions:
                    sessions[uid].add(session)
            m = self.pods_selection.num_kept
            failed = {uid for uid, of_uid in sessions.items() if len(of_uid) < m}
            return stale, filtered, failed, counts

        buffer._terminal_eviction_reasons = reasons
        return buffer

    def _load_checkpoint(self) -> None:
        """verl's, with a warning where it resumes at a step without the weights of that step."""
        super()._load_checkpoint()
        contents = self.config.actor_rollout_ref.actor.checkpoint.load_contents
        if self.global_steps > 0 and "model" not in contents:
            logger.warning(
                "%s: step %d is resumed with the weights of the model as it was before training:"
                " actor.checkpoint.load_contents is %s. Save and load model, optimizer and extra",
                self.pods_mode,
                self.global_steps,
                list(contents),
            )

    def _pods_describe(self, config: Any) -> None:
        """Write into the config, which verl hands to loggers, what this run is."""
        selection = self.pods_selection
        config.trainer.v1.trainer_mode = self.pods_mode
        described = {
            "method": method_of(selection),
            "m": selection.num_kept,
            "rule": selection.rule,
            "baseline": selection.baseline,
            "skip_zero_advantage": self.pods_sparing.is_on,
        }
        if self.parameter_sync_step > 1:  # verl's cache of rollouts looks for it by the mode
            described["parameter_sync_step"] = self.parameter_sync_step
        for name, value in described.items():
            place = f"trainer.v1.{self.pods_mode}.{name}"
            OmegaConf.update(config, place, value, force_add=True)

    def _balance_batch(self, batch: Any, metrics: dict, *args: Any, **kwargs: Any) -> Any:
        """verl's, on the kept rows: the first thing that it does once the rewards are there."""
        timing: dict[str, float] = {}
        with marked_timer("pods_select", timing):
            chosen = self._pods_select(batch)
        seconds = timing["pods_select"]
        self.timing_raw["pods_select"] = self.timing_raw.get("pods_select", 0.0) + seconds
        kept_keys = chosen.kept_keys()
        self._pods_dump(batch, kept_keys)  # verl times it as its own
        with marked_timer("pods_drop", self.timing_raw):
            kept = self._pods_drop_rows(batch, kept_keys)

        with self._pods_update_sees_m():
            balanced = super()._balance_batch(kept, metrics, *args, **kwargs)

        # Counted before passes are spared: padding is the first to go.
        lost = self._pods_count_lost(chosen)
        padding = sum(tag.get("is_padding", False) for tag in balanced.tags)

        passes = None
        if self.pods_sparing.is_on:
            with marked_timer("pods_spare", self.timing_raw):
                balanced, passes = self._pods_spare_passes(balanced, chosen, metrics)

        if self.local_trigger_step == 0:
            self._pods_step = []
        idle = sum(advantage == 0 for advantage in chosen.advantages_of_rows().values())
        self._pods_step.append(_Update(chosen, seconds, lost, padding, idle, passes))
        metrics.update(self._pods_metrics(self._pods_step[-1:]))
        self._pods_announce(len(chosen.groups), len(kept))
        return balanced

    def _pods_count_lost(self, chosen: SelectedGroups) -> int:
        """The number of rollouts that verl asked for and did not get; it warns of them."""
        prompts = self.config.data.train_batch_size // self.parameter_sync_step
        asked = prompts * self.config.actor_rollout_ref.rollout.n
        came = sum(len(group) for group in chosen.groups)
        lost = max(asked - came, 0)
        if lost:
            logger.warning(
                f"{self.pods_mode}: step {self.global_steps} lost {lost} of {asked} rollouts; the"
                " reward function, an agent loop or a worker failed. The error is further up in"
                " the log"
            )
        return lost

    def _pods_announce(self, groups: int, rows: int) -> None:
        """Say once what is selected."""
        if not self._pods_announced:
            self._pods_announced = True
            line = first_line(self.pods_selection, groups, rows)
            logger.info(f"{self.pods_mode}: {line}; {self.pods_sparing.in_words}")

    def _compute_advantage(self, batch: Any, metrics: dict) -> Any:
        with self._pods_update_sees_m():
            batch = super()._compute_advantage(batch, metrics)
        if passes := self._pods_passes():
            self._pods_overwrite(passes.advantages, batch)
        elif places := self._pods_groups_of_ours():
            chosen = self._pods_step[-1].chosen
            self._pods_overwrite(chosen.advantages_of_rows(places), batch)
        if not self._pods_has_our_advantages:
            idle = self._pods_count_idle(batch)
            self._pods_step[-1] = replace(self._pods_step[-1], zero_advantage_rows=idle)
            metrics["pods/zero_advantage_rows"] = idle
        return batch

    @property
    def _pods_has_our_advantages(self) -> bool:
        """Whether verl's advantages are those that were worked out of the rewards beforehand."""
        algorithm = self.config.algorithm
        return algorithm.adv_estimator == "grpo" and not algorithm.use_kl_in_reward

    def _pods_count_idle(self, batch: Any) -> int:
        """The number of kept rows whose advantages in the TransferQueue are 0 at every token."""
        keys = [
            key
            for key, tag in zip(batch.keys, batch.tags, strict=True)
            if not tag.get("is_padding", False)
        ]
        return sum(not row.any() for row in _by_token(batch, keys, "advantages"))

    def _update_critic(self, batch: Any, metrics: dict) -> Any:
        with self._pods_update_sees_m():
            return super()._update_critic(batch, metrics)

    def _update_actor(self, batch: Any, metrics: dict) -> Any:
        passes = self._pods_passes()
        rows = passes.mini_batch_rows if passes else None
        with self._pods_update_sees_m(mini_batch_rows=rows):
            return super()._update_actor(batch, metrics)

    def _compute_metrics(self, batch: Any, metrics: dict, timing_raw: dict, **more: Any) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, **more)

        step, self._pods_step = self._pods_step, []
        if len(step) > 1:  # verl has averaged what each mini-batch reported
            metrics.update(self._pods_metrics(step))

        rows = [row for update in step for row in update.chosen.rows()]
        kl_in_reward = bool(self.config.algorithm.use_kl_in_reward)
        metrics.update(all_rollout_metrics(rows, timing_raw, kl_in_reward))

        # verl has described the advantages of the rows that pass, as they were scaled for the loss.
        kept_rows = [row for update in step if update.passes for row in update.passes.rows]
        metrics.update(spare_passes.advantage_metrics(kept_rows))

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
    def _pods_update_sees_m(self, mini_batch_rows: int | None = None) -> Iterator[None]:
        """verl sizes mini-batches by rollout.n and pads a batch that is no multiple of them.

        Args:
            mini_batch_rows: The number of rows of a mini-batch, where it is not that of all kept.
        """
        rollout = self.config.actor_rollout_ref.rollout
        actor = self.config.actor_rollout_ref.actor
        n = rollout.n
        mini_batch_prompts = actor.ppo_mini_batch_size

        rollout.n = self.pods_selection.num_kept
        if mini_batch_rows is not None:  # verl multiplies the two
            rollout.n = 1
            actor.ppo_mini_batch_size = mini_batch_rows
        try:
            yield
        finally:
            rollout.n = n
            actor.ppo_mini_batch_size = mini_batch_prompts

    def _pods_select(self, batch: Any) -> SelectedGroups:
        """Select the rollouts of the batch that the update shall see."""
        is_seeded = self.pods_selection.seed is not None
        fields = ["num_turns", "extra_fields"]
        if is_seeded:
            fields.append("index")
        data = tq.kv_batch_get(batch.keys, partition_id=batch.partition_id, select_fields=fields)
        try:
            scores = [row.sum().item() for row in _by_token(batch, batch.keys, "rm_scores")]
        except KeyError as error:
            raise InvalidInputError(
                f"verl has no reward for some of {len(batch.keys)} rollouts: the reward function"
                " returned None. For a rollout that can't be scored let it return math.nan"
            ) from error

        order = None
        if is_seeded:  # uids are drawn anew in every run, the dataset's numbers are not
            order = {
                by_prompt.parse_key(key)[0]: number
                for key, number in zip(batch.keys, list(data["index"]), strict=True)
            }
        groups = by_prompt.group_rows(_rows(batch, data, scores), order)
        turn = self.global_steps * self.parameter_sync_step + self.local_trigger_step
        return by_prompt.select(groups, self.pods_selection, turn, self._pods_scale)

    def _pods_dump(self, batch: Any, kept: set[str]) -> None:
        """Write all rollouts, if they are asked for, and which were kept."""
        if folder := self.config.trainer.get("rollout_data_dir", None):
            self._pods_to_mark = kept
            super()._log_rollout_data(batch, self.timing_raw, folder)
            self._pods_to_mark = None

    def _pods_drop_rows(self, batch: Any, keys: set[str]) -> Any:
        """The batch with these rows only; the TransferQueue forgets the others."""
        if dropped := [key for key in batch.keys if key not in keys]:
            tq.kv_clear(keys=dropped, partition_id=batch.partition_id)
        return batch.select_keys([key for key in batch.keys if key in keys])

    def _pods_passes(self) -> Passes | None:
        """The rows of the current update that have a pass; None if all have one."""
        return self._pods_step[-1].passes if self._pods_step else None

    def _pods_spare_passes(
        self, batch: Any, chosen: SelectedGroups, metrics: dict
    ) -> tuple[Any, Passes | None]:
        """The balanced batch without most of its zero-advantage rows, and how to train on it.

        Every mini-batch keeps its rows, so that its gradient is the same; only between the ranks
        they are divided anew. What was left out is forgotten by the TransferQueue.
        """
        ranks = max(self.actor_rollout_wg._dispatch_info["actor"]) + 1
        full_rows = self.config.actor_rollout_ref.actor.ppo_mini_batch_size
        full_rows *= self.pods_selection.num_kept

        # Of such a batch verl makes no update of the actor yet, or an error that says why.
        if len(batch) % full_rows or full_rows % ranks:
            return batch, None

        rows = self._pods_kept_rows(batch, chosen)
        passes = spare_passes.plan_passes(
            rows,
            spare_passes.mini_batches_of(len(rows), ranks, full_rows),
            ranks,
            multiple=spare_passes.least_multiple(self.config),
            divisor=spare_passes.divisor_of(self.config),
        )
        # Each rank gets as many rows of every mini-batch, with about the same work; verl itself
        # balances the whole batch alone, and its mini-batches wait for the slowest rank of each.
        order = [place for places in _divide(passes, ranks) for place in places]
        if idle := [key for key in batch.keys if key not in passes.advantages]:
            tq.kv_clear(keys=idle, partition_id=batch.partition_id)

        # verl has described the balance of all kept rows.
        tokens = [rows[place].tokens for place in order]
        share = len(order) // ranks
        shares = [list(range(rank * share, (rank + 1) * share)) for rank in range(ranks)]
        metrics.update(log_seqlen_unbalance(tokens, shares, prefix="global_seqlen"))
        return batch.select_keys([batch.keys[place] for place in order]), passes

    def _pods_kept_rows(self, batch: Any, chosen: SelectedGroups) -> list[KeptRow]:
        """The values that decide for each row of the batch whether it has a pass."""
        advantage_of = chosen.advantages_of_rows()
        trained_tokens = [int(mask.sum()) for mask in _by_token(batch, batch.keys, "response_mask")]
        return [
            KeptRow(
                key=key,
                advantage=advantage_of.get(key, 0.0),  # 0: verl has added it
                tokens=tag["seq_len"],
                trained_tokens=trained,
                is_padding=tag.get("is_padding", False),
            )
            for key, tag, trained in zip(batch.keys, batch.tags, trained_tokens, strict=True)
        ]

    def _pods_metrics(self, step: list[_Update]) -> dict[str, float]:
        return {
            **by_prompt.joined([update.chosen for update in step]).metrics(),
            "pods/seconds_select": sum(update.seconds for update in step),
            "pods/zero_advantage_rows": sum(update.zero_advantage_rows for update in step),
            "pods/lost_rollouts": sum(update.lost for update in step),
            "pods/padding_rows": sum(update.padding for update in step),
            "pods/spared_rows": sum(update.passes.spared for update in step if update.passes),
        }

    def _pods_groups_of_ours(self) -> set[int]:
        """The places of the groups whose advantages verl does not compute as asked for.

        With baseline="kept" those are groups with a kept rollout that could not be scored, which
        verl would make NaN, and those of one kept rollout, whose reward GRPO would take.
        """
        chosen = self._pods_step[-1].chosen
        if not self.pods_selection.advantages_sum_to_zero:
            return set(range(len(chosen.groups)))

        keeps_unscored: set[int] = set()
        keeps_one: set[int] = set()
        for place, (group, kept) in enumerate(
            zip(chosen.groups, chosen.selected.kept, strict=True)
        ):
            if any(math.isnan(group[rollout].reward) for rollout in kept):
                keeps_unscored.add(place)
            if len(kept) == 1:
                keeps_one.add(place)

        estimator = self.config.algorithm.adv_estimator
        if estimator == "grpo":
            return keeps_unscored | keeps_one
        if keeps_unscored:
            raise UnsupportedError(
                f"fewer rollouts could be scored than are kept of {len(keeps_unscored)} prompts"
                " (the reward function returned NaN); only algorithm.adv_estimator=grpo can train"
                f" on the others, got {estimator}. Let the reward function return a number"
            )
        return set()

    def _pods_overwrite(self, advantages: dict[str, float], batch: Any) -> None:
        """Put these advantages, by the keys of rows, in the place of verl's, for every token."""
        for keys in _pieces(batch, list(advantages)):
            masks = _column(batch, keys, "response_mask")
            by_token = [
                mask.float() * advantages[key] for key, mask in zip(keys, masks, strict=True)
            ]
            rows = torch.nested.as_nested_tensor(by_token, layout=torch.jagged)
            fields = {"advantages": rows, "returns": rows.clone()}
            tq.kv_batch_put(
                keys=keys,
                partition_id=batch.partition_id,
                fields=TensorDict(fields, batch_size=len(keys)),
            )


def _by_token(batch: Any, keys: list[str], name: str) -> Iterator[torch.Tensor]:
    """A column that has a value for each token, row by row; few rows are held at a time.

    Raises:
        KeyError: The TransferQueue has no such column of some of these rows.
    """
    for piece in _pieces(batch, keys):
        yield from _column(batch, piece, name)


def _column(batch: Any, keys: list[str], name: str) -> tuple[torch.Tensor, ...]:
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=[name])
    rows: tuple[torch.Tensor, ...] = data[name].unbind()
    return rows


def _pieces(batch: Any, keys: list[str]) -> Iterator[list[str]]:
    """The keys in turn, in lists whose rows have `_TOKENS_AT_ONCE` tokens at most, or one row."""
    tokens_of = {key: tag["seq_len"] for key, tag in zip(batch.keys, batch.tags, strict=True)}
    piece: list[str] = []
    tokens = 0
    for key in keys:
        if piece and tokens + tokens_of[key] > _TOKENS_AT_ONCE:
            yield piece
            piece = []
            tokens = 0
        piece.append(key)
        tokens += tokens_of[key]
    if piece:
        yield piece


def _divide(passes: Passes, ranks: int) -> list[list[int]]:
    """The places of each rank: as many of every mini-batch, with about the same work."""
    if ranks == 1:  # for which verl's search takes seconds
        return [[place for places in passes.places for place in places]]

    places_of_rank: list[list[int]] = [[] for _ in range(ranks)]
    for places in passes.places:
        tokens = [passes.rows[place].tokens for place in places]
        work = calculate_workload(torch.tensor(tokens))
        parts = get_seqlen_balanced_partitions(work, k_partitions=ranks, equal_size=True)
        for of_rank, part in zip(places_of_rank, parts, strict=True):
            of_rank.extend(places[i] for i in part)
    return places_of_rank


def _rows(batch: Any, data: TensorDict, scores: list[float]) -> list[Row]:
    """The rows of a batch. A row is also unscorable where the reward function says so."""
    extra_fields = list(data.get("extra_fields", [None] * len(batch.keys)))
    turns = list(data["num_turns"])  # a look into `data` makes a list of all rows: once, not by row
    rows = []
    for i, score in enumerate(scores):
        fields = getattr(extra_fields[i], "data", extra_fields[i])
        parts = dict((fields or {}).get("reward_extra_info") or {})
        row = Row(
            key=batch.keys[i],
            reward=math.nan if parts.get("unscorable") else score,
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
