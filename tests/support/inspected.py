"""Runs opened by the inspector, whose index is whole when a test begins to ask."""

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from podsrl.inspector.app import InspectorServer
from podsrl.inspector.checks import Check
from podsrl.inspector.fields import Fields
from podsrl.inspector.index import Index
from podsrl.inspector.keeping import Keep
from podsrl.inspector.sources import Options, find_sources
from podsrl.rollout_log.run_folder import RunFolder
from support.synthetic_rollouts import rollouts


@contextmanager
def index_of(
    *paths: Path,
    keep: int | None = None,
    rule: str = "max_variance",
    check: str = "",
    **fields: str,
) -> Iterator[Index]:
    """An index that has read everything."""
    options = Options(Fields(**fields), Keep(keep, rule))
    index = Index(lambda: find_sources(list(paths), options), Check(check) if check else None)
    try:
        index.refresh()
        yield index
    finally:
        index.close()


@contextmanager
def app_of(*paths: Path, check: str = "", **how: Any) -> Iterator[InspectorServer]:
    """A server of this process that has read everything, and looks for more."""
    found = Index(lambda: find_sources(list(paths), Options()), Check(check) if check else None)
    found.refresh()
    server = InspectorServer(found, **how)
    server.start()
    try:
        yield server
    finally:
        server.close()


def answer(
    server: InspectorServer, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> Any:
    """The status, the headers and the body of what a path below the server's address gives."""
    given = {"x-token": server.token} if headers is None else headers
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}{path}", headers=given, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as got:
            return got.status, got.headers, got.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def ask(server: InspectorServer, name: str, **words: Any) -> Any:
    """An answer of the server's, as its page gets it."""
    status, _, body = answer(server, f"/api/{name}?{urllib.parse.urlencode(words)}")
    assert status == 200, body
    return json.loads(body)


def write_run(folder: Path, steps: Any = (1,), config: Any = None, **kinds: Any) -> RunFolder:
    """A run with a config and the same rollouts in several steps."""
    run = RunFolder(folder)
    run.write_config({"arm": "pods", "seed": 0, **(config or {})})
    for step in steps:
        run.write_rollouts(step, rollouts(**kinds))
    return run


def age(*files: Path) -> None:
    """Let files be old enough that nobody seems to be writing them."""
    for file in files:
        os.utime(file, (1_700_000_000, 1_700_000_000))
