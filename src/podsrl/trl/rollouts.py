"""What passes from generation to the update: all rollouts of a generation, and those kept of them.

A rollout's place is its index in the flattened P x N batch, which is the same on all ranks. They
train on equal, contiguous shares of the kept places, which is how TRL slices advantages.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from accelerate.utils import gather, gather_object
from trl.trainer.utils import nanstd

from podsrl.advantages import group_advantages
from podsrl.errors import RewardError, UnsupportedError

Columns = dict[str, Sequence[Any] | None]  # name -> one value per row, or nothing at all

#: What TRL's `_generate` returns, in this order.
GENERATED = "prompt_ids completion_ids tool_mask completion logps fields images tool_images"
EXTRA = "extra/"  # before the names of columns that reward functions gave to `log_extra`


@dataclass(frozen=True, repr=False)
class Rollouts:
    """All rollouts of a generation: P prompts with N rollouts each, generated and scored."""

    step: int  # the optimiser steps that were done before it
    index: int  # which generation for that step it is, from 0
    columns: Columns  # "row" (of the dataset), "prompt", what `_generate` returned, extra logs
    rewards_P_N_F: torch.Tensor  # by function; NaN where one gave none
    rewards_P_N: torch.Tensor  # their weighted sums; NaN where no function gave one
    weights_F: torch.Tensor  # of each function in what is selected by
    rewarded_F: torch.Tensor  # of each function in `rewards_P_N`
    masked_P_N: torch.Tensor  # whether TRL's loss leaves it out, as it was cut off

    @cached_property
    def partly(self) -> torch.Tensor:
        """What `lacking` finds of that which is selected by."""
        return lacking(self.rewards_P_N_F, self.weights_F)

    def scores(self) -> torch.Tensor:
        """What the rule selects by, shape (P, N): sums with `weights_F`, where these are not 0.

        What the loss leaves out is NaN, and so is a partly scored rollout.
        """
        scores_P_N = weighted_sums(self.rewards_P_N_F, self.weights_F)
        return scores_P_N.masked_fill(self.masked_P_N | self.partly.any(dim=-1), torch.nan)

    def compared(self) -> torch.Tensor:
        """The rewards that advantages compare, shape (P, N): NaN for a partly scored rollout."""
        lacking_P_N_F = lacking(self.rewards_P_N_F, self.rewarded_F)
        return self.rewards_P_N.masked_fill(lacking_P_N_F.any(dim=-1), torch.nan)

    @cached_property
    def tokens(self) -> torch.Tensor:
        """The number of prompt and completion tokens of every rollout, shape (P, N)."""
        ids, prompt_ids = self.columns["completion_ids"] or (), self.columns["prompt_ids"] or ()
        tokens = [len(c) + len(p) for c, p in zip(ids, prompt_ids, strict=True)]
        return torch.tensor(tokens).view(self.rewards_P_N.shape)


@dataclass(frozen=True, repr=False)
class Kept:
    """The rollouts of a generation that the update sees."""

    of: Rollouts
    kept_P_N: torch.Tensor  # True for those that are kept
    rank: int  # of this process
    world: int  # the number of processes

    @cached_property
    def places(self) -> list[int]:
        """The places of the kept rollouts, ascending."""
        return [place for place, kept in enumerate(self.kept_P_N.flatten().tolist()) if kept]

    @property
    def share(self) -> slice:
        """Which of the kept rollouts this rank trains on."""
        rows = len(self.places) // self.world
        return slice(self.rank * rows, (self.rank + 1) * rows)

    @cached_property
    def columns(self) -> Columns:
        """The columns of the rollouts that this rank trains on."""
        rows = self.places[self.share]
        columns = self.of.columns.items()
        return {k: None if v is None else [v[place] for place in rows] for k, v in columns}

    @property
    def some_ranks_lack_images(self) -> bool:
        """Whether some ranks train on rows with images, and others have none at all."""
        images = self.of.columns["images"] or ()
        shown = [bool(images) and bool(images[place]) for place in self.places]
        rows = len(shown) // self.world
        return len({any(shown[r * rows : (r + 1) * rows]) for r in range(self.world)}) == 2

    def generated(self, in_dataset: bool) -> tuple[Any, ...]:
        """The rows of this rank as TRL's `_generate` returns them; its fields are in the rows."""
        given: dict[str, Any] = {**self.columns, "fields": {}}
        given["images"] = refuse_mixed_images(given["images"], in_dataset)
        given["tool_images"] = given["tool_images"] or []
        return tuple(given[name] for name in GENERATED.split())

    def extra_logs(self) -> dict[str, list[Any]]:
        """What `take_extra_logs` took, of the rows of this rank."""
        return {k.removeprefix(EXTRA): list(v or ()) for k, v in self.columns.items() if EXTRA in k}

    def advantages(self, baseline: Any, scale_rewards: str) -> torch.Tensor:
        """Of all kept rollouts, shape (K,), for groups of any size; scale_rewards is TRL's."""
        kept_P_N = self.kept_P_N.cpu()
        rewards_P_N = self.of.rewards_P_N if kept_P_N.all() else self.of.compared()  # or TRL's own
        rewards_P_N = rewards_P_N.cpu().double()
        advantages_P_N = group_advantages(
            rewards_P_N, kept_P_N, baseline=baseline, scale=scale_rewards == "group"
        )
        if scale_rewards == "batch":
            advantages_P_N = advantages_P_N / (nanstd(rewards_P_N[kept_P_N]).nan_to_num(0.0) + 1e-4)
        return advantages_P_N[kept_P_N].to(self.of.rewards_P_N)


def lacking(rewards_P_N_F: torch.Tensor, weights_F: torch.Tensor) -> torch.Tensor:
    """Where a function gave no reward to a rollout that others scored, shape (P, N, F).

    TRL's sum counts 0 there. Not of a function of weight 0, or that scored none of the group.
    """
    scored_P_N_F = ~torch.isnan(rewards_P_N_F) & (weights_F.to(rewards_P_N_F.device) != 0)
    by_group = scored_P_N_F.any(dim=1, keepdim=True) & scored_P_N_F.any(dim=2, keepdim=True)
    return by_group & ~scored_P_N_F


def weighted_sums(rewards_P_N_F: torch.Tensor, weights_F: torch.Tensor) -> torch.Tensor:
    """Rewards summed as TRL does, shape (P, N); NaN where none that weighs something is there."""
    weights_F = weights_F.to(rewards_P_N_F.device)
    unscorable = (torch.isnan(rewards_P_N_F) | (weights_F == 0)).all(dim=-1)
    return (rewards_P_N_F * weights_F).nansum(dim=-1).masked_fill(unscorable, torch.nan)


def without_zero_advantage_rows(
    batch: dict[str, Any], parts: int, loss_type: str
) -> dict[str, Any]:
    """TRL's batch without rows that have no gradient, but for as many parts, alike on all ranks.

    They have the advantage 0, or the loss leaves them out. The gradient stays the same: of losses
    that are means over rows the advantages are scaled. With images nothing is left out.
    """
    fills_K = (batch["advantages"] == 0) | ~batch["completion_mask"].bool().any(dim=1)
    fills_K &= "num_images" not in batch
    passed = rows_to_pass(fills_K, parts)
    if len(passed) == len(fills_K):
        return batch
    per_row = {k: v for k, v in batch.items() if isinstance(v, torch.Tensor) and v.ndim}
    shorter = batch | {name: values[passed] for name, values in per_row.items()}
    if loss_type not in ("dapo", "cispo", "vespo"):
        shorter["advantages"] = shorter["advantages"] * (len(passed) / len(fills_K))
    return shorter


def rows_to_pass(fills_K: torch.Tensor, parts: int = 1) -> torch.Tensor:
    """The rows that are no fillers, and as many more as make parts and ranks equal, at least 1."""
    rows = max(1, -(-int(gather((~fills_K).sum()).max()) // parts)) * parts
    return fills_K.int().argsort(stable=True)[:rows].sort().values


def columns_of(
    rows: list[dict[str, Any]], prompts: Sequence[Any], generated: Sequence[Any]
) -> Columns:
    """What TRL's `_generate` returned, by name; fields of a rollout_func go to the rows."""
    columns: Columns = {"row": rows, "prompt": prompts}
    columns |= zip(GENERATED.split(), generated, strict=True)
    fields: Any = columns.pop("fields")
    for name, values in fields.items():
        for i, row in enumerate(rows):
            if not isinstance(values, list) or i < len(values):
                row[name] = values[i] if isinstance(values, list) else values
    if columns["images"] is None:
        columns["images"] = dataset_images(rows)
    columns["tool_images"] = columns["tool_images"] or None
    return columns


def gather_rows(columns: Mapping[str, Sequence[Any] | None], total: int) -> Columns:
    """The rows of all ranks on every rank; a column that some have not is None in their rows."""
    shares: list[Columns] = gather_object([dict(columns)])
    rows = [max((len(v) for v in share.values() if v is not None), default=0) for share in shares]
    gathered: Columns = {}
    for name in dict.fromkeys(name for share in shares for name in share):
        parts = [share.get(name) for share in shares]
        filled = [[None] * n if v is None else v for v, n in zip(parts, rows, strict=True)]
        none = all(v is None for v in parts)
        gathered[name] = None if none else [value for part in filled for value in part][:total]
    return gathered


def share_of_rows(total: int, rank: int, world: int) -> range:
    """The places that `rank` generates: equal shares, the last ones padded beyond `total`."""
    share = -(-total // world)
    return range(rank * share, (rank + 1) * share)


def own_copy(row: Any, prompt: Any) -> tuple[Any, Any]:
    """A row and its prompt for one rollout, which a user's function may change; not its images."""
    images = (dataset_images([row]) or [None])[0] or ()
    return copy.deepcopy((row, prompt), {id(image): image for image in images})


def dataset_images(rows: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """The images of dataset rows, a list per row or None, as TRL reads its two columns."""
    if "images" in rows[0]:
        images = [row.get("images") for row in rows]
        return None if all(one == [] for one in images) else images
    if "image" in rows[0]:
        return [None if row.get("image") is None else [row["image"]] for row in rows]
    return None


def refuse_mixed_images(images: Any, in_dataset: bool) -> Any:
    """The kept rollouts' images as TRL would have them of these rows alone, a list per rollout."""
    if images is None or any(images):
        return images
    if in_dataset:  # TRL would put in their place those of the dataset rows that it gave
        raise UnsupportedError(
            "no rollout that this process keeps has an image, but others that it generated have;"
            " TRL can't train on such rows. Train on prompts with images and without in runs of"
            " their own, or on one process with one prompt per batch"
        )
    return None


def take_extra_logs(pending: dict[str, Any], rows: int) -> Columns:
    """What the reward functions gave to `log_extra`, as columns beside the others."""
    names = sorted(set(gather_object(list(pending))))
    taken: Columns = {EXTRA + name: pending.pop(name, [None] * rows) for name in names}
    for name, values in taken.items():
        if len(values or ()) != rows:
            raise RewardError(
                f"log_extra({name.removeprefix(EXTRA)!r}, ...) got {len(values or ())} values"
                f" for {rows} rollouts; give one value per rollout, once"
            )
    return taken


def keep_environments(trainer: Any, kept: Kept, rows: list[Any]) -> None:
    """Shorten to the kept rollouts, in place, what TRL's method holds of the rows it was given.

    TRL resets environments per row *before* it generates, and so is given n rows of each prompt.
    They stay with the rank that generated with them. TRL needs them until the rewards are there, so
    a kept rollout that is trained on elsewhere has None.
    """
    places = share_of_rows(kept.kept_P_N.numel(), kept.rank, kept.world)
    here = {place: i for i, place in enumerate(places)}
    of_kept = [here.get(place) for place in kept.places[kept.share]]
    for name in ("environments", "_sync_tool_dicts", "_async_tool_dicts"):
        if (live := getattr(trainer, name, None)) is not None:  # TRL sets what this run uses
            setattr(trainer, name, [None if i is None else live[i] for i in of_kept])
    trainer._batch_environments = kept.columns["environment"]
    rows[:] = kept.columns["row"] or ()
