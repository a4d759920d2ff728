"""The page of the demo says what the files beside it say."""

import json
from pathlib import Path

import pytest

pytest.importorskip("podslab")

from benchmarks.demo import page

DEMO = Path(__file__).parents[2] / "results" / "demo"


def test_the_page_is_the_one_that_its_files_give():
    condensed = {}
    for file in sorted(DEMO.glob("*.json")):
        condensed[file.stem] = json.loads(file.read_text(encoding="utf-8"))
    said = (DEMO / "README.md").read_text(encoding="utf-8")
    assert said == page(condensed), "python -m benchmarks.demo writes it"
