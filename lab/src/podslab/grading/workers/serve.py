"""The process that grades: it imports the graders once, and forks a child that does the work.

Started by `python -c` with an import of this module, never by multiprocessing, which would run the
user's main script again. It reads one request per line from standard input, a
number and {"function": "module:name", "arguments": [...], "deadline": seconds}, and answers each
with one line: the number and {"value": ...}, or {"error": "..."} when the function raised; or, for
a child that was killed, number 0 and {"died": signal}. A child that passes its deadline is ended by
the kernel (SIGALRM with its default action), even inside C code that never returns to Python; the
next child is a fork, so it is there in milliseconds.
"""

import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

from podsrl.plugins import import_module_or_file

_INPUT, _OUTPUT = 0, 1


def main() -> None:
    """Serve requests until standard input is closed."""
    output = os.dup(_OUTPUT)
    os.dup2(os.open(os.devnull, os.O_WRONLY), _OUTPUT)  # a grader that prints breaks nothing
    settings = json.loads(_read_line(bytearray()) or b"null")
    if settings is None:
        return
    for module in settings["preload"]:
        import_module_or_file(module)
    _limit(resource.RLIMIT_AS, settings["memory"])
    _limit(resource.RLIMIT_CORE, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's to handle
    os.dup2(_OUTPUT, 2)  # nobody reads it from here on: a full pipe would block
    gc.freeze()
    _write(output, b"0", {"ready": True})
    while True:
        child = os.fork()
        if child == 0:
            _serve(output)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            return
        died = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        os.write(output, b"\n")  # ends a line that the child may have left half written
        _write(output, b"0", {"died": died})


def _serve(output: int) -> None:
    """Answer requests in the child, one after the other."""
    buffer = bytearray()
    functions: dict[str, Callable[..., Any]] = {}
    while line := _read_line(buffer):
        number, _, line = line.partition(b" ")
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["deadline"])
        try:
            name = request["function"]
            if name not in functions:
                functions[name] = _resolve(name)
            answer = {"value": functions[name](*request["arguments"])}
            json.dumps(answer)
        except Exception as error:  # noqa: BLE001 (a grader may raise anything; the pool reports it)
            answer = {"error": f"{type(error).__name__}: {str(error)[:500]}"}
        signal.setitimer(signal.ITIMER_REAL, 0)
        _write(output, number, answer)


def _resolve(name: str) -> Callable[..., Any]:
    where, _, attribute = name.rpartition(":")
    function: Callable[..., Any] = getattr(import_module_or_file(where), attribute)
    return function


def _read_line(buffer: bytearray) -> bytes:
    """The next line, or b"" at the end of input."""
    while b"\n" not in buffer:
        chunk = os.read(_INPUT, 1 << 16)
        if not chunk:
            return b""
        buffer += chunk
    line, _, rest = bytes(buffer).partition(b"\n")
    buffer[:] = rest
    return line


def _write(output: int, number: bytes, message: dict[str, Any]) -> None:
    os.write(output, number + b" " + json.dumps(message).encode() + b"\n")


def _limit(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    if sys.platform == "linux" or what != resource.RLIMIT_AS:  # macOS refuses to limit memory
        resource.setrlimit(what, (value, value))
