"""The side of a run's own process: it ends with its parent, and gets no input."""

import subprocess
import sys

import pytest

from podslab.engine import run_end
from podslab.engine.run_end import (
    FAILED,
    PARENT_GONE,
    USER_ERROR,
    at_work_on,
    exit_status,
    write_error,
)
from podsrl.errors import InvalidInputError, RewardError
from podsrl.rollout_log.files import read_json
from podsrl.rollout_log.run_folder import RunFolder

BEGIN = "from podslab.engine.run_end import end_with_parent; end_with_parent(); "


def process(code: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", BEGIN + code]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_program_that_asks_for_input_gets_none_and_does_not_wait():
    with process("input()") as asking:
        said = asking.stderr.read()
    assert b"EOFError" in said


def test_a_process_ends_when_nobody_holds_its_input_any_more():
    with process("import time; time.sleep(600)") as sleeping:
        sleeping.stdin.close()
        assert sleeping.wait(timeout=120) == PARENT_GONE


def test_the_first_of_several_processes_says_why_a_run_failed(tmp_path):
    file = tmp_path / "seed-0.error.json"
    write_error(file, USER_ERROR, "the first\n  reason")
    write_error(file, FAILED, "what followed from it")
    assert read_json(file) == {"status": USER_ERROR, "message": "the first reason"}


def test_a_run_has_one_process_at_a_time_and_the_first_of_several_holds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(run_end, "_WAIT_FOR_LOCK", 0.05)
    run = RunFolder(tmp_path / "seed-0")
    with at_work_on(run):
        another = pytest.raises(InvalidInputError, match="another process is at work on")
        with another, at_work_on(run):
            pass
        monkeypatch.setenv("RANK", "1")  # of the same run
        with at_work_on(run):
            pass
        monkeypatch.delenv("RANK")
    with at_work_on(run):
        pass


@pytest.mark.parametrize(
    ("error", "status", "written"),
    [
        (RewardError("why"), FAILED, "why"),
        (InvalidInputError("why"), USER_ERROR, "why"),
        (ValueError("why"), FAILED, "ValueError: why"),
    ],
)
def test_why_a_run_fails_is_left_for_its_parent(tmp_path, capsys, error, status, written):
    def work() -> None:
        raise error

    file = tmp_path / "seed-0.error.json"
    assert exit_status(work, file, (RewardError,)) == status
    assert read_json(file) == {"status": status, "message": written}
    assert capsys.readouterr().err.splitlines()[-1] == written
