"""The jobs of these tests: what is told of ranks that fail, and the port that they meet at."""

import os
import socket
import time

import pytest

pytest.importorskip("trl")

from support.ports import held_port
from support.torchrun import torchrun

#: Rank 1 is killed, and rank 0 fails as one that waited for it.
FAILS = """
import os, sys
with open(os.path.join(sys.argv[1], os.environ["RANK"]), "w") as file:
    file.write(str(os.getpid()))
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), 9)
raise OSError("the other rank is gone")
"""


def test_a_rank_that_was_killed_is_named_though_another_one_is_noticed_first(tmp_path, monkeypatch):
    """As where this process stands still just after it has looked at the one that dies."""
    script = tmp_path / "fails.py"
    script.write_text(FAILS)
    wait = os.waitpid
    looked_at = []

    def wait_late(pid, options):
        if not looked_at:  # both have ended at the first look
            for rank in (0, 1):
                os.waitid(os.P_PID, pid_of(tmp_path, rank), os.WEXITED | os.WNOWAIT)
        looked_at.append(pid)
        is_first_look = looked_at.count(pid) == 1
        was_alive = pid == pid_of(tmp_path, 1) and is_first_look
        return (0, 0) if was_alive else wait(pid, options)

    monkeypatch.setattr(os, "waitpid", wait_late)
    ended = torchrun(2, tmp_path / "said", str(script), str(tmp_path))
    assert ended.returncode == 1
    assert "rank 1 failed: SIGKILL" in ended.stderr
    assert "rank 0 failed: exit code 1" in ended.stderr


def pid_of(folder, rank):
    """The number of a rank's process, once that has written it."""
    file = folder / str(rank)
    while not file.is_file() or not file.read_text():
        time.sleep(0.01)
    return int(file.read_text())


def test_the_port_of_a_job_is_its_own_until_it_ends():
    with held_port() as port:
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("localhost", port))

        store = socket.create_server(("localhost", port))  # which lets addresses be reused
        with store, socket.create_connection(("localhost", port)):
            store.accept()[0].close()
