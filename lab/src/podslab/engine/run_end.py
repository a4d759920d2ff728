"""The side of a run's own process: its lock, how it ends, and what it leaves for its parent."""

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from podsrl.errors import InvalidInputError, PodsError
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


@contextmanager
def at_work_on(run: RunFolder) -> Iterator[None]:
    """Hold the lock of a run; where several processes train it, the first one holds it.

    Raises:
        InvalidInputError: Another process holds it.
    """
    if os.environ.get("RANK", "0") != "0":
        yield
        return
    lock = lock_of(run)
    try:
        lock.acquire()
    except Timeout as error:
        raise InvalidInputError(f"another process is at work on {run.path}") from error
    try:
        yield
    finally:
        lock.release()


def exit_status(
    work: Callable[[], None], errors: Path, of_this_run: tuple[type[Exception], ...]
) -> int:
    """Do the work of a run's process, and write why it fails, if it does.

    Args:
        work: What is done.
        errors: As in `error_file`.
        of_this_run: Errors of the user's that other runs need not share, such as those of rewards.

    Returns:
        0; `FAILED` for a crash and for the errors `of_this_run`; `USER_ERROR` for any other
        `PodsError`; 130 where it is interrupted. The error is the last line that is printed.
    """
    try:
        work()
    except PodsError as error:
        print(error, file=sys.stderr, flush=True)
        status = FAILED if isinstance(error, of_this_run) else USER_ERROR
        write_error(errors, status, str(error))
        return status
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 (whatever the work raises)
        traceback.print_exc()
        write_error(errors, FAILED, " ".join(traceback.format_exception_only(error)))
        return FAILED
    return 0


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
