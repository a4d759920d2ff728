"""The notebooks as they are committed; `nox -s notebooks` runs them."""

import json
from typing import Any

import pytest

pytest.importorskip("nbclient")

import nbformat

from support.notebooks import NOTEBOOKS

MAX_BYTES = 40_000


def printed(cells: list[Any]) -> str:
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_committed_notebook_was_run_in_order_without_errors_and_is_small(path):
    assert path.stat().st_size < MAX_BYTES
    text = path.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert '"output_type": "error"' not in text
    assert "/root/" not in text  # nor another folder of the machine that ran it
    assert "/tmp/" not in text
    assert "%pip install" in "".join(cells[0]["source"])
    said = printed(nbformat.reads(text, as_version=4).cells)
    now = {
        "quickstart": "group right said reward",
        "your_own_task": "8 of 32 per prompt by max_variance",
    }
    assert now[path.stem] in " ".join(said.split())
