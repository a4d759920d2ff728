"""Fixtures that several test files use."""

import os
from pathlib import Path

# Tiny models gain nothing from a second thread, and test processes side by side lose much.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No test may wait for a hub.
os.environ["HF_HUB_OFFLINE"] = "1"
# Tests that start a process run this checkout there too, installed or not.
SRC = str(Path(__file__).parents[1] / "src")
os.environ["PYTHONPATH"] = os.pathsep.join([SRC, *filter(None, [os.environ.get("PYTHONPATH")])])

import pytest

CACHE = Path(__file__).parents[1] / ".cache" / "podsrl"


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    """Folder of a model that gets sums of two columns right about every third time.

    Built in seconds, and kept in the repository's `.cache` for the next run of the tests.
    """
    pytest.importorskip("transformers")
    from benchmarks.small_model import SMALL
    from podslab.models.tiny import get_model

    return get_model(SMALL, cache_dir=CACHE)
