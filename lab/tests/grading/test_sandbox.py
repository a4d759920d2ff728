"""What the sandbox refuses, in real runs of bubblewrap."""

import contextlib
import itertools
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from podsgrading import sandbox
from podsgrading.sandbox import Limits, check_sandbox, run_in_sandbox, why_no_sandbox
from podslab.tasks import get_task
from podsrl.errors import MissingDependencyError

pytestmark = pytest.mark.skipif(bool(why_no_sandbox()), reason=why_no_sandbox())


def run(code, tests="", **limits):
    return run_in_sandbox(code, tests, Limits(**limits))


def processes_named(name):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "comm").read_text().strip() == name:
                    found.append(entry.name)
    return found


def assert_none_is_left(name):
    end = time.monotonic() + 120  # a bound on hanging, not a measurement
    while processes_named(name) and time.monotonic() < end:
        time.sleep(0.05)
    assert processes_named(name) == []


@pytest.fixture
def over_once_seen(monkeypatch):
    """over_once_seen(name): the time of a run is over as soon as it has a process of this name."""

    def made(name):
        seen = []

        def monotonic():
            seen.extend(processes_named(name))
            return 1e9 if seen else 0.0

        monkeypatch.setattr(sandbox, "time", SimpleNamespace(monotonic=monotonic))
        return seen

    return made


def called(name):
    """A program whose process has this name."""
    return f"import ctypes, time\nctypes.CDLL(None).prctl(15, {name.encode()!r})\n"


def test_code_that_passes_its_tests_passes_and_its_output_is_kept():
    result = run("def f(x):\n    print('seen', x)\n    return x + 1", "assert f(1) == 2")
    assert result.status == "passed"
    assert result.output.strip() == "seen 1"


@pytest.mark.parametrize(
    "code",
    ["x = 2", "raise ValueError", "x = ", "import sys; sys.exit(0)", "import os; os._exit(0)"],
)
def test_code_that_fails_or_ends_before_its_tests_does_not_pass(code):
    assert run(code, "assert x == 1").status == "failed"


def test_reading_outside_the_scratch_folder_is_refused(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    for path in (str(secret), "/etc/passwd", "/proc/1/root/etc/passwd", str(Path(__file__))):
        result = run(f"print(open({path!r}).read())")
        assert result.status == "failed"
        assert "FileNotFoundError" in result.output or "PermissionError" in result.output
        assert "the secret" not in result.output
    assert "root:" not in run("import os; print(os.listdir('/'), os.listdir('/home'))").output


def test_the_environment_of_this_process_is_not_seen(monkeypatch):
    monkeypatch.setenv("A_SECRET_TOKEN", "swordfish")
    code = "import os\nprint(os.environ, open('/proc/self/environ').read())"
    assert "swordfish" not in run(code).output


@pytest.mark.parametrize("folder", ["/", "/usr", "/dev", "/dev/shm", "/proc", sys.base_prefix])
def test_writing_anywhere_but_in_the_scratch_folder_is_refused(folder):
    result = run(f"open({folder + '/written'!r}, 'w').write('x')")
    assert result.status == "failed"
    assert "Read-only file system" in result.output or "No such file" in result.output
    assert run("open('mine', 'w').write('x'); assert open('mine').read() == 'x'").status == "passed"


def test_no_scratch_folder_is_seen_by_the_next_run():
    assert run("open('left', 'w').write('x')").status == "passed"
    assert run("import os; assert os.listdir('.') == []").status == "passed"


def test_a_socket_reaches_nothing_not_even_this_machine():
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.server_port}), 2)"
        assert "Connection refused" in run(code).output  # its own loopback is another one
    for address in ("192.0.2.1", "10.0.0.1"):
        result = run(f"import socket; socket.create_connection(({address!r}, 80), 2)")
        assert "Network is unreachable" in result.output


@pytest.mark.parametrize(
    "code",
    [
        "import os\nwhile True: os.fork()",
        "import subprocess; subprocess.Popen(['/bin/sleep', '60'])",
        "import multiprocessing as m; m.Process(target=print).start()",
        "import os; os.posix_spawn('/bin/sleep', ['sleep', '60'], {})",
        "import threading; threading.Thread(target=print).start()",
    ],
)
def test_starting_a_process_or_a_thread_is_refused(code):
    result = run(code)
    assert result.status == "failed"
    refusals = ("Resource temporarily unavailable", "can't start new thread")
    assert any(words in result.output for words in refusals)


def test_code_is_not_root_and_cannot_become_it():
    code = "import os\nassert os.getuid() == os.geteuid() == 65534\nos.setuid(0)"
    assert "Operation not permitted" in run(code).output


@pytest.mark.parametrize(
    "code",
    [
        "x = bytearray(4 << 30)",
        "x = []\nwhile True: x.append(bytearray(1 << 24))",
        "import mmap\nx = [mmap.mmap(-1, 1 << 28) for _ in range(64)]",
    ],
)
def test_filling_memory_is_refused(code):
    result = run(code, memory=1 << 30)
    assert result.status == "failed"
    assert "MemoryError" in result.output or "Cannot allocate memory" in result.output


@pytest.mark.parametrize(
    "code",
    [
        "f = open('x', 'wb')\nwhile True: f.write(b'x' * 1_000_000)",
        "i = 0\nwhile True:\n    i += 1\n    open(str(i), 'wb').write(b'x' * 1_000_000)",
    ],
)
def test_filling_the_disk_is_refused(code):
    result = run(code, disk=16 << 20)
    assert result.status == "failed"
    assert "File too large" in result.output or "No space left" in result.output


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(1e6)"])
def test_running_past_its_time_is_ended(code):
    assert run(code, seconds=1.0).status == "timeout"


def test_an_endless_loop_is_ended_by_its_processor_time_long_before_its_wall_clock():
    assert run("while True: pass", seconds=300.0, cpu=1).status == "failed"


def test_the_devices_are_those_that_programs_need_and_no_others():
    code = "import os\nopen(os.devnull, 'w').write('x')\nassert len(os.urandom(8)) == 8\n"
    code += "assert open('/dev/urandom', 'rb').read(4)\nprint(sorted(os.listdir('/dev')))"
    assert run(code).output.strip() == "['null', 'urandom']"


def test_printing_without_end_is_ended():
    result = run("while True: print('x' * 1000)", output=10_000)
    assert result.status == "failed"
    assert len(result.output) <= 10_000


def test_killing_its_parent_or_everything_is_refused():
    code = (
        "import os\n"
        "for pid in (1, os.getppid(), -1, *range(2, 50)):\n"
        "    if pid != os.getpid():\n"
        "        try:\n"
        "            os.kill(pid, 9)\n"
        "        except OSError:\n"
        "            pass\n"
        "print('alive')"
    )
    result = run(code)
    assert result.status == "passed"
    assert "alive" in result.output


def test_code_that_prints_as_bubblewrap_does_is_wrong_and_not_unscorable():
    result = run("print('bwrap: no space left'); raise ValueError")
    assert result.status == "failed"
    assert result.output.startswith("bwrap: no space left")


def test_time_in_which_it_waits_for_a_processor_does_not_count(monkeypatch):
    slow = "import time; time.sleep(2)"
    assert run(slow, seconds=1.5).status == "timeout"
    monkeypatch.setattr(sandbox, "_seconds_in_line", lambda process: 300.0)
    assert run(slow, seconds=1.5).status == "passed"


def test_a_program_that_says_it_waits_for_ever_is_ended(monkeypatch):
    waited = itertools.count(100.0, step=10.0)
    monkeypatch.setattr(sandbox, "_seconds_in_line", lambda process: next(waited))
    assert run("import time; time.sleep(600)", seconds=0.2).status == "timeout"


def test_a_process_that_shares_its_processor_waits_for_it():
    """Two endless loops on one processor: each waits while the other one has it."""
    loop = [sys.executable, "-c", "while True: pass"]
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usable)})
    try:
        loops = [subprocess.Popen(loop), subprocess.Popen(loop)]
    finally:
        os.sched_setaffinity(0, usable)
    try:
        if not Path(f"/proc/{loops[0].pid}/schedstat").is_file():
            pytest.skip(reason="this kernel does not say how long a process waits")
        end = time.monotonic() + 120  # a bound on hanging, not a measurement
        while sandbox._seconds_in_line(loops[0].pid) < 0.1:
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        for one in loops:
            one.kill()
            one.wait()
    assert sandbox._seconds_in_line(loops[0].pid) == 0.0  # of one that is gone nothing is known


def test_no_process_is_left_behind_where_the_run_is_interrupted(monkeypatch, over_once_seen):
    name = f"ctrl{os.getpid()}"
    seen = over_once_seen(name)

    def interrupted(process, text, limits):
        exchange(process, text, limits)
        raise KeyboardInterrupt

    exchange = sandbox._exchange
    monkeypatch.setattr(sandbox, "_exchange", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(called(name) + "time.sleep(600)", seconds=0.2)
    assert seen
    assert_none_is_left(name)


def test_no_process_is_left_behind(monkeypatch, over_once_seen):
    name = f"left{os.getpid()}"
    code = called(name)
    seen = over_once_seen(name)
    assert run(code + "time.sleep(600)", seconds=0.2).status == "timeout"
    assert seen  # it was there, so its absence below says something
    assert_none_is_left(name)

    monkeypatch.undo()
    assert run(code).status == "passed"
    assert_none_is_left(name)


def test_without_a_sandbox_the_task_refuses_to_start_and_says_how_to_get_one(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    why_no_sandbox.cache_clear()
    with pytest.raises(MissingDependencyError, match="apt-get install bubblewrap"):
        get_task("code")
    monkeypatch.undo()
    why_no_sandbox.cache_clear()
    check_sandbox()


def test_a_sandbox_that_breaks_is_unscorable_and_not_wrong(monkeypatch):
    task = get_task("code")
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: "/nowhere/bwrap")
    assert task.grade(task.example_right, task.example).answer is None
