"""The processes of a job as `torchrun` starts them on one machine, forked from this one.

torchrun's own agent has threads of its own while it forks, and a rank that is forked while one of
them holds a lock can wait for it forever. So the ranks are forked from here, with the environment
that torchrun gives them.
"""

import faulthandler
import os
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple

from support.forked import Forked, run_script
from support.ports import held_port

_HANGS_AFTER = 600.0  # seconds: a bound on hanging, not a measurement


class Ended(NamedTuple):
    """A job that has ended; its code is 1 where a rank failed, as torchrun's is."""

    returncode: int
    stdout: str
    stderr: str


def torchrun(world: int, folder: Path, *arguments: str, env: dict[str, str] | None = None) -> Ended:
    """`torchrun --nproc_per_node WORLD ARGUMENTS`; its output is in `out` and `err` of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "out"
    err = folder / "err"
    with held_port() as port:
        job = {
            "TRL_EXPERIMENTAL_SILENCE": "1",
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(world),
            "LOCAL_WORLD_SIZE": str(world),
            **(env or {}),
        }
        rank_of = {}
        for rank in range(world):
            its_own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            process = Forked(lambda: _run(arguments), out, err, {**job, **its_own})
            rank_of[process.pid] = rank
        failures = _wait_for(rank_of)

    said = [file.read_text("utf-8", "replace") for file in (out, err)]
    return Ended(int(bool(failures)), said[0], said[1] + failures)


def _run(arguments: tuple[str, ...]) -> None:
    """The script; where it hangs, it says where each of its threads is, and ends."""
    faulthandler.dump_traceback_later(_HANGS_AFTER, exit=True, file=sys.stderr)
    run_script(arguments)


def _wait_for(rank_of: dict[int, int]) -> str:
    """Which ranks failed by themselves, and by what; it ends the others. Empty where none does.

    A rank that waits for one that has died fails, too, and may be noticed first.

    Args:
        rank_of: By the number of a rank's process.
    """
    failures = ""
    running = set(rank_of)
    while running:
        ended = _ended(running)
        has_failed = any(ended.values())
        if has_failed:  # and so may have the rank that it waited for, since that was looked at
            ended |= _ended(running - set(ended))
        for pid, status in ended.items():
            if status:
                code = os.waitstatus_to_exitcode(status)
                by = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                failures += f"rank {rank_of[pid]} failed: {by}\n"

        running -= set(ended)
        if has_failed:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            return failures
        time.sleep(0.01)
    return failures


def _ended(running: set[int]) -> dict[int, int]:
    """Of these processes those that have ended, each with its status."""
    found = {}
    for pid in running:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            found[pid] = status
    return found
