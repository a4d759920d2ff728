"""A pytest plugin: the environment of all tests, and the small model that many of them train."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Tiny models gain nothing from a second thread, and test processes side by side lose much.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No test may wait for a hub.
os.environ["HF_HUB_OFFLINE"] = "1"
# Tests that start a process run this checkout there too, installed or not.
SOURCES = [str(ROOT / "src"), str(ROOT / "lab" / "src")]
os.environ["PYTHONPATH"] = os.pathsep.join(
    [*SOURCES, *filter(None, [os.environ.get("PYTHONPATH")])]
)

import pytest  # noqa: E402 (the environment is set before anything imports torch)


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    """Folder of a model that gets sums of two columns right about every third time.

    It is the laboratory's, built in seconds and kept in `.cache` for the next run of the tests.
    """
    pytest.importorskip("transformers")
    tiny = pytest.importorskip("podslab.models.tiny")
    from podslab.models.tiny.settings import SMALL

    return tiny.get_model(SMALL, cache_dir=ROOT / ".cache" / "podsrl")
