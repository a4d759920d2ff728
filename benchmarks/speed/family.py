"""A family of processes, one trainer each, whose steps are measured in turns."""

import multiprocessing
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.speed.serve import Rank, serve
from benchmarks.speed.timings import in_turns
from benchmarks.speed.trainers import Setting
from podsrl.errors import PodsError

#: Turns whose seconds don't count: the first ones warm up, the last ones measure memory.
WARM_UP, MEMORY = 1, 4
_GRACE = 10.0  # seconds for a process to end by itself


@dataclass
class Steps:
    """What was measured of one trainer, round by round.

    seconds: by phase, for each optimiser step. memory: peak bytes by phase, above the process's
    resident memory before its first step.
    """

    seconds: list[dict[str, float]]
    memory: list[dict[str, int]]

    def as_json(self) -> dict[str, Any]:
        """As plain lists and mappings."""
        return {"seconds": self.seconds, "memory": self.memory}


class Member:
    """A trainer in its process, or in several that share its steps.

    A context manager; on leaving it its processes are gone.
    """

    def __init__(self, setting: Setting, logs: Path) -> None:
        self.setting = setting
        # forked from a server that has imported everything once, and started no thread
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["benchmarks.speed.serve"])
        port = _free_port() if setting.processes > 1 else 0
        self._processes, self._connections, self._logs = [], [], []
        for index in range(setting.processes):
            mine, theirs = context.Pipe()
            log = logs / f"{setting.name.replace(' ', '-').replace('/', '-')}-{index}.log"
            rank = Rank(index, setting.processes, port)
            process = context.Process(target=serve, args=(setting, rank, theirs, log), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._connections.append(mine)
            self._logs.append(log)

    def __enter__(self) -> "Member":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self._connections:
            connection.close()  # read as the end
        for process in self._processes:
            process.join(_GRACE)
            if process.is_alive():
                process.kill()
                process.join()

    def turn(self, memory: bool = False) -> dict[str, float]:
        """Make one turn, and return the main process's seconds, or peak bytes, by phase.

        Raises:
            PodsError: a process ended; the message has the end of its log.
        """
        for index in range(self.setting.processes):
            self._talk(index, lambda connection: connection.send(memory))
        answers = [
            self._talk(index, lambda connection: connection.recv())
            for index in range(self.setting.processes)
        ]
        return dict(answers[0])

    def _talk(self, index: int, do: Callable[[Connection], Any]) -> Any:
        try:
            return do(self._connections[index])
        except (EOFError, ConnectionError) as error:
            self._processes[index].join(_GRACE)
            log = self._logs[index]
            said = log.read_text(encoding="utf-8", errors="replace").strip()[-1000:]
            raise PodsError(f"{self.setting.name} ended; the end of {log}:\n{said}") from error


def measure_in_turns(
    settings: Sequence[Setting],
    rounds: int,
    logs: Path,
    tick: Callable[[str], None] = lambda name: None,
) -> dict[str, Steps]:
    """Steps of all settings, one turn each a round, everyone's peak memory at the end.

    Args:
        settings: with names that differ.
        rounds: of seconds, beside those that warm up.
        logs: folder for what the processes print.
        tick: called after every turn with the setting's name.
    """
    names = [setting.name for setting in settings]
    found = {name: Steps([], []) for name in names}
    with ExitStack() as stack:
        members = {s.name: stack.enter_context(Member(s, logs)) for s in settings}
        for number, name in enumerate(in_turns(names, WARM_UP + rounds + MEMORY)):
            turn, member = number // len(names), members[name]
            if turn < WARM_UP + rounds:
                seconds = member.turn()
                if turn >= WARM_UP:
                    steps = member.setting.steps_per_generation
                    found[name].seconds.append({p: s / steps for p, s in seconds.items()})
            else:
                peaks = member.turn(memory=True)
                found[name].memory.append({p: int(b) for p, b in peaks.items()})
            tick(name)
    return found


def turns(settings: int, rounds: int) -> int:
    """How many turns `measure_in_turns` makes."""
    return settings * (WARM_UP + rounds + MEMORY)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
