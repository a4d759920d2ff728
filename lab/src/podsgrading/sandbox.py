"""Running code that a model wrote: in bubblewrap (github.com/containers/bubblewrap) only.

It gives the code namespaces of its own: no network, its own process tree, and a file system of the
interpreter (read-only) and an empty scratch folder in memory. Time, memory, output and disk are
limited, and it can start neither processes nor threads. `inside_sandbox` is the program inside.
"""

import functools
import os
import secrets
import select
import shutil
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

from podsrl.errors import MissingDependencyError

_PROGRAM = Path(__file__).with_name("inside_sandbox.py").read_text(encoding="utf-8")
_TOOLS = ("/bin", "/lib", "/lib32", "/lib64", "/sbin")
_DEVICES = ("/dev/null", "/dev/urandom")  # bwrap's --dev has more, and costs seven mounts
_SCRATCH = "/scratch"
_HOW_TO = (
    "Install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install"
    " bubblewrap) on Linux, with unprivileged user namespaces allowed or as a full root"
)


@dataclass(frozen=True)
class Limits:
    """What the code of one answer may use.

    seconds: wall-clock time, generous for a busy machine. cpu: seconds on a processor, which end an
    endless loop. memory: bytes of address space. disk: bytes of its scratch folder, which lies in
    memory, too; a file may have a quarter of them. output: bytes it may print.
    """

    seconds: float = 10.0
    cpu: int = 5
    memory: int = 1 << 30
    disk: int = 64 << 20
    output: int = 1 << 16


@dataclass(frozen=True)
class Result:
    """How a run ended.

    status: "passed"; "failed": an assertion or an exception, an early exit, a limit passed;
        "timeout": its time was over; "broken": the sandbox itself failed, nothing is known.
    output: the end of what was printed, both streams.
    """

    status: str
    output: str


def check_sandbox() -> None:
    """Raise `MissingDependencyError`, with why and what to do, if there is no bubblewrap here."""
    if problem := why_no_sandbox():
        raise MissingDependencyError(
            f"code that a model wrote runs only in a sandbox, and there is none: {problem}."
            f" {_HOW_TO}."
        )


@functools.cache
def why_no_sandbox() -> str:
    """Why bubblewrap can't be used here; "" if it can."""
    if sys.platform != "linux":
        return "bubblewrap needs Linux"
    if shutil.which("bwrap") is None:
        return "the command bwrap is not installed"
    result = run_in_sandbox("", "", Limits())
    if result.status == "passed":
        return ""
    last = (result.output.strip().splitlines() or ["no reason given"])[-1]
    return f"bwrap is installed but can't run ({last})"


def run_in_sandbox(code: str, tests: str, limits: Limits) -> Result:
    """Run `code`, then `tests` in the same namespace, in a new sandbox."""
    token = secrets.token_hex(16)
    try:
        process = subprocess.Popen(
            _command(limits),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={},
        )
    except OSError as error:
        return Result("broken", str(error))
    with process:
        try:
            output, ended = _exchange(process, _standard_input(code, tests, limits, token), limits)
        finally:
            process.kill()  # the end of bwrap is the end of every process inside
    text = output[-4_000:].decode(errors="replace").lstrip("\n")
    if output.endswith(token.encode()):
        return Result("passed", text.removesuffix(token))
    if output.startswith(b"bwrap: "):
        return Result("broken", text)
    return Result("failed" if ended else "timeout", text)


def _command(limits: Limits) -> list[str]:
    command = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session", "--clearenv"]
    command += ["--cap-drop", "ALL", "--hostname", "sandbox"]
    if os.geteuid():
        command += ["--unshare-all", "--uid", "65534", "--gid", "65534"]
    else:  # in a user namespace root's processes stay root's, whose number the kernel never limits
        spaces = ("ipc", "pid", "net", "uts", "cgroup-try")
        command += [f"--unshare-{space}" for space in spaces]
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    for folder in dict.fromkeys(("/usr", sys.base_prefix, *_packages())):
        command += [*_open_parents(folder), "--ro-bind", folder, folder]
    for folder in _TOOLS:
        if os.path.islink(folder):
            command += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            command += ["--ro-bind", folder, folder]
    for device in _DEVICES:
        command += [*_open_parents(device), "--dev-bind", device, device]
    command += ["--proc", "/proc", "--perms", "0777", "--size", str(limits.disk)]
    # The new root is a file system in memory, too: nothing may be written there.
    command += ["--tmpfs", _SCRATCH, "--remount-ro", "/", "--chdir", _SCRATCH]
    environment = {"HOME": _SCRATCH, "TMPDIR": _SCRATCH, "PATH": "/usr/bin", "OMP_NUM_THREADS": "1"}
    for name, value in environment.items():
        command += ["--setenv", name, value]
    return [*command, os.path.realpath(sys.executable), "-I", "-S", "-B", "-u", "-c", _PROGRAM]


def _open_parents(path: str) -> list[str]:
    """Make the folders above a path, which bwrap itself would close to all but root."""
    return [word for parent in list(Path(path).parents)[-2::-1] for word in ("--dir", str(parent))]


def _standard_input(code: str, tests: str, limits: Limits, token: str) -> bytes:
    """What the program inside reads from its standard input."""
    job = {
        "code": code,
        "tests": tests,
        "path": _packages(),
        "limits": {
            "RLIMIT_AS": limits.memory,
            "RLIMIT_FSIZE": limits.disk // 4,
            "RLIMIT_CPU": limits.cpu,
            "RLIMIT_NOFILE": 32,
            "RLIMIT_NPROC": 0,
            "RLIMIT_CORE": 0,
        },
    }
    text = ascii(job)
    return f"{len(text):010d}{text}{token}".encode()


def _packages() -> list[str]:
    """The folders of this interpreter's packages, which the code may import."""
    paths = sysconfig.get_paths()
    return list(dict.fromkeys((paths["purelib"], paths["platlib"])))


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
