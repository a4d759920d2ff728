"""The process of a run, with real processes."""

import os
import sys

from podslab.engine.run_process import RunProcess

#: Reports as TRL does when a trainer is made, and then crashes.
REPORTS_AND_CRASHES = """
import ctypes, threading
from huggingface_hub.utils import send_telemetry
send_telemetry("trl/GRPOTrainer")
print("threads:", threading.active_count(), flush=True)
def read_nothing():
    ctypes.string_at(0)
read_nothing()
"""


def test_a_run_has_no_thread_beside_ours_and_a_crash_leaves_its_place_in_the_log(tmp_path):
    outside = {"HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "PYTHONFAULTHANDLER"}
    environment = {name: value for name, value in os.environ.items() if name not in outside}
    command = [sys.executable, "-c", REPORTS_AND_CRASHES]
    log = tmp_path / "run.log"

    process = RunProcess.start("a run", command, log, environment, tmp_path / "error.json")
    process.process.wait()

    said = log.read_text()
    assert "threads: 1\n" in said
    assert "Segmentation fault" in said
    assert "in read_nothing" in said
    assert "signal 11" in process.problem()
