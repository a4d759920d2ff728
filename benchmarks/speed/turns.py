"""Trainers in processes of their own, which make a turn of steps when they are asked."""

import multiprocessing
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.speed.numbers import in_turns
from benchmarks.speed.probe import Probe
from benchmarks.speed.resources import peak_memory
from benchmarks.speed.trainers import Setting, build
from podsrl.errors import PodsError

#: Turns of each trainer that do not count.
WARM_UP = 1
_GRACE = 10.0  # seconds for a process to end by itself


class Member:
    """A trainer in its process, a context manager; on leaving it the process is gone."""

    def __init__(self, setting: Setting, logs: Path) -> None:
        self.setting = setting
        self._log = logs / f"{setting.name}.log"
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(setting, theirs, self._log))
        self._process.start()
        theirs.close()

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()  # read as the end
        self._process.join(_GRACE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def turn(self) -> dict[str, float]:
        """Make one turn: the seconds of an optimiser step by phase, and `peak`.

        `peak` is by how many bytes the peak of resident memory rose since before the first step.

        Raises:
            PodsError: the process ended; the message has the end of its log.
        """
        try:
            self._connection.send(True)
            return dict(self._connection.recv())
        except (EOFError, ConnectionError) as error:
            self._process.join(_GRACE)
            said = self._log.read_text(encoding="utf-8", errors="replace").strip()[-1000:]
            raise PodsError(f"{self.setting.name} ended: {self._log}:\n{said}") from error


def measure_in_turns(
    settings: Sequence[Setting], rounds: int, logs: Path
) -> dict[str, list[dict[str, float]]]:
    """The turns of all settings by name, one of each in every round; prints a dot for each."""
    turns_of: dict[str, list[dict[str, float]]] = {setting.name: [] for setting in settings}
    with ExitStack() as stack:
        members = {}
        for setting in settings:
            members[setting.name] = stack.enter_context(Member(setting, logs))

        for name in in_turns(list(turns_of), WARM_UP + rounds):
            turns_of[name].append(members[name].turn())
            print(".", end="", flush=True)
    return {name: turns[WARM_UP:] for name, turns in turns_of.items()}


def serve(setting: Setting, connection: Connection, log: Path) -> None:
    """Build the trainer and train, one turn at a time, until the other end of the pipe is closed.

    A turn is one generation with all its optimiser steps. What is printed goes to `log`.
    """
    _print_to(log)
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_OFFLINE"] = "1"

    with tempfile.TemporaryDirectory() as folder:
        trainer = build(setting, str(Path(folder) / "run"))
        _hold_back(trainer, setting.steps_per_generation, connection)
        trainer.train()


def _hold_back(trainer: Any, steps: int, connection: Connection) -> None:
    """Let a trainer make a turn only when it is asked, and answer with what it took."""
    probe = Probe()
    probe.watch(trainer)
    peak_before = peak_memory()
    steps_begun = 0

    def answer() -> None:
        probe.settle()
        measured = {phase: seconds / steps for phase, seconds in probe.seconds.items()}
        connection.send({**measured, "peak": peak_memory() - peak_before})

    def wait() -> None:
        try:
            connection.recv()
        except EOFError:
            raise SystemExit(0) from None

    # Fetching batches is the first thing of every optimiser step.
    get_batch_samples = trainer.get_batch_samples

    def held_back(*args: Any, **kwargs: Any) -> Any:
        nonlocal steps_begun
        begins_turn = steps_begun % steps == 0
        if begins_turn and steps_begun > 0:
            answer()
        if begins_turn:
            wait()
            probe.reset()
        steps_begun += 1
        return get_batch_samples(*args, **kwargs)

    trainer.get_batch_samples = held_back


def _print_to(log: Path) -> None:
    """Send what this process prints to a file, what libraries in C print, too."""
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(descriptor, stream.fileno())
