"""The peak of a process's resident memory, which Linux lets it set back."""

import ctypes
import re
from pathlib import Path

from podsrl.errors import UnsupportedError

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # see proc(5)


class PeakMemory:
    """Peak resident bytes since the last `reset`, above what was resident at construction.

    Resident memory is what an out-of-memory killer looks at; on a CPU torch keeps no count of its
    own. What was freed before is given back to the system first, so that a peak is that of memory
    in use.

    Raises:
        UnsupportedError: this operating system can't set the peak back.
    """

    def __init__(self) -> None:
        try:
            self._libc = ctypes.CDLL(None)
            self.reset()
            self._base = _resident("VmRSS")
        except (OSError, AttributeError) as error:
            raise UnsupportedError(
                f"the peak of memory by phase needs Linux's {_CLEAR} and glibc: {error}"
            ) from error

    def reset(self) -> None:
        """Forget the peak so far."""
        self._libc.malloc_trim(0)
        _CLEAR.write_text(_RESET_PEAK)

    def bytes(self) -> int:
        """The peak since the last `reset`, above the base."""
        return max(0, _resident("VmHWM") - self._base)


def _resident(name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    if match is None:
        raise OSError(f"{_STATUS} has no {name}")
    return 1024 * int(match.group(1))
