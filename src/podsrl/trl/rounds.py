"""The rollouts of a generation as its rounds bring them in; usually there is one round.

There are two kinds. Rounds of rollouts (`rollouts_per_round`) are some of the n rollouts of every
prompt that is open: a prompt is open until no further rollout can change which rewards are kept of
it (`podsrl.is_decided`). Rounds of prompts (`prompts_per_round`) are all n rollouts of some of the
prompts, until no further prompt can change which rows are kept (`podsrl.is_decided_batch`).

Rounds are of whole rollouts, so what is kept has the same law as what would be kept of everything
(docs/theory.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import torch

from podsrl.errors import InvalidInputError, RewardError
from podsrl.rewards import Rewards
from podsrl.rules import is_decided, is_decided_batch
from podsrl.selection import Selection
from podsrl.trl.exchange import Round
from podsrl.trl.rows import Columns

#: The numbers of a rollout: its tokens, whether it was cut off, whether it has an image.
_NUMBERS = 3
#: The round of a rollout that was not generated.
_NOT_GENERATED = -1


class Rounds(Protocol):
    """The cut of a generation into rounds.

    Attributes:
        of_whole_groups: Whether a round has all n rollouts of its prompts.
    """

    of_whole_groups: ClassVar[bool]

    def next_places(
        self, made: int, rewards: Rewards | None, selection: Selection, prompts: int, step: int
    ) -> np.ndarray:
        """The rollouts of the next round; none, once everything is decided.

        Args:
            made: The number of rounds so far.
            rewards: The rewards so far, NaN for rollouts that were not generated; None before the
                first round.
            selection: The settings of the selection.
            prompts: The number of prompts P.
            step: The optimiser step, for messages.

        Returns:
            True for each rollout that is generated, shape (P, N).

        Raises:
            RewardError: A reward lies outside its bounds.
        """
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """The fields of `PODSConfig` that they were made of, for the log."""
        ...


@dataclass(frozen=True)
class RolloutRounds:
    """Rounds of some rollouts of each prompt that is open.

    Args:
        rollouts: The rollouts of a prompt in a round.
        bounds: The lowest and the highest possible reward.
    """

    of_whole_groups: ClassVar[bool] = False

    rollouts: int
    bounds: tuple[float, float]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The fields of `PODSConfig` that they were made of, for the log."""
        return {"rollouts_per_round": self.rollouts, "reward_bounds": self.bounds}

    def next_places(
        self, made: int, rewards: Rewards | None, selection: Selection, prompts: int, step: int
    ) -> np.ndarray:
        """The next rollouts of the prompts whose choice is open, as `Rounds` says it."""
        rollout_N = np.arange(selection.num_rollouts)
        is_next_N = rollout_N // self.rollouts == made
        open_P = np.ones(prompts, dtype=bool)
        if rewards is not None:
            open_P = self._open(rewards, selection, step)
        return open_P[:, None] & is_next_N

    def _open(self, rewards: Rewards, selection: Selection, step: int) -> np.ndarray:
        """Mark the prompts whose choice another rollout could change, shape (P,)."""
        scores_P_N = _at_bounds(_surely_scored(rewards), self.bounds)
        to_come_P = np.zeros(len(scores_P_N), dtype=np.int64)
        if rewards.generated_P_N is not None:
            to_come_P = (~rewards.generated_P_N).sum(axis=1)
        try:
            decided_P = is_decided(
                scores_P_N,
                m=selection.num_kept,
                to_come=to_come_P,
                bounds=self.bounds,
                rule=selection.chosen_rule,
            )
        except InvalidInputError as error:
            raise RewardError(
                f"rollouts_per_round={self.rollouts} with reward_bounds={list(self.bounds)}, at"
                f" step {step}: {error}"
            ) from error
        return ~np.asarray(decided_P)


@dataclass(frozen=True)
class PromptRounds:
    """Rounds of whole groups, until those with contrast fill the batch (DAPO, arXiv 2503.14476).

    Of K rounds the k-th one has every K-th prompt, from the k-th on. So each process has its share
    of every round, and the rounds are the same on any number of processes.

    Args:
        prompts: The largest number of prompts in a round.
    """

    of_whole_groups: ClassVar[bool] = True

    prompts: int

    @property
    def settings(self) -> Mapping[str, Any]:
        """The fields of `PODSConfig` that they were made of, for the log."""
        return {"prompts_per_round": self.prompts}

    def next_places(
        self, made: int, rewards: Rewards | None, selection: Selection, prompts: int, step: int
    ) -> np.ndarray:
        """All rollouts of the next prompts, while groups are missing, as `Rounds` says it."""
        rounds = -(-prompts // self.prompts)
        is_next_P = np.arange(prompts) % rounds == made
        if rewards is not None and self._is_full(rewards, selection):
            is_next_P[:] = False
        return np.repeat(is_next_P[:, None], selection.num_rollouts, axis=1)

    @staticmethod
    def _is_full(rewards: Rewards, selection: Selection) -> bool:
        """Whether no further prompt can change which rows are kept."""
        scores_P_N = rewards.scores_P_N.astype(np.float64)
        generated_P_N = rewards.generated_P_N
        if generated_P_N is None:
            generated_P_N = np.ones(scores_P_N.shape, dtype=bool)
        there_P = generated_P_N[:, 0]  # groups are whole
        return is_decided_batch(
            scores_P_N[there_P],
            rows=selection.num_kept * len(scores_P_N),
            to_come=int((~there_P).sum()),
            rule=selection.chosen_rule,
        )


def _surely_scored(rewards: Rewards) -> np.ndarray:
    """The rule's scores of rollouts that every function scored, NaN for all others.

    Whether another one counts may depend on rollouts of its prompt that are still to come.
    """
    counts_F = rewards.selection_weights_F != 0
    missing_P_N = np.isnan(rewards.by_function_P_N_F[..., counts_F]).any(axis=-1)
    return np.where(missing_P_N, np.nan, rewards.scores_P_N).astype(np.float64)


def _at_bounds(scores_P_N: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """The scores, where those that differ from a bound by float32's rounding are equal to it."""
    for bound in bounds:
        rounding = 4 * float(np.finfo(np.float32).eps) * max(abs(bound), 1.0)
        scores_P_N = np.where(np.abs(scores_P_N - bound) <= rounding, bound, scores_P_N)
    return scores_P_N


class Collected:
    """A generation as far as it is made: numbers of all rollouts, and rollouts of one process.

    Args:
        num_prompts, num_rollouts: Prompts of all processes, and rollouts of each.
        process: The number of this process.

    Attributes:
        rounds: The number of rounds so far.
    """

    def __init__(self, num_prompts: int, num_rollouts: int, process: int) -> None:
        self._shape = (num_prompts, num_rollouts)
        self._process = process
        total = num_prompts * num_rollouts
        self._numbers = np.zeros((total, _NUMBERS), dtype=np.int64)
        self._round = np.full(total, _NOT_GENERATED)
        self._by_function: torch.Tensor | None = None
        self.rounds = 0
        self._columns: list[Columns] = []
        self._places: list[int] = []

    def add(
        self, round_: Round, columns: Columns, numbers: np.ndarray, by_function: torch.Tensor
    ) -> None:
        """Add a round.

        Args:
            round_: Its places.
            columns: Of what this process generated, padding included.
            numbers: The numbers of all its rollouts, in the order of its places.
            by_function: Their rewards by function, in the same order.
        """
        places = round_.places
        if self._by_function is None:
            shape = (len(self._round), by_function.shape[1])
            self._by_function = by_function.new_full(shape, torch.nan)
        self._by_function[places] = by_function
        self._numbers[places] = numbers
        self._round[places] = self.rounds
        self.rounds += 1

        own = list(round_.by_process[self._process])
        self._places += own
        self._columns.append(
            {name: None if v is None else v[: len(own)] for name, v in columns.items()}
        )

    @property
    def by_function_P_N_F(self) -> torch.Tensor:
        """The rewards by function; NaN where it gave none, or nothing was generated."""
        assert self._by_function is not None, "no round was added"
        return self._by_function.view(*self._shape, -1)

    @property
    def numbers_P_N_3(self) -> np.ndarray:
        """Tokens, whether cut off, whether with an image; 0 where nothing was generated."""
        return self._numbers.reshape(*self._shape, _NUMBERS)

    @property
    def generated_P_N(self) -> np.ndarray | None:
        """True where a rollout was generated; None where all were."""
        generated_P_N = self.round_P_N != _NOT_GENERATED
        return None if generated_P_N.all() else generated_P_N

    @property
    def round_P_N(self) -> np.ndarray:
        """The round of each rollout, from 0; -1 where it was not generated."""
        return self._round.reshape(self._shape)

    @property
    def places(self) -> list[int]:
        """The places of this process's rollouts, ascending."""
        return sorted(self._places)

    @property
    def columns(self) -> Columns:
        """The columns of this process's rollouts, in the order of their places."""
        order = np.argsort(self._places, kind="stable").tolist()
        columns: Columns = {}
        for name in dict.fromkeys(name for of_round in self._columns for name in of_round):
            if all(of_round.get(name) is None for of_round in self._columns):
                columns[name] = None
                continue
            values: list[object] = []
            for of_round in self._columns:
                rows: Sequence[object] = of_round["row"] or ()
                values += of_round.get(name) or [None] * len(rows)
            columns[name] = [values[index] for index in order]
        return columns


def of_first_round(rewards: Rewards, round_P_N: np.ndarray) -> Rewards:
    """The rewards of the first round, which is made whatever they are.

    Their mean is that of the prompts' pass rates, which the mean of all that was generated is not:
    more is generated where right answers, or groups with contrast, are rare.

    Args:
        rewards: The rewards of all rounds.
        round_P_N: The round of each rollout, from 0. The first one has as many rollouts of each of
            its prompts.
    """
    prompts, rollouts = first_round(round_P_N)
    return replace(
        rewards,
        by_function_P_N_F=rewards.by_function_P_N_F[prompts][:, rollouts],
        masked_P_N=rewards.masked_P_N[prompts][:, rollouts],
        generated_P_N=None,
    )


def first_round(round_P_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The prompts of the first round, and the rollouts of each of them, as indices."""
    is_first_P_N = round_P_N == 0
    return np.flatnonzero(is_first_P_N.any(axis=1)), np.flatnonzero(is_first_P_N.any(axis=0))
