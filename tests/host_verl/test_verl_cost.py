"""The benchmark of verl's part runs, on a real TransferQueue."""

import pytest

pytest.importorskip("verl", reason="verl is not installed; run `nox -s verl`")

from benchmarks.speed import hosts


def test_a_step_is_measured_by_phase(transfer_queue, keys_left):
    measured = hosts.measure(hosts.step_of_verl, "verl", rows=64)
    assert set(measured.seconds) == {"select", "drop", "metrics", "advantages", "processor"}
    assert min(measured.seconds.values()) > 0
    assert keys_left() == set()
