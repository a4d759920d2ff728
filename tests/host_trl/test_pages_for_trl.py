"""contrib/trl-docs: the installed TRL and podsrl take the code of the pages."""

import ast
import importlib
import os
import re
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from podsrl.trl import PODSConfig

PAGES = sorted((Path(__file__).parents[2] / "contrib" / "trl-docs").glob("p*.md"))


def nodes_of(page: Path, kind: type) -> list[Any]:
    """The parts of a page's Python that are of a kind."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    return [node for block in blocks for node in ast.walk(ast.parse(block)) if type(node) is kind]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_the_pages_import_is_there(page):
    pytest.importorskip("trl.experimental.async_grpo.packing", reason="it needs TRL 1.16")
    named = [
        (node.module, one.name) for node in nodes_of(page, ast.ImportFrom) for one in node.names
    ]
    assert named
    assert [n for m, n in named if not hasattr(importlib.import_module(m), n)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_settings_of_the_pages_are_accepted(page, tmp_path):
    calls = [c for c in nodes_of(page, ast.Call) if getattr(c.func, "id", "") == "PODSConfig"]
    assert calls
    for call in calls:
        given = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        on_cpu = {"output_dir": str(tmp_path), "use_cpu": True, "bf16": False, "report_to": "none"}
        args = PODSConfig(**{**given, **on_cpu})
        assert args.num_rollouts == given["num_rollouts"] == 4 * args.num_generations
