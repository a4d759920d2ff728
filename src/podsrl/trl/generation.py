"""A generation for the update, from what TRL asks for to what it trains on, in one direction.

    Asked  ->  Rollouts (generated and scored)  ->  Selected  ->  TRL's batch

TRL's `_generate_and_score_completions` runs once, on its own rows, as many as ever. While it runs
it comes back to the trainer three times: to generate, for log-probs, and for rewards. Each time the
trainer looks into its `Generation`, which says how far it is.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from trl.trainer.utils import nanstd

from podsrl.advantages import group_advantages
from podsrl.rewards import Rewards
from podsrl.trl.columns import EXTRA, GENERATED, Columns
from podsrl.trl.images import refuse_mixed_images


@dataclass(frozen=True, repr=False)
class Asked:
    """What TRL's method was given.

    Args:
        rows: The dataset rows of this process; with environments n of each prompt, else m. It is
            the list that TRL's method iterates over, and `keep_environments` shortens it.
        num_prompts: The prompts of all processes.
        began: The reading of the clock when TRL's method began.
    """

    rows: list[dict[str, Any]]
    num_prompts: int
    began: float


@dataclass(frozen=True, repr=False)
class Rollouts:
    """All rollouts of a generation: P prompts with N rollouts each, generated and scored.

    Args:
        step: The optimiser steps that were done before it.
        index: Which generation for that step it is, from 0.
        columns: "row" (of the dataset), "prompt", what `_generate` returned, extra logs.
        by_function_P_N_F: What each reward function gave, where TRL's are; NaN where it gave none.
        rewards: The same as numbers, with what follows for selection and advantages.
    """

    step: int
    index: int
    columns: Columns
    by_function_P_N_F: torch.Tensor
    rewards: Rewards

    @cached_property
    def tokens_P_N(self) -> np.ndarray:
        """The number of prompt and completion tokens of every rollout."""
        completions = self.columns["completion_ids"] or ()
        prompts = self.columns["prompt_ids"] or ()
        tokens = [len(c) + len(p) for c, p in zip(completions, prompts, strict=True)]
        return np.array(tokens).reshape(self.rewards.total_P_N.shape)


@dataclass(frozen=True, repr=False)
class Selected:
    """The rollouts of a generation that the update sees.

    Processes train on equal, contiguous shares of the kept places, which is how TRL slices the
    advantages of a batch.

    Args:
        rollouts: All that were generated.
        kept_P_N: True for those that are kept.
        baseline: The rewards that advantages are relative to.
        scale_rewards: TRL's: "group", "batch" or "none".
        rank, world: The number of this process, and how many there are.
    """

    rollouts: Rollouts
    kept_P_N: np.ndarray
    baseline: Literal["kept", "group"]
    scale_rewards: str = "group"
    rank: int = 0
    world: int = 1

    @cached_property
    def places(self) -> list[int]:
        """The places of the kept rollouts, ascending."""
        return np.flatnonzero(self.kept_P_N).tolist()

    @property
    def share(self) -> slice:
        """Which of the kept rollouts this process trains on."""
        rows = len(self.places) // self.world
        return slice(self.rank * rows, (self.rank + 1) * rows)

    @cached_property
    def columns(self) -> Columns:
        """The columns of the rollouts that this process trains on."""
        places = self.places[self.share]
        columns: Columns = {}
        for name, values in self.rollouts.columns.items():
            columns[name] = None if values is None else [values[place] for place in places]
        return columns

    @property
    def has_images(self) -> bool:
        """Whether any rollout of the generation has an image, of the dataset or of a tool."""
        columns = self.rollouts.columns
        return bool(columns["images"] or columns["tool_images"])

    @property
    def some_processes_lack_images(self) -> bool:
        """Whether some processes train on rows with images, and others have none at all."""
        images = self.rollouts.columns["images"] or ()
        has_image_K = [bool(images) and bool(images[place]) for place in self.places]
        rows = len(has_image_K) // self.world
        has_any = {any(has_image_K[r * rows : (r + 1) * rows]) for r in range(self.world)}
        return len(has_any) == 2

    @cached_property
    def advantages_K(self) -> np.ndarray:
        """The advantages of all kept rollouts, for groups of any size, where TRL's are not used."""
        # With n = m the result must be TRL's, which counts a missing part of a reward as 0.
        rewards = self.rollouts.rewards
        compared_P_N = rewards.total_P_N if self.kept_P_N.all() else rewards.compared_P_N
        compared_P_N = compared_P_N.astype(np.float64)

        advantages_P_N = group_advantages(
            compared_P_N,
            self.kept_P_N,
            baseline=self.baseline,
            scale=self.scale_rewards == "group",
        )
        advantages_K = advantages_P_N[self.kept_P_N]
        if self.scale_rewards == "batch":
            deviation = nanstd(torch.from_numpy(compared_P_N[self.kept_P_N])).nan_to_num(0.0)
            advantages_K = advantages_K / (deviation.item() + 1e-4)  # TRL's
        return advantages_K

    @property
    def advantages_of_share(self) -> torch.Tensor:
        """The advantages of the rows of this process, as TRL's batch holds them."""
        like = self.rollouts.by_function_P_N_F
        return torch.from_numpy(self.advantages_K).to(like)[self.share]

    @property
    def rewards_for_trl(self) -> torch.Tensor:
        """The rewards of all kept rollouts by function, shape (K, F), as TRL gathers them."""
        by_function_P_N_F = self.rollouts.by_function_P_N_F
        return by_function_P_N_F[torch.from_numpy(self.kept_P_N).to(by_function_P_N_F.device)]

    def generated_for_trl(self, images_in_dataset: bool) -> tuple[Any, ...]:
        """The rows of this process as TRL's `_generate` returns them; its fields are in the rows.

        Raises:
            UnsupportedError: TRL can't train on these rows, for their images.
        """
        columns: dict[str, Any] = {**self.columns, "fields": {}}
        columns["images"] = refuse_mixed_images(columns["images"], images_in_dataset)
        columns["tool_images"] = columns["tool_images"] or []
        return tuple(columns[name] for name in GENERATED)

    def extra_logs(self) -> dict[str, list[Any]]:
        """What `take_extra_logs` took, of the rows of this process."""
        return {
            name.removeprefix(EXTRA): list(values or ())
            for name, values in self.columns.items()
            if name.startswith(EXTRA)
        }


@dataclass(repr=False)
class Generation:
    """How far a generation is: what TRL asked for, and once it is chosen what is kept."""

    asked: Asked
    selected: Selected | None = None
