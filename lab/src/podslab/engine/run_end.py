"""The side of a run's own process: its lock, how it ends, and what it leaves for its parent."""

import os
import threading
from pathlib import Path

from filelock import FileLock

from podsrl.rollout_log import files
from podsrl.rollout_log.run_folder import RunFolder

#: A crash, or a failing reward function.
FAILED = 1
#: An error of the user's, which other runs would share.
USER_ERROR = 2
#: The process that started it is gone.
PARENT_GONE = 3
_WAIT_FOR_LOCK = 30.0  # seconds for the last process of a killed comparison to notice


def lock_of(run: RunFolder) -> FileLock:
    """The lock that a process holds while it works on a run."""
    path = run.path.with_name(f"{run.path.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path, timeout=_WAIT_FOR_LOCK)


def end_with_parent() -> None:
    """End this process once nobody holds the other end of its standard input any more.

    From then on its standard input is empty: a program that asks for input gets an `EOFError`, and
    does not wait for ever.
    """
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def watch() -> None:
        os.read(pipe, 1)  # nothing is ever written: it returns when the pipe is closed
        os._exit(PARENT_GONE)

    threading.Thread(target=watch, daemon=True).start()


def error_file(folder: Path) -> Path:
    """Where the process of the run in a folder writes why it fails."""
    return folder.with_name(f"{folder.name}.error.json")


def write_error(file: Path, status: int, message: str) -> None:
    """Write why a process fails; of several processes of a run the first one's reason stays."""
    if not file.exists():
        files.write_json(file, {"status": status, "message": " ".join(message.split())})
