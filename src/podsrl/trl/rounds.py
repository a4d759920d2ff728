"""The rollouts of a generation as its rounds bring them in; usually there is one round.

With `rollouts_per_round` each round is some of the n rollouts of every prompt that is open. A
prompt is open until no further rollout can change which rewards are kept of it
(`podsrl.is_decided`). Rounds are of whole rollouts, so what is kept has the same law as what would
be kept of all n (docs/theory.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from podsrl.errors import InvalidInputError, RewardError
from podsrl.rewards import Rewards
from podsrl.rules import is_decided
from podsrl.selection import Selection
from podsrl.trl.exchange import Round
from podsrl.trl.rows import Columns

#: Of each rollout: its tokens, whether it was cut off, whether it has an image.
_NUMBERS = 3


@dataclass(frozen=True)
class Rounds:
    """How a generation is cut into rounds.

    Args:
        rollouts: The rollouts of a prompt in a round.
        bounds: The lowest and the highest possible reward.
    """

    rollouts: int
    bounds: tuple[float, float]

    def parts(self, n: int) -> list[range]:
        """The rollouts of a prompt, by round."""
        return [range(first, min(first + self.rollouts, n)) for first in range(0, n, self.rollouts)]

    def open_after(
        self, rewards: Rewards, generated: int, selection: Selection, step: int
    ) -> np.ndarray:
        """Which prompts need another round, shape (P,).

        Args:
            rewards: The rewards so far, NaN for rollouts that were not generated.
            generated: The rollouts so far of each prompt that is open.
            selection: What is selected, and how.
            step: The optimiser step, for messages.

        Raises:
            RewardError: A reward lies outside the bounds.
        """
        scores_P_N = _at_bounds(_surely_scored(rewards), self.bounds)
        try:
            decided_P = is_decided(
                scores_P_N,
                m=selection.num_kept,
                to_come=selection.num_rollouts - generated,
                bounds=self.bounds,
                rule=selection.chosen_rule,
            )
        except InvalidInputError as error:
            raise RewardError(
                f"rollouts_per_round={self.rollouts} with reward_bounds={list(self.bounds)}, at"
                f" step {step}: {error}"
            ) from error
        return ~np.asarray(decided_P)


def _surely_scored(rewards: Rewards) -> np.ndarray:
    """What the rule sees of rollouts that every function scored, NaN for all others.

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
    """What is known of a generation so far; numbers of all rollouts, and rollouts of one process.

    Args:
        num_prompts, num_rollouts: Prompts of all processes, and rollouts of each.
        process: The number of this process.
    """

    def __init__(self, num_prompts: int, num_rollouts: int, process: int) -> None:
        self._shape = (num_prompts, num_rollouts)
        self._process = process
        total = num_prompts * num_rollouts
        self._numbers = np.zeros((total, _NUMBERS), dtype=np.int64)
        self._generated = np.zeros(total, dtype=bool)
        self._by_function: torch.Tensor | None = None
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
            shape = (len(self._generated), by_function.shape[1])
            self._by_function = by_function.new_full(shape, torch.nan)
        self._by_function[places] = by_function
        self._numbers[places] = numbers
        self._generated[places] = True

        own = list(round_.by_process[self._process])
        self._places += own
        self._columns.append(
            {name: None if v is None else v[: len(own)] for name, v in columns.items()}
        )

    @property
    def by_function_P_N_F(self) -> torch.Tensor:
        """What each reward function gave; NaN where it gave none, or nothing was generated."""
        assert self._by_function is not None, "no round was added"
        return self._by_function.view(*self._shape, -1)

    @property
    def numbers_P_N_3(self) -> np.ndarray:
        """Tokens, whether cut off, whether with an image; 0 where nothing was generated."""
        return self._numbers.reshape(*self._shape, _NUMBERS)

    @property
    def generated_P_N(self) -> np.ndarray | None:
        """True where a rollout was generated; None where all were."""
        return None if self._generated.all() else self._generated.reshape(self._shape)

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


def of_first_round(rewards: Rewards, size: int) -> Rewards:
    """The rewards of the first `size` rollouts of each prompt, which every prompt has.

    Their mean is that of the prompts' pass rates, which the mean of all that was generated is not:
    more is generated of hard prompts.
    """
    return replace(
        rewards,
        by_function_P_N_F=rewards.by_function_P_N_F[:, :size],
        masked_P_N=rewards.masked_P_N[:, :size],
        generated_P_N=None,
    )
