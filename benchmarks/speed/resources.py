"""Seconds, memory and traffic of a process, as Linux counts them."""

import ctypes
import os
import re
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from podsrl.errors import PodsError


@contextmanager
def timed(
    seconds: MutableMapping[str, float],
    phase: str,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[None]:
    """Add the seconds of a block to those of a phase."""
    began = clock()
    yield
    seconds[phase] = seconds.get(phase, 0.0) + clock() - began


def reset_memory() -> int:
    """Forget the largest resident memory so far; what is resident now, in bytes."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # else memory of before would be used again, unseen
    Path("/proc/self/clear_refs").write_text("5")
    return memory_of(os.getpid(), "VmRSS")


def peak_memory() -> int:
    """The largest resident memory of this process in bytes, since `reset_memory` if it was called.

    Not `ru_maxrss`, which begins with that of the process that started this one.
    """
    return memory_of(os.getpid(), "VmHWM")


def peaks_of_training(
    trainer: Any, seen: Callable[[Any], None] = lambda rows: None
) -> list[tuple[int, int]]:
    """Train, and give the peaks of memory of each step while generating and in the update.

    Both are in bytes above what is resident before training, in a process of its own. One
    generation serves one step.

    Args:
        trainer: A trainer of TRL's GRPO.
        seen: Called with the rows of each step.
    """
    generating: list[int] = []
    updating: list[int] = []
    make_rows = trainer._generate_and_score_completions
    before = reset_memory()

    def watched(*args: Any, **kwargs: Any) -> Any:
        if generating:
            updating.append(peak_memory() - before)
        reset_memory()
        rows = make_rows(*args, **kwargs)
        generating.append(peak_memory() - before)
        seen(rows)
        reset_memory()
        return rows

    trainer._generate_and_score_completions = watched
    trainer.train()
    updating.append(peak_memory() - before)
    return list(zip(generating, updating, strict=True))


def memory_of(process: int, kind: str) -> int:
    """The resident memory of a process, in bytes.

    Args:
        process: Its number.
        kind: Linux's name: "VmRSS" for what it has now, "VmHWM" for the most so far.

    Raises:
        PodsError: Linux does not say it here, as in some sandboxes.
        OSError: There is no such process, or this is not Linux.
    """
    status = Path(f"/proc/{process}/status")
    found = re.search(rf"^{kind}:\s+(\d+) kB", status.read_text(), re.MULTILINE)
    if found is None:
        raise PodsError(f"{status} does not say {kind}, which is measured here")
    return 1024 * int(found[1])  # what Linux calls kB is 1,024 bytes


def loopback() -> int:
    """The bytes that were sent over the loopback device so far."""
    found = re.search(r"^\s*lo:(.*)", Path("/proc/net/dev").read_text(), re.MULTILINE)
    assert found
    return int(found[1].split()[8])
