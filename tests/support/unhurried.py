"""A pytest plugin: searches of the inspector that end when everything was read."""

import math

import pytest


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search reads texts for a second or so, and a slow machine would not come far in that."""
    for bound in ("_SECONDS", "_SNIPPET_SECONDS"):
        monkeypatch.setattr(f"podsrl.inspector.search.{bound}", math.inf)
