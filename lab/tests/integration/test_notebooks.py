"""The notebooks: executed in an empty folder with fewer steps, and small as they are committed."""

import json
import re
from typing import Any

import pytest

pytest.importorskip("trl")
pytest.importorskip("nbclient")

import nbformat

from support.notebooks import NOTEBOOKS, execute

MAX_BYTES = 40_000


def printed(cells: list[Any]) -> str:
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")


def shortened(source: str) -> str:
    """Two steps of training, on a model with a shorter warm start."""
    source = re.sub(r"STEPS = \d+", "STEPS = 2", source)
    source = re.sub(r'"steps":\d+', '"steps":5', source)
    return source.replace("tiny.get_model()", "tiny.get_model(tiny.TinySettings(steps=5))")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client")
@pytest.mark.filterwarnings("ignore::RuntimeWarning:zmq")
def test_a_notebook_runs_from_its_first_cell_to_its_last(path, tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PODSRL_CACHE", str(tmp_path / "cache"))
    said = printed(execute(path, tmp_path, shortened).cells)
    run = tmp_path / ("quickstart" if path.stem == "quickstart" else "my-run")
    assert (run / "rollouts" / "step_000002.parquet").is_file()
    assert (run / "finished.json").is_file()
    expected = {
        "quickstart": ["kept: [0, 1, 2, 7] with rewards [0, 0, 1, 1]", "advantage"],
        "your_own_task": ["256 of 256 gold answers pass", "after ", "advantage"],
    }
    assert [words for words in expected[path.stem] if words not in said] == []


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
    now = {"quickstart": "group right said reward", "your_own_task": "the best 64 of all 256"}
    assert now[path.stem] in " ".join(said.split())
