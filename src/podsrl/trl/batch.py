"""One generation on its way through TRL's method: what passes between `PODSTrainer`'s methods."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from accelerate.utils import gather, gather_object
from trl.trainer.utils import nanstd

from podsrl.advantages import group_advantages
from podsrl.errors import RewardError, UnsupportedError

Columns = dict[str, Sequence[Any] | None]  # a batch: name -> one value per row, or nothing at all

#: What TRL's `_generate` returns, in this order.
GENERATED = (
    *("prompt_ids", "completion_ids", "tool_mask", "completion", "logps"),
    *("fields", "images", "tool_images"),
)


@dataclass(repr=False)
class Batch:
    """P prompts with N rollouts each: generated, scored, selected and given advantages.

    A rollout's place is its index in the flattened P x N batch. All ranks hold the same batch,
    except for `rows`; they train on equal, contiguous shares of the kept places, which is how TRL
    slices advantages. What a step is not yet done with is not set yet.

    In rounds some places stay empty: None in all columns, and NaN for a reward.

    Attributes:
        step: optimiser steps done when it is generated.
        index: which generation for that step, from 0.
        groups: P. n: rollouts per prompt.
        first: rollouts per prompt in the first round; n where there is one round.
        rank, world: number of this process, and of processes.
        rows: dataset rows of the rollouts that this rank generates in the first round, then of
            those it trains on.
        asked: rollouts per prompt in this round. places: all that it generates, on all ranks.
        rollouts: all rollouts' columns in order of place.
        rewards_P_N_F: by reward function; NaN where a function gave none.
        rewards_P_N: weighted sums; NaN where no function gave one.
        generated_P_N: True for the rollouts that were generated.
        kept_P_N: True for the kept rollouts.
        kept_places: their places, ascending; empty until they are selected.
        advantages_K: theirs, in the same order.
        ends: tokens that end a completion, where TRL's loss leaves out those that were cut off
            (`mask_truncated_completions`); otherwise empty.
    """

    step: int
    index: int
    groups: int
    n: int
    first: int
    rank: int
    world: int
    rows: list[dict[str, Any]] = field(init=False)
    asked: int = field(init=False)
    places: list[int] = field(init=False)
    rollouts: Columns = field(init=False, default_factory=dict)
    rewards_P_N_F: torch.Tensor = field(init=False)
    rewards_P_N: torch.Tensor = field(init=False)
    generated_P_N: torch.Tensor = field(init=False)
    kept_P_N: torch.Tensor = field(init=False)
    kept_places: list[int] = field(init=False, default_factory=list)
    advantages_K: torch.Tensor = field(init=False)
    ends: frozenset[int] = field(init=False, default=frozenset())

    @classmethod
    def begin(
        cls,
        prompts_P: Sequence[Mapping[str, Any]],
        n: int,
        first: int,
        step: int,
        before: "Batch | None",
        rank: int,
        world: int,
        apart: bool = False,
    ) -> "Batch":
        """A batch to generate: this rank's share of its first round, after the batch `before`.

        Args:
            prompts_P: dataset rows, one per group.
            n: rollouts per prompt.
            first: of them in the first round.
            step: optimiser steps done.
            before: the batch that was generated last, if any.
            rank: of this process.
            world: number of processes.
            apart: rows of a group share no list, dict or image; an environment may change its own.
        """
        index = before.index + 1 if before is not None and before.step == step else 0
        batch = cls(step, index, len(prompts_P), n, first, rank, world)
        copied: Any = copy.deepcopy if apart else dict
        batch.rows = [copied(prompts_P[group]) for group in batch._ask(range(batch.groups), 0)]
        return batch

    def of_this_process(self) -> "Batch":
        """This rank's share of the groups, equal ones, as if there were no other rank."""
        own = Batch(self.step, self.index, self.groups // self.world, self.n, self.first, 0, 1)
        own.rows, own.ends = self.rows, self.ends
        own._ask(range(own.groups), 0)
        return own

    def join(self, own: "Batch", weights_F: Any) -> None:
        """Take in every rank's `own`, which `of_this_process` began; `weights_F` of functions."""
        here, start = own.generated_places, self.rank * own.groups * self.n
        self.places = gather_object([start + place for place in here])
        rewards_P_N_F = gather(own.rewards_P_N_F.contiguous())
        rewards_R_F = rewards_P_N_F.view(-1, rewards_P_N_F.shape[-1])[self.places]
        self.add_rollouts(select_rows(own.rollouts, here), rewards_R_F, weights_F)

    def first_round(
        self, groups: Sequence[int], prompts: Sequence[Any]
    ) -> tuple[list[dict[str, Any]], list[Any]]:
        """The first round of these groups alone, where one process has all `rows` and `prompts`."""
        self._ask(groups, 0)
        here = [group * self.first + i for group in groups for i in range(self.first)]
        return [self.rows[i] for i in here], [prompts[i] for i in here]

    def next_round(self, groups: Sequence[int]) -> tuple[list[dict[str, Any]], list[Any]]:
        """The rest of these groups' rollouts: the rows that this rank generates, and prompts."""
        heads = [group * self.n for group in self._ask(groups, self.first)]
        rows, prompts = self.rollouts["row"] or (), self.rollouts["prompt"] or ()
        return [dict(rows[place]) for place in heads], [prompts[place] for place in heads]

    def _ask(self, groups: Sequence[int], begin: int) -> list[int]:
        """Begin a round of these groups' rollouts; the group of each that this rank generates."""
        end = self.n if begin else self.first
        self.asked = end - begin
        self.places = [group * self.n + i for group in groups for i in range(begin, end)]
        last = len(self.places) - 1
        share = share_of_rows(len(self.places), self.rank, self.world)
        return [self.places[min(i, last)] // self.n for i in share]

    def add_rollouts(self, columns: Columns, rewards_R_F: torch.Tensor, weights_F: Any) -> None:
        """Take in what was generated and scored in this round.

        Args:
            columns: of this rank's rollouts.
            rewards_R_F: of all ranks' rollouts, by reward function.
            weights_F: of the reward functions.
        """
        size = (self.groups, self.n)
        if not self.rollouts:
            self.rewards_P_N_F = rewards_R_F.new_full((*size, rewards_R_F.shape[1]), torch.nan)
            self.generated_P_N = torch.zeros(size, dtype=torch.bool, device=rewards_R_F.device)
        for name, values in gather_rows(columns, len(self.places)).items():
            before = self.rollouts.setdefault(name, None)
            if values is None:
                continue
            column = [None] * self.generated_P_N.numel() if before is None else list(before)
            for place, value in zip(self.places, values, strict=True):
                column[place] = value
            self.rollouts[name] = column
        self.generated_P_N.view(-1)[self.places] = True
        by_place = self.rewards_P_N_F.view(-1, rewards_R_F.shape[1])
        by_place[self.places] = rewards_R_F[: len(self.places)]
        self.rewards_P_N = weighted_sums(self.rewards_P_N_F, weights_F)

    def keep(self, kept_P_N: torch.Tensor) -> Columns:
        """Select the rollouts where `kept_P_N` is True; the rows that this rank trains on."""
        self.kept_P_N = kept_P_N
        self.kept_places = kept_P_N.flatten().nonzero()[:, 0].tolist()
        return select_rows(self.rollouts, self.kept_places[self.share])

    def rewards_to_select_by(self, weights_F: Sequence[float] | None) -> torch.Tensor:
        """Rewards for the rule, shape (P, N): `rewards_P_N`, or sums with weights of their own.

        A function of weight 0 has no part in it: not by a tie, nor by what it could not score. What
        the loss leaves out counts as unscorable: it is taken last.
        """
        rewards_P_N = self.rewards_P_N
        if weights_F is not None:
            weights = torch.tensor(weights_F, device=rewards_P_N.device)
            parts_P_N_F = self.rewards_P_N_F[..., weights != 0]
            rewards_P_N = weighted_sums(parts_P_N_F, weights[weights != 0])
        return rewards_P_N.masked_fill(self.cut_off, torch.nan)

    @property
    def cut_off(self) -> torch.Tensor:
        """Rollouts that TRL's loss leaves out as they did not end by themselves, shape (P, N)."""
        cut_P_N = torch.zeros_like(self.rewards_P_N, dtype=torch.bool)
        if self.ends:
            ids = self.rollouts["completion_ids"] or ()
            cut = [bool(one) and one[-1] not in self.ends for one in ids]
            cut_P_N.view(-1)[:] = torch.tensor(cut)
        return cut_P_N

    def own_advantages(self, baseline: str, scale_rewards: str) -> torch.Tensor:
        """Advantages of the kept rollouts, shape (K,), for groups of any size.

        Args:
            baseline: rewards to compare with, "kept" or all of the "group".
            scale_rewards: as TRL's: "group", "batch" or "none".
        """
        rewards_P_N, kept_P_N = self.rewards_P_N.double().cpu(), self.kept_P_N.cpu()
        if baseline == "kept":
            rewards_P_N = rewards_P_N.masked_fill(~kept_P_N, torch.nan)
        everyone = torch.arange(self.n).expand(self.groups, -1)
        advantages_P_N = group_advantages(rewards_P_N, everyone, scale=scale_rewards == "group")
        if scale_rewards == "batch":
            advantages_P_N = advantages_P_N / (nanstd(rewards_P_N[kept_P_N]).nan_to_num(0.0) + 1e-4)
        return advantages_P_N[kept_P_N].to(self.rewards_P_N)

    def here(self, live_R: Sequence[Any]) -> list[Any]:
        """What belongs to the kept rollouts that this rank trains on, of what can't be sent.

        Environments and their methods stay with the rank that generated with them. TRL needs them
        until the rewards are there, so a kept rollout that is trained on elsewhere has None.

        Args:
            live_R: one for each rollout that this rank generated.
        """
        places = share_of_rows(self.groups * self.n, self.rank, self.world)
        own = dict(zip(places, live_R, strict=True))
        return [own.get(place) for place in self.kept_places[self.share]]

    def forget(self) -> None:
        """Hold on to the token ids only: messages and images of all n may be large."""
        self.rollouts = {name: self.rollouts[name] for name in ("prompt_ids", "completion_ids")}

    @property
    def generated_places(self) -> list[int]:
        """Of the rollouts that were generated, ascending."""
        places: list[int] = self.generated_P_N.flatten().nonzero()[:, 0].tolist()
        return places

    @property
    def share(self) -> slice:
        """Which of the kept rollouts this rank trains on."""
        rows = len(self.kept_places) // self.world
        return slice(self.rank * rows, (self.rank + 1) * rows)

    @property
    def tokens(self) -> list[int]:
        """Prompt and completion tokens of every rollout, by place; 0 where there is none."""
        ids, prompt_ids = self.rollouts["completion_ids"] or (), self.rollouts["prompt_ids"] or ()
        return [len(c or ()) + len(p or ()) for c, p in zip(ids, prompt_ids, strict=True)]


def weighted_sums(rewards_P_N_F: torch.Tensor, weights_F: torch.Tensor) -> torch.Tensor:
    """Rewards summed as TRL does, shape (P, N); NaN where no function gave one."""
    weighted = rewards_P_N_F * weights_F.to(rewards_P_N_F.device)
    unscorable = torch.isnan(rewards_P_N_F).all(dim=-1)
    return weighted.nansum(dim=-1).masked_fill(unscorable, torch.nan)


def columns_of(
    rows: list[dict[str, Any]], prompts: Sequence[Any], generated: Sequence[Any]
) -> Columns:
    """What TRL's `_generate` returned of these rows, by name.

    Fields that a rollout_func added go to the rows, where reward functions find them.
    """
    columns: Columns = {"row": rows, "prompt": prompts}
    columns |= zip(GENERATED, generated, strict=True)
    fields: Any = columns.pop("fields")
    for name, values in fields.items():
        for i, row in enumerate(rows):
            row[name] = values[i] if isinstance(values, list) else values
    if columns["images"] is None:
        columns["images"] = dataset_images(rows)
    columns["tool_images"] = columns["tool_images"] or None
    return columns


def select_rows(columns: Mapping[str, Sequence[Any] | None], rows: Sequence[int]) -> Columns:
    """Every column at the same rows, in the order of `rows`; the one way rows are dropped here."""
    return {k: None if v is None else [v[i] for i in rows] for k, v in columns.items()}


def gather_rows(columns: Mapping[str, Sequence[Any] | None], total: int) -> Columns:
    """The rows of all ranks on every rank, without the padding beyond `total`.

    Rows are text and token ids, small beside what an update moves, so everyone gets everything. An
    image that several rows or columns of a rank share is sent once. A column that only some ranks
    have, such as the images of a mixed dataset, is None in the rows of the others.
    """
    shares: list[Columns] = gather_object([dict(columns)])
    rows = [max((len(v) for v in share.values() if v is not None), default=0) for share in shares]
    gathered: Columns = {}
    for name in dict.fromkeys(name for share in shares for name in share):
        parts = [share.get(name) for share in shares]
        filled = [[None] * n if v is None else v for v, n in zip(parts, rows, strict=True)]
        none = all(v is None for v in parts)
        gathered[name] = None if none else [value for part in filled for value in part][:total]
    return gathered


def dataset_images(rows: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """The images of dataset rows, a list per row or None, as TRL reads its two columns."""
    if "images" in rows[0]:
        images = [row.get("images") for row in rows]
        return None if all(one == [] for one in images) else images
    if "image" in rows[0]:
        return [None if row.get("image") is None else [row["image"]] for row in rows]
    return None


def kept_images(images: Sequence[Any] | None, in_dataset: bool) -> Sequence[Any] | None:
    """The kept rollouts' images as TRL would have them of these rows alone.

    Where only the tools of dropped rollouts returned images, there are none.

    Args:
        images: of the rollouts that this rank trains on, a list per rollout or None.
        in_dataset: the rows that this rank generated have images of the dataset. TRL would then
            put those, of all n, in the place of None.

    Raises:
        UnsupportedError: a rank is left with rows that have none while its others have.
    """
    if images is None or any(images):
        return images
    if in_dataset:
        raise UnsupportedError(
            "no rollout that this process keeps has an image, but others that it generated have;"
            " TRL can't train on such rows. Train on prompts with images and without in runs of"
            " their own, or on one process with one prompt per batch"
        )
    return None


def share_of_rows(total: int, rank: int, world: int) -> range:
    """The rows that `rank` generates: equal shares, the last ones padded beyond `total`."""
    share = -(-total // world)
    return range(rank * share, (rank + 1) * share)


def take_extra_logs(pending: dict[str, Any], rows: int) -> Columns:
    """What the reward functions gave to `log_extra`, as columns beside the others.

    Raises:
        RewardError: not one value per rollout.
    """
    names = sorted(set(gather_object(list(pending))))
    taken: Columns = {f"extra/{name}": pending.pop(name, [None] * rows) for name in names}
    for name, values in taken.items():
        if len(values or ()) != rows:
            raise RewardError(
                f"log_extra({name.removeprefix('extra/')!r}, ...) got {len(values or ())} values"
                f" for {rows} rollouts; give one value per rollout, once"
            )
    return taken


def put_extra_logs(pending: dict[str, Any], kept: Columns) -> None:
    """Hand TRL what `take_extra_logs` took, of the kept rows."""
    for name, values in kept.items():
        if name.startswith("extra/"):
            pending[name.removeprefix("extra/")] = list(values or ())
