"""A sandbox on this machine: bubblewrap (github.com/containers/bubblewrap).

It gives the code its own namespaces: no network, its own process tree, and a file system of the
interpreter (read-only) and an empty scratch folder in memory. Time, memory, processes, output and
disk are limited; see `Limits`.
"""

import contextlib
import functools
import os
import secrets
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

from podslab.grading.sandbox.job import PROGRAM, Limits, Result, packages, standard_input
from podslab.grading.sandbox.seccomp import seccomp_filter

_TOOLS = ("/bin", "/lib", "/lib32", "/lib64", "/sbin")
_DEVICES = ("/dev/null", "/dev/urandom")
_SCRATCH = "/scratch"


@functools.cache
def why_no_bubblewrap() -> str:
    """Why bubblewrap can't be used here; "" if it can."""
    if sys.platform != "linux":
        return "bubblewrap needs Linux"
    if shutil.which("bwrap") is None:
        return "the command bwrap is not installed"
    result = Bubblewrap().run("", "", Limits())
    if result.status == "passed":
        return ""
    last = (result.output.strip().splitlines() or ["no reason given"])[-1]
    return f"bwrap is installed but can't run ({last})"


class Bubblewrap:
    """Each run in a new bubblewrap sandbox."""

    def run(self, code: str, tests: str, limits: Limits) -> Result:
        """Run `code`, then `tests` in the same namespace; passed if nothing was raised."""
        token = secrets.token_hex(16)
        with _filter_file() as filter_fd:
            try:
                process = subprocess.Popen(
                    _command(limits, filter_fd),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=(filter_fd,) if filter_fd is not None else (),
                    start_new_session=True,
                    env={},
                )
            except OSError as error:
                return Result("broken", str(error))
        with process:
            try:
                output, ended = _exchange(
                    process, standard_input(code, tests, limits, token).encode(), limits
                )
            finally:
                process.kill()  # the end of bwrap is the end of every process inside
        text = output[-4_000:].decode(errors="replace").lstrip("\n")
        if output.endswith(token.encode()):
            return Result("passed", text.removesuffix(token))
        if output.startswith(b"bwrap: "):
            return Result("broken", text)
        return Result("failed" if ended else "timeout", text)


def _command(limits: Limits, filter_fd: int | None) -> list[str]:
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    command += ["--cap-drop", "ALL", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"]
    command[0] = shutil.which("bwrap") or "bwrap"
    for folder in dict.fromkeys(("/usr", sys.base_prefix, *packages())):
        command += ["--ro-bind", folder, folder]
    for folder in _TOOLS:
        if os.path.islink(folder):
            command += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            command += ["--ro-bind", folder, folder]
    for device in _DEVICES:  # bwrap's --dev has more, and costs seven mounts
        command += ["--dev-bind", device, device]
    command += ["--proc", "/proc", "--size", str(limits.disk), "--tmpfs", _SCRATCH]
    # The new root is a file system in memory, too: nothing may be written there.
    command += ["--remount-ro", "/", "--chdir", _SCRATCH]
    environment = {"HOME": _SCRATCH, "TMPDIR": _SCRATCH, "PATH": "/usr/bin", "OMP_NUM_THREADS": "1"}
    for name, value in environment.items():
        command += ["--setenv", name, value]
    if filter_fd is not None:
        command += ["--seccomp", str(filter_fd)]
    interpreter = os.path.realpath(sys.executable)
    return [*command, interpreter, "-I", "-S", "-B", "-u", "-c", PROGRAM]


@contextlib.contextmanager
def _filter_file() -> Iterator[int | None]:
    """A file descriptor from which bwrap can read the system-call filter."""
    program = seccomp_filter()
    if program is None:
        yield None
        return
    reading, writing = os.pipe()
    os.write(writing, program)  # shorter than any pipe
    os.close(writing)
    try:
        yield reading
    finally:
        os.close(reading)


def _exchange(process: subprocess.Popen[bytes], text: bytes, limits: Limits) -> tuple[bytes, bool]:
    """Write the job, collect the output; (output, whether the process ended in time)."""
    assert process.stdin is not None
    assert process.stdout is not None
    end = time.monotonic() + limits.seconds
    os.set_blocking(process.stdin.fileno(), False)
    output, sent = bytearray(), 0
    reading, writing = process.stdout.fileno(), process.stdin.fileno()
    while (left := end - time.monotonic()) > 0:
        poll = select.poll()
        poll.register(reading, select.POLLIN)
        if sent < len(text):
            poll.register(writing, select.POLLOUT)
        for descriptor, _ in poll.poll(left * 1000):
            if descriptor == writing:
                try:
                    sent += os.write(writing, text[sent : sent + 65_536])
                except BrokenPipeError:
                    sent = len(text)
                continue
            chunk = os.read(reading, 65_536)
            output += chunk
            if not chunk or len(output) > limits.output:
                return bytes(output), True
    return bytes(output), False
