"""What the sandbox refuses, in real runs of bubblewrap."""

import contextlib
import json
import os
import platform
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from podsrl.errors import InvalidInputError, MissingDependencyError
from podslab.grading.sandbox import (
    Bubblewrap,
    SandboxFusion,
    bubblewrap,
    find_sandbox,
    why_no_bubblewrap,
)
from podslab.grading.sandbox.job import Limits
from podslab.grading.sandbox.seccomp import seccomp_filter
from podslab.tasks import get_task

pytestmark = pytest.mark.skipif(bool(why_no_bubblewrap()), reason=why_no_bubblewrap())


def run(code, tests="", **limits):
    return Bubblewrap().run(code, tests, Limits(**limits))


def processes_named(name):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "comm").read_text().strip() == name:
                    found.append(entry.name)
    return found


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
    ],
)
def test_forking_is_refused(code):
    result = run(code)
    assert result.status == "failed"
    assert "Operation not permitted" in result.output


def test_starting_threads_without_end_meets_the_memory_limit():
    code = (
        "import threading, time\n"
        "while True: threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
    )
    result = run(code, seconds=20)
    assert result.status == "failed"
    assert "can't start new thread" in result.output


@pytest.mark.parametrize(
    "code",
    [
        "x = bytearray(4 << 30)",
        "x = []\nwhile True: x.append(bytearray(1 << 24))",
        "import mmap\nx = [mmap.mmap(-1, 1 << 28) for _ in range(64)]",
        "import os; os.memfd_create('x')",
    ],
)
def test_filling_memory_is_refused(code):
    result = run(code, memory=1 << 30)
    assert result.status == "failed"
    refusals = ("MemoryError", "Cannot allocate memory", "Operation not permitted")
    assert any(words in result.output for words in refusals)


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


def test_no_process_is_left_behind_where_the_run_is_interrupted(monkeypatch):
    name = f"ctrl{os.getpid()}"
    seen = []

    def interrupted(process, text, limits):
        exchange(process, text, limits)
        seen.extend(processes_named(name))
        raise KeyboardInterrupt

    exchange = bubblewrap._exchange
    monkeypatch.setattr(bubblewrap, "_exchange", interrupted)
    code = f"open('/proc/self/comm', 'w').write({name!r})\nimport time\ntime.sleep(60)"
    with pytest.raises(KeyboardInterrupt):
        run(code, seconds=1.5)
    assert seen
    end = time.monotonic() + 10
    while processes_named(name) and time.monotonic() < end:
        time.sleep(0.05)
    assert processes_named(name) == []


def test_no_process_is_left_behind():
    name = f"left{os.getpid()}"
    code = (
        f"open('/proc/self/comm', 'w').write({name!r})\n"
        "import time, threading\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
    )
    seen = []
    watcher = threading.Timer(0.5, lambda: seen.extend(processes_named(name)))
    watcher.start()
    assert run(code + "time.sleep(60)", seconds=1.5).status == "timeout"
    assert seen  # it was there, so its absence below says something
    assert run(code).status == "passed"
    end = time.monotonic() + 10
    while processes_named(name) and time.monotonic() < end:
        time.sleep(0.05)
    assert processes_named(name) == []


def test_new_namespaces_are_refused():
    code = (
        "import ctypes; c = ctypes.CDLL(None, use_errno=True)\nassert c.unshare(0x10000000) == -1"
    )
    assert run(code).status == "passed"


#: getpid by machine code, in the three ways that a kernel for x86-64 may take.
GETPID = {
    "x86-64": "b8270000000f05c3",  # mov eax, 39; syscall; ret
    "x32": "b8270000400f05c3",  # mov eax, 39 | 1 << 30; syscall; ret
    "32-bit": "b814000000cd80c3",  # mov eax, 20; int 0x80; ret
}
CALL_GETPID = """
import ctypes, mmap, os
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex({code!r}))
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print("before", flush=True)
assert call() == os.getpid(), "no such call"
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code for x86-64 only")
@pytest.mark.parametrize("abi", list(GETPID))
def test_a_system_call_by_another_abi_than_the_usual_one_ends_the_program(abi):
    result = run(CALL_GETPID.format(code=GETPID[abi]))
    assert result.output.startswith("before")
    assert "no such call" not in result.output  # not refused by the kernel: ended by the filter
    assert result.status == ("passed" if abi == "x86-64" else "failed")


def test_the_filter_is_known_for_common_machines_and_absent_for_others():
    assert len(seccomp_filter("x86_64") or b"") % 8 == 0
    assert seccomp_filter("aarch64")
    assert seccomp_filter("vax") is None


def test_without_a_sandbox_the_task_refuses_to_start_and_says_how_to_get_one(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    why_no_bubblewrap.cache_clear()
    with pytest.raises(MissingDependencyError, match="apt-get install bubblewrap") as error:
        get_task("code")
    assert "sandbox_url" in str(error.value)
    monkeypatch.undo()
    why_no_bubblewrap.cache_clear()
    assert find_sandbox()


def test_a_sandbox_that_breaks_is_unscorable_and_not_wrong(monkeypatch):
    task = get_task("code")
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: "/nowhere/bwrap")
    assert task.grade(task.example_right, task.example).answer is None


class _Fusion(BaseHTTPRequestHandler):
    """Answers as SandboxFusion does; the code is the tests' own, so it may run here."""

    requests: ClassVar[list[dict[str, object]]] = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append(body)
        done = subprocess.run(
            [sys.executable, "-c", body["code"]],
            input=body["stdin"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        status = "Success" if done.returncode == 0 else "Failed"
        run_result = {"status": "Finished", "stdout": done.stdout, "stderr": done.stderr}
        answer = json.dumps({"status": status, "run_result": run_result}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


@pytest.fixture
def fusion_url():
    with HTTPServer(("127.0.0.1", 0), _Fusion) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_sandbox_fusion_runs_the_same_jobs(fusion_url):
    fusion = SandboxFusion(fusion_url)
    limits = Limits(memory=4 << 30)
    assert fusion.run("x = 1", "assert x == 1", limits).status == "passed"
    assert fusion.run("x = 2", "assert x == 1", limits).status == "failed"
    assert fusion.run("import os; os._exit(0)", "", limits).status == "failed"


def test_sandbox_fusion_out_of_reach_is_broken_and_a_bad_url_is_refused():
    assert SandboxFusion("http://127.0.0.1:9").run("", "", Limits()).status == "broken"
    with pytest.raises(InvalidInputError, match="http://"):
        SandboxFusion("file:///etc/passwd")


def test_a_server_whose_python_may_be_another_is_asked_about_every_program(fusion_url):
    task = get_task("code", sandbox_url=fusion_url, memory_mb=4096)
    before = len(_Fusion.requests)
    codes = ["def add(a, b): return a + b", "print 1"]
    texts = [f"<answer>\n```python\n{code}\n```\n</answer>" for code in codes]
    grades = task.grade_batch(texts, [task.example] * 2)
    assert [g.answer for g in grades] == [True, False]
    assert len(_Fusion.requests) == before + 2
