"""Fixtures that several test files of the laboratory use."""

import os
from pathlib import Path

# Tiny models gain nothing from a second thread, and test processes side by side lose much.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No test may wait for a hub.
os.environ["HF_HUB_OFFLINE"] = "1"
ROOT = Path(__file__).parents[2]
# Tests that start a process run this checkout there too, installed or not.
SOURCES = [str(ROOT / "src"), str(ROOT / "lab" / "src")]
os.environ["PYTHONPATH"] = os.pathsep.join(
    [*SOURCES, *filter(None, [os.environ.get("PYTHONPATH")])]
)

import pytest

CACHE = ROOT / ".cache" / "podsrl"


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    """Folder of a model that gets sums of two columns right about every third time.

    Built in seconds, and kept in the repository's `.cache` for the next run of the tests.
    """
    from benchmarks.small_model import SMALL
    from podslab.models.tiny import get_model

    return get_model(SMALL, cache_dir=CACHE)
