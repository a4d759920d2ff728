"""The memory of the measured server is told in its unit."""

import os
import resource
from pathlib import Path

import pytest

from benchmarks.inspector import Client

STATM = Path("/proc/self/statm")


@pytest.mark.skipif(not STATM.is_file(), reason="Linux alone says the memory of a process")
def test_memory_is_in_millions_of_bytes():
    client = Client(address="", token="", process=os.getpid())
    found = client.memory("VmRSS")

    pages = int(STATM.read_text().split()[1])
    assert found == pytest.approx(pages * resource.getpagesize() / 1e6, rel=0.01)
    assert client.memory("VmHWM") >= found
