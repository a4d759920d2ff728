"""Fixtures of the TRL tests; the helpers that tests import are in support/trl_runs.py."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.trl_runs import arithmetic, dataset, make_trainer

__all__ = ["arithmetic", "dataset", "make_trainer"]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL takes stand-ins for vLLM's classes."""
    pytest.importorskip("requests")  # TRL's client of a vLLM server
    from support import vllm_stand_in

    vllm_stand_in.install(monkeypatch)
    for variable in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(variable, "")  # TRL sets them for vLLM; undone after the test
        monkeypatch.delenv(variable)


@pytest.fixture
def server(stand_in: None) -> Iterator[Any]:
    """A stand-in for `vllm serve`, running."""
    from support import vllm_stand_in

    with vllm_stand_in.serving() as server:
        yield server
