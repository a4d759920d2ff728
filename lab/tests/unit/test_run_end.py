"""The side of a run's own process: it ends with its parent, and gets no input."""

import subprocess
import sys

from podslab.engine.run_end import FAILED, PARENT_GONE, USER_ERROR, write_error
from podsrl.rollout_log.files import read_json

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
