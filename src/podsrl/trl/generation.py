"""A generation for the update, from what TRL asks for to what it trains on, in one direction.

    Asked  ->  Rollouts (generated and scored)  ->  KeptRows  ->  TRL's batch

Each call of TRL's `_generate_and_score_completions`, of which a subclass may make several for one
batch, is a generation of its own. While it runs on its own rows, as many as ever, TRL comes back
three times: to generate, for log-probs, and for rewards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from podsrl.rewards import Rewards
from podsrl.selection import Selected
from podsrl.trl.exchange import Moves, moves_of
from podsrl.trl.rows import Columns


@dataclass(frozen=True, repr=False)
class Asked:
    """The request of TRL's method.

    Args:
        rows: The dataset rows of this process; with environments n of each prompt, else m. It is
            the list that TRL's method iterates over; at the end it has the rows of what is kept.
        num_prompts: The prompts of all processes.
        began: The reading of the clock when TRL's method began.
    """

    rows: list[dict[str, Any]]
    num_prompts: int
    began: float


@dataclass(frozen=True, repr=False)
class Rollouts:
    """All rollouts of a generation: P prompts with up to N rollouts each, generated and scored.

    A process has the numbers of all of them, and the rollouts themselves of its own share.

    Args:
        step: The optimiser steps that were done before it.
        index: The number of this generation among those for the step, from 0.
        columns: The columns of the rollouts that this process generated: "row" (of the dataset),
            "prompt", what `_generate` returned, extra logs.
        places: The places of these rollouts, ascending.
        by_function_P_N_F: The rewards by function, on the device of TRL's; NaN where there is none.
        rewards: The same rewards as numbers, with what follows for selection and advantages.
        tokens_P_N: The number of prompt and completion tokens of every rollout.
        has_image_P_N: True for a rollout with an image; None where no process has any image.
        round_P_N: The round of each rollout, from 0, and -1 where it was not generated; None where
            everything is generated at once.
    """

    step: int
    index: int
    columns: Columns
    places: Sequence[int]
    by_function_P_N_F: torch.Tensor
    rewards: Rewards
    tokens_P_N: np.ndarray
    has_image_P_N: np.ndarray | None = None
    round_P_N: np.ndarray | None = None

    @property
    def generated_P_N(self) -> np.ndarray:
        """True for the rollouts that were generated."""
        generated_P_N = self.rewards.generated_P_N
        return (
            np.ones(self.tokens_P_N.shape, dtype=bool) if generated_P_N is None else generated_P_N
        )


@dataclass(frozen=True, repr=False)
class KeptRows:
    """The rollouts of a generation that the update sees, shared out to the processes.

    Args:
        rollouts: All that were generated.
        selected: The kept ones, with their advantages.
        process, world: The number of this process, and how many there are.
    """

    rollouts: Rollouts
    selected: Selected
    process: int = 0
    world: int = 1

    @property
    def kept_P_N(self) -> np.ndarray:
        """True for the rollouts that are kept."""
        return self.selected.kept_P_N

    @cached_property
    def moves(self) -> Moves:
        """The share of each process in the kept rollouts, and the moves that this takes."""
        return moves_of(self.kept_P_N, self.world)

    @property
    def own_places(self) -> list[int]:
        """The places of this process's rows."""
        return self.moves.by_process[self.process]

    @property
    def has_images(self) -> bool:
        """Whether a column of the generation holds images, of the dataset or of a tool."""
        return self.rollouts.has_image_P_N is not None

    @property
    def some_processes_lack_images(self) -> bool:
        """Whether some processes train on rows with images, and others have none at all."""
        if self.rollouts.has_image_P_N is None:
            return False
        has_image = self.rollouts.has_image_P_N.ravel()
        has_any = {bool(has_image[places].any()) for places in self.moves.by_process}
        return len(has_any) == 2

    @property
    def own_advantages(self) -> torch.Tensor:
        """The advantages of the rows of this process, as TRL's batch holds them."""
        own = self.selected.advantages_P_N.ravel()[self.own_places]
        like_trls_rewards = self.rollouts.by_function_P_N_F  # in their precision, on their device
        return torch.from_numpy(own).to(like_trls_rewards)

    @property
    def rewards_for_trl(self) -> torch.Tensor:
        """The rewards of all kept rollouts by function, shape (K, F), ascending by place.

        So the m kept ones of a prompt are neighbours, as TRL's advantages want it. They are in the
        order of TRL's rows where no row moved.
        """
        by_function_P_N_F = self.rollouts.by_function_P_N_F
        return by_function_P_N_F[torch.from_numpy(self.kept_P_N).to(by_function_P_N_F.device)]

    @cached_property
    def kept_of_rows(self) -> list[int]:
        """The index of the kept rollout behind each row, in TRL's gathered order."""
        number = {place: k for k, place in enumerate(np.flatnonzero(self.kept_P_N).tolist())}
        return [number[place] for place in self.moves.places]


@dataclass(repr=False)
class Generation:
    """A generation under way: TRL's request, and the kept rows once they are selected.

    Args:
        asked: TRL's request.
        kept: The kept rows.
        completion_ids: TRL's tensor of them, by which they are found in a batch.
    """

    asked: Asked
    kept: KeptRows | None = None
    completion_ids: Any = None
