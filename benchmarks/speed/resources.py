"""Seconds, memory and traffic of this process, as Linux counts them."""

import ctypes
import re
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path


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
    return _of_status("VmRSS")


def peak_memory() -> int:
    """The largest resident memory since `reset_memory`, in bytes."""
    return _of_status("VmHWM")


def _of_status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return 1024 * int(found[1])


def loopback() -> int:
    """The bytes that were sent over the loopback device so far."""
    found = re.search(r"^\s*lo:(.*)", Path("/proc/net/dev").read_text(), re.MULTILINE)
    assert found
    return int(found[1].split()[8])
