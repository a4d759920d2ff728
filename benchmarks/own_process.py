"""Calling a function in a process of its own, which ends with it whatever happens there.

The processes are forked from a server that has imported what they need and has never touched CUDA,
as a process that has can't be forked.
"""

import multiprocessing
import os
import pkgutil
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

#: How long a process may take to end after it has given its result, in seconds.
_TO_END = 30.0


class CallFailedError(Exception):
    """The process ended without a result, or the function raised; the message says what."""


def import_once(modules: Sequence[str]) -> None:
    """Let the server import these modules, so that no process has to; before the first call."""
    multiprocessing.set_forkserver_preload(list(modules))

    # Where torch looks for a GPU while it is imported, it asks NVML and begins nothing of CUDA's.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"


def in_own_process(name: str, *arguments: Any, seconds: float) -> Any:
    """The result of a function.

    Args:
        name: Where it is, as `package.module:function`; this process need not import it.
        arguments: They are pickled, as is the result.
        seconds: After these the process is killed.

    Raises:
        TimeoutError: They were over.
        CallFailedError: The function raised, or the process ended by itself.
    """
    context: Any = multiprocessing.get_context("forkserver")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(sender, name, arguments), daemon=True)
    process.start()
    sender.close()  # so that reading ends where the process does

    try:
        if not receiver.poll(seconds):
            raise TimeoutError(f"stopped after {seconds:.0f} s")
        has_result, value = receiver.recv()
        process.join(_TO_END)  # what it held of the GPU is free then
    except EOFError as error:
        process.join(_TO_END)
        raise CallFailedError(f"the process ended with {process.exitcode}") from error
    finally:
        process.kill()
        process.join()
        receiver.close()

    if not has_result:
        raise CallFailedError(value)
    return value


def _send_result(sender: Connection, name: str, arguments: Sequence[Any]) -> None:
    try:
        result = (True, pkgutil.resolve_name(name)(*arguments))
    except Exception as error:  # noqa: BLE001 (whatever it was, the caller is told)
        traceback.print_exc()
        result = (False, f"{type(error).__name__}: {error}")
    sender.send(result)
