"""The bytes that each of many processes would send, counted by the trainer's code without them.

A process after the other goes through `Exchange`. What it gives to a collective of accelerate or of
torch.distributed is counted, and the collective is left out: the code that decides what moves and
packs it is the trainer's own, and `benchmarks.speed.exchange` measures the same bytes.
"""

import pickle
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.speed.exchange import Size, columns_of, keep, rewards_of
from podsrl.rewards import Rewards
from podsrl.trl import exchange as of_trainer
from podsrl.trl.exchange import Exchange, Moves, Round, moves_of
from podsrl.trl.rows import Columns, numbers_of
from podsrl.trl.seam import swapped


@dataclass(frozen=True)
class Sent:
    """The bytes that one process gives to the collectives of a step.

    Args:
        numbers: The numbers of its own rollouts, which all processes get.
        moved: The rollouts that another process trains on.
        others: Names of columns, sizes of parcels, and from the first process the choice.
    """

    numbers: int
    moved: int
    others: int


def bytes_sent(size: Size) -> list[Sent]:
    """The bytes that each process sends in a step of this size."""
    rewards_R_1 = np.concatenate([rewards_of(size, process) for process in range(size.world)])
    by_function_P_N_1 = rewards_R_1.reshape(size.prompts, size.num_rollouts, 1)
    rewards = Rewards(
        by_function_P_N_F=by_function_P_N_1,
        reward_weights_F=np.ones(1),
        selection_weights_F=np.ones(1),
        masked_P_N=np.zeros(by_function_P_N_1.shape[:2], dtype=bool),
    )
    kept_P_N = keep(size, rewards.scores_P_N)
    rows = moves_of(kept_P_N, size.world)
    return [
        _sent(size, process, columns_of(size, process), kept_P_N, rows)
        for process in range(size.world)
    ]


def _sent(size: Size, process: int, columns: Columns, kept_P_N: np.ndarray, rows: Moves) -> Sent:
    wire = _Wire(process, size.world)
    collectives = {name: getattr(wire, name) for name in ("gather", "gather_object", "broadcast")}
    with swapped(of_trainer, dist=wire, **collectives):
        exchange = Exchange(process, size.world, torch.device("cpu"))
        total = kept_P_N.size

        exchange.gather_numbers(
            numbers_of(columns, np.zeros(size.rollouts, dtype=bool)),
            Round.of_all(total, size.world),
        )
        wire.gather(torch.from_numpy(rewards_of(size, process)))  # TRL's own
        numbers = wire.take_bytes()

        exchange.all_names(name for name in columns if columns[name] is not None)
        exchange.of_first(kept_P_N)
        with suppress(_Sent):
            exchange.to_their_rows(columns, rows, exchange.share(total))
        return Sent(numbers, wire.parcels, wire.take_bytes())


class _Sent(BaseException):
    """Everything is sent; what would be received is of no interest."""


class _Wire:
    """In the place of the collectives that `Exchange` uses: counts what a process gives to them."""

    def __init__(self, process: int, world: int) -> None:
        self.process = process
        self.world = world
        self.parcels = 0
        self._bytes = 0

    def take_bytes(self) -> int:
        """The bytes beside parcels that were sent since this was asked last."""
        taken = self._bytes
        self._bytes = 0
        return taken

    def gather(self, tensor: torch.Tensor) -> torch.Tensor:
        """accelerate's; all processes have the same."""
        self._bytes += tensor.nbytes
        return tensor.repeat(self.world, *[1] * (tensor.dim() - 1))

    def gather_object(self, objects: list[Any]) -> list[Any]:
        """accelerate's; all processes have the same."""
        self._bytes += len(pickle.dumps(objects))
        return objects * self.world

    def broadcast(self, tensor: torch.Tensor) -> torch.Tensor:
        """accelerate's, from the first process."""
        self._bytes += tensor.nbytes if self.process == 0 else 0
        return tensor

    def get_backend(self) -> str:
        """torch.distributed's."""
        return "gloo"

    def all_to_all_single(
        self, received: torch.Tensor, sent: torch.Tensor, *sizes: list[int]
    ) -> None:
        """torch.distributed's: first come the sizes of the parcels, then they themselves."""
        if not sizes:
            self._bytes += sent.nbytes
            received.zero_()
            return
        self.parcels += sent.nbytes
        raise _Sent
