"""Real processes, forked from this one, which has imported torch already: no 7 s to begin with.

They begin as a new one does: with their own output, the usual handlers of signals, no warnings
taken as errors, and nothing in accelerate's shared state.
"""

import logging
import os
import runpy
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accelerate.state import AcceleratorState, GradientState

from podsrl.cli import main
from podsrl.rollout_log.files import DamagedFileWarning
from podsrl.rollout_log.run_folder import RunFolder


class Forked:
    """A call in a process of its own. What it returns, if anything, is its exit code.

    Args:
        call: what the process does.
        log: file that its output is appended to.
        errors: another file for its standard error.
        env: more environment variables.
    """

    def __init__(
        self,
        call: Callable[[], Any],
        log: Path,
        errors: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self.log = errors or log
        self.pid = os.fork()
        if self.pid == 0:
            _begin(log, errors or log, env or {})
            os._exit(_outcome(call))

    def wait(self) -> int:
        """Its exit code; of a signal, minus its number."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def wait_for(self, what: Callable[[], Any]) -> None:
        """Until this is so, while the process runs."""
        deadline = time.monotonic() + 240  # a bound on hanging, not a measurement
        with warnings.catch_warnings():
            # The process may be writing the last line of a file at this moment.
            warnings.simplefilter("ignore", DamagedFileWarning)
            while not what():
                assert os.waitpid(self.pid, os.WNOHANG) == (0, 0), self.said()
                assert time.monotonic() < deadline, self.said()
                time.sleep(0.01)

    def send(self, number: signal.Signals) -> int:
        """Its exit code after this signal."""
        os.kill(self.pid, number)
        return self.wait()

    def said(self) -> str:
        """Its standard error, after its output if they are one file."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def pods(words: list[str], log: Path) -> Forked:
    """`pods ...` in a process of its own."""
    return Forked(lambda: main(words), log)


def hold_after(step: int) -> None:
    """Let the run of this process stand still, once it has logged a step, until it is killed.

    A test that kills it then does so in the middle of the run, however fast that is.
    """
    append = RunFolder.append_metrics

    def append_and_hold(run: RunFolder, metrics: Any) -> None:
        append(run, metrics)
        if metrics["step"] == step:
            threading.Event().wait()

    RunFolder.append_metrics = append_and_hold  # type: ignore[method-assign]


def _begin(log: Path, errors: Path, env: dict[str, str]) -> None:
    os.environ.update(env)
    _handle_signals_as_python_does()
    for stream, (name, path) in enumerate((("stdout", log), ("stderr", errors)), start=1):
        with path.open("ab") as file:
            os.dup2(file.fileno(), stream)
        setattr(sys, name, open(stream, "w", buffering=1, closefd=False))  # noqa: SIM115
    logging.getLogger().handlers.clear()
    logging.lastResort = logging.StreamHandler(sys.stderr)
    logging.lastResort.setLevel(logging.WARNING)
    warnings.resetwarnings()
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def _handle_signals_as_python_does() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _outcome(call: Callable[[], Any]) -> int:
    try:
        return call() or 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 (as an interpreter ends)
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def run_script(arguments: tuple[str, ...]) -> None:
    """`python ARGUMENTS`: a file or -m with a module, and its arguments."""
    _handle_signals_as_python_does()  # not as the process that it was forked from
    try:
        if arguments[0] == "-m":
            sys.argv = list(arguments[1:])
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(arguments)
            sys.path.insert(0, str(Path(arguments[0]).parent))
            runpy.run_path(arguments[0], run_name="__main__")
    except Exception:  # noqa: BLE001 (as an interpreter ends)
        traceback.print_exc()
        sys.exit(1)
