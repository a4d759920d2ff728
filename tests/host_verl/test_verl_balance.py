"""Many ranks share each mini-batch evenly, simulated with verl's own count of work."""

import pytest

pytest.importorskip("verl", reason="verl is not installed; run `nox -s verl`")

from benchmarks.speed import balance


def test_of_several_mini_batches_the_slowest_of_64_ranks_is_close_to_the_mean():
    alone = balance.measure(ranks=64, mini_batches=1)
    assert alone["podsrl"] == pytest.approx(alone["verl"], abs=0.02)

    several = balance.measure(ranks=64, mini_batches=4)
    assert several["podsrl"] < 1.1 < 1.4 < several["verl"]
