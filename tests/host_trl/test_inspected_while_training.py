"""The inspector beside a run that really trains, in another process."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.chromium import BINARY, Chromium, assert_quiet, texts
from support.inspected import app_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BINARY is None, reason="no chromium on this machine"),
]
STEPS = 4
BAR = "document.getElementById('bar').textContent"


def test_new_steps_appear_by_themselves(tmp_path):
    """On the run's curves, in the bar, and as the way on from the newest step."""
    out = tmp_path / "out"
    (out / "rollouts").mkdir(parents=True)  # opened before the run has begun
    command = [sys.executable, "-m", "support.paced_training", str(tmp_path), str(STEPS)]
    training = subprocess.Popen(command, cwd=Path(__file__).parents[1], stderr=subprocess.DEVNULL)
    try:
        with app_of(out) as server, Chromium(tmp_path / "profile") as browser:
            browser.open(server.address)
            browser.wait_for("document.querySelector('.empty')")

            (tmp_path / "go-1").touch()
            browser.wait_for("document.querySelector('figure canvas')", seconds=120)
            browser.wait_for(f"{BAR}.includes('step 1 of 4')")

            # what another program is still writing is no step yet, and breaks nothing
            half = out / "rollouts" / "step_000099"
            half.mkdir()
            (half / ".rank_0_of_1.parquet.7.part").write_bytes(b"PAR1")
            (half / "rank_0_of_2.parquet").write_bytes(b"PAR1")

            browser.run("location.hash = '#/step/out/1'")
            browser.wait_for("document.querySelectorAll('.prompt').length === 4")
            assert browser.run("document.getElementById('later').tagName") == "SPAN"

            for step in range(2, STEPS + 1):
                (tmp_path / f"go-{step}").touch()
                browser.wait_for("document.getElementById('later')?.tagName === 'A'", seconds=120)
                browser.press("ArrowRight")
                browser.wait_for(f"location.hash === '#/step/out/{step}'")
                browser.wait_for(f"document.querySelector('#go-to')?.value === '{step}'")

            assert training.wait(timeout=120) == 0
            browser.run("location.hash = '#/'")
            browser.wait_for(f"{BAR}.includes('finished')")
            browser.wait_for("document.querySelector('figure canvas')")
            assert "step 4" in texts(browser, "#bar")[0]
            assert_quiet(browser, f"http://127.0.0.1:{server.port}/")
    finally:
        training.kill()
        training.wait()
