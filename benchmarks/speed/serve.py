"""A trainer in a process of its own, which makes one turn of steps whenever it is asked."""

import os
import sys
import tempfile
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.memory import PeakMemory
from benchmarks.speed.probe import Probe
from benchmarks.speed.trainers import Setting, build


@dataclass(frozen=True)
class Rank:
    """Which of the processes of a trainer this is, and how they find each other."""

    index: int = 0
    world: int = 1
    port: int = 0


def serve(setting: Setting, rank: Rank, connection: Connection, log: Path) -> None:
    """Build the trainer and train, a turn at a time, until the other end of the pipe says stop.

    A turn is one generation with all its optimiser steps. Asked with True it measures memory, with
    False seconds; it answers with a mapping from phases. What is printed goes to `log`.
    """
    _print_to(log)
    warnings.simplefilter("ignore")
    _join(rank)
    with tempfile.TemporaryDirectory() as folder:
        trainer = build(setting, str(Path(folder) / "run"))
        _Turns(trainer, setting.steps_per_generation, connection).train()


class _Turns:
    """Holds a trainer back before every turn."""

    def __init__(self, trainer: Any, steps: int, connection: Connection) -> None:
        self.trainer, self.steps, self.connection = trainer, steps, connection
        self.probe = Probe()
        self.memory: PeakMemory | None = None
        self._made = 0  # steps of the current turn
        self._asked: bool | None = None

    def train(self) -> None:
        """Train; ends with SystemExit when told to stop."""
        self.probe.watch(self.trainer)
        fetch = self.trainer.get_batch_samples  # the first thing of every optimiser step

        def gated(*args: Any, **kwargs: Any) -> Any:
            self._gate()
            return fetch(*args, **kwargs)

        self.trainer.get_batch_samples = gated
        self.trainer.train()

    def _gate(self) -> None:
        if self._asked is not None:
            self._made += 1
            if self._made < self.steps:
                return
            self.probe.settle()
            found = self.probe.memory if self._asked else self.probe.seconds
            self.connection.send(dict(found))
        if self.memory is None:
            self.memory = PeakMemory()
        self._made, self._asked = 0, self._wait()
        self.probe.reset(self.memory if self._asked else None)

    def _wait(self) -> bool:
        try:
            asked = self.connection.recv()
        except EOFError:  # the process that asks is gone
            asked = None
        if asked is None:
            raise SystemExit(0)
        return bool(asked)


def _print_to(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(descriptor, stream.fileno())


def _join(rank: Rank) -> None:
    """Tell accelerate, by the variables that torchrun sets, and share the threads."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    if rank.world == 1:
        return
    torch.set_num_threads(max(1, torch.get_num_threads() // rank.world))
    os.environ.update(
        RANK=str(rank.index),
        LOCAL_RANK=str(rank.index),
        WORLD_SIZE=str(rank.world),
        LOCAL_WORLD_SIZE=str(rank.world),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(rank.port),
    )
