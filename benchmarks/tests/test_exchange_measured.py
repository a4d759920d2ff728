"""The traffic between processes is counted by the code of the trainer."""

import json

import pytest

pytest.importorskip("trl")

from benchmarks.speed import exchange
from support.forked import Forked


@pytest.mark.slow
def test_bytes_are_those_of_a_process_and_of_the_rows_that_leave_it(tmp_path):
    words = "--world 3 --rollouts 32 --tokens 64 --num_rollouts 8 --num_kept 2 --generations 1"
    log = tmp_path / "log"
    run = Forked(lambda: exchange.main([*words.split(), "--json"]), log, tmp_path / "errors")
    assert run.wait() == 0, run.said()
    (line,) = [line for line in log.read_text().splitlines() if line.startswith("{")]
    measured = json.loads(line)["processes"]
    assert [of["numbers"] for of in measured] == [32 * (3 * 8 + 4)] * 3  # three integers, a reward

    rows = measured[0]["rows_moved"]
    assert rows > 0
    moved = sum(of["moved"] for of in measured)
    # ids of prompt and completion and log-probs of 4 bytes, "word " of 5, and some for the rest
    least = rows * (200 * 4 + 64 * (4 + 4 + 5))
    assert least < moved < 2 * least + 3 * 1000
    assert 0 in [of["moved"] for of in measured]
