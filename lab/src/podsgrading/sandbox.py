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
_NOBODY = "65534"
#: Bytes that are written or read at once.
_CHUNK = 65_536
#: Seconds of waiting for a processor that are too few to be given back.
_NO_WAIT = 0.05
#: At most so many times its own seconds are given back: a program may start many that wait.
_MOST_GIVEN_BACK = 5.0
_HOW_TO = (
    "Install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install"
    " bubblewrap) on Linux, with unprivileged user namespaces allowed or as a full root"
)


@dataclass(frozen=True)
class Limits:
    """The limits of the code of one answer.

    seconds: wall-clock time without that in which it waits for a processor, since a busy machine
    makes no answer wrong; with it, at most six times as long. cpu: seconds on a processor, which
    end an endless loop. memory: bytes of address space. disk: bytes of its scratch folder, which
    lies in memory, too; a file may have a quarter of them. output: bytes it may print.
    """

    seconds: float = 10.0
    cpu: int = 5
    memory: int = 1 << 30
    disk: int = 64 << 20
    output: int = 1 << 16


@dataclass(frozen=True)
class Result:
    """The end of a run.

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

    lines = result.output.strip().splitlines() or ["no reason given"]
    return f"bwrap is installed but can't run ({lines[-1]})"


def run_in_sandbox(code: str, tests: str, limits: Limits) -> Result:
    """Run `code`, then `tests` in the same namespace, in a new sandbox."""
    token = secrets.token_hex(16)  # printed when every test has passed
    job = _job(code, tests, limits, token)

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
            output, ended = _exchange(process, job, limits)
        finally:
            process.kill()  # the end of bwrap is the end of every process inside

    text = output[-4_000:].decode(errors="replace").lstrip("\n")
    if output.endswith(token.encode()):
        return Result("passed", text.removesuffix(token))
    if output.startswith(b"bwrap: "):
        return Result("broken", text)
    return Result("failed" if ended else "timeout", text)


def _command(limits: Limits) -> list[str]:
    bwrap = shutil.which("bwrap") or "bwrap"
    environment = {"HOME": _SCRATCH, "TMPDIR": _SCRATCH, "PATH": "/usr/bin", "OMP_NUM_THREADS": "1"}

    command = [bwrap, "--die-with-parent", "--new-session", "--clearenv"]
    command += ["--cap-drop", "ALL", "--hostname", "sandbox"]
    command += _namespaces()
    command += _file_system(limits)
    for name, value in environment.items():
        command += ["--setenv", name, value]

    # Isolated, without `site`, without bytecode, with unbuffered output.
    interpreter = [os.path.realpath(sys.executable), "-I", "-S", "-B", "-u"]
    return [*command, *interpreter, "-c", _PROGRAM]


def _namespaces() -> list[str]:
    if os.geteuid() != 0:
        return ["--unshare-all", "--uid", _NOBODY, "--gid", _NOBODY]

    # In a user namespace root's processes stay root's, whose number the kernel never limits. So
    # there is none, and the program inside becomes nobody.
    spaces = ["ipc", "pid", "net", "uts", "cgroup-try"]
    options = [f"--unshare-{space}" for space in spaces]
    options += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return options


def _file_system(limits: Limits) -> list[str]:
    """The interpreter and its packages to read, a few devices, and a scratch folder."""
    options = []
    for folder in dict.fromkeys(("/usr", sys.base_prefix, *_packages())):
        options += [*_open_parents(folder), "--ro-bind", folder, folder]

    for folder in _TOOLS:
        if os.path.islink(folder):
            options += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            options += ["--ro-bind", folder, folder]

    for device in _DEVICES:
        options += [*_open_parents(device), "--dev-bind", device, device]
    options += ["--proc", "/proc"]

    # The new root is a file system in memory, too: nothing may be written there.
    options += ["--perms", "0777", "--size", str(limits.disk), "--tmpfs", _SCRATCH]
    options += ["--remount-ro", "/", "--chdir", _SCRATCH]
    return options


def _open_parents(path: str) -> list[str]:
    """Make the folders above a path, which bwrap itself would close to all but root."""
    from_the_root = list(reversed(Path(path).parents))
    options = []
    for parent in from_the_root[1:]:  # the root itself is there
        options += ["--dir", str(parent)]
    return options


def _job(code: str, tests: str, limits: Limits, token: str) -> bytes:
    """The job that the program inside reads from its standard input."""
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
    # A Python literal: the program inside reads it without importing json.
    text = ascii(job)
    return f"{len(text):010d}{text}{token}".encode()


def _packages() -> list[str]:
    """The folders of this interpreter's packages, which the code may import."""
    paths = sysconfig.get_paths()
    return list(dict.fromkeys((paths["purelib"], paths["platlib"])))


def _exchange(process: subprocess.Popen[bytes], job: bytes, limits: Limits) -> tuple[bytes, bool]:
    """Write the job while collecting the output; (output, whether the process ended in time).

    A process that prints more than it may has ended, too. The time for which it was ready to run
    and had no processor does not count.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    reading = process.stdout.fileno()
    writing = process.stdin.fileno()
    os.set_blocking(writing, False)

    output = bytearray()
    sent = 0
    began = time.monotonic()
    waited = 0.0

    while True:
        seconds_left = limits.seconds + waited - (time.monotonic() - began)
        if seconds_left <= 0:
            waited_by_now = min(_seconds_in_line(process.pid), _MOST_GIVEN_BACK * limits.seconds)
            if waited_by_now - waited < _NO_WAIT:
                return bytes(output), False
            waited = waited_by_now
            continue

        poll = select.poll()
        poll.register(reading, select.POLLIN)
        if sent < len(job):
            poll.register(writing, select.POLLOUT)

        for descriptor, _ in poll.poll(seconds_left * 1000):
            if descriptor == writing:
                try:
                    sent += os.write(writing, job[sent : sent + _CHUNK])
                except BrokenPipeError:  # it reads no more; what it printed is still to be read
                    sent = len(job)
                continue

            chunk = os.read(reading, _CHUNK)
            output += chunk
            if not chunk or len(output) > limits.output:
                return bytes(output), True


def _seconds_in_line(process: int) -> float:
    """For how long a process and those below it were ready to run while no processor was free.

    Where the kernel does not say (`CONFIG_SCHED_INFO`, `CONFIG_PROC_CHILDREN`) it is 0.
    """
    nanoseconds = 0
    processes = [process]
    while processes:
        pid = processes.pop()
        folder = Path(f"/proc/{pid}")
        try:
            _, in_line, _ = (folder / "schedstat").read_text().split()
            children = (folder / "task" / str(pid) / "children").read_text().split()
        except OSError:  # it has ended, or the kernel does not say
            continue
        nanoseconds += int(in_line)
        processes += map(int, children)
    return nanoseconds * 1e-9
