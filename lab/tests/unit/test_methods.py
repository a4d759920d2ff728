"""benchmarks/methods: every file can be run, and the page says what the published runs do."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from benchmarks.methods.page import write_page
from podsrl.trl import PODSConfig

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "benchmarks" / "methods").glob("*.yaml"))
METHODS = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in FILES}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_a_config_with_a_source_and_a_neighbour(name):
    method = METHODS[name]
    given = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1, **method["arm"]}
    PODSConfig("unused", use_cpu=True, bf16=False, **given)
    assert method["name"]
    assert method["source"]
    assert ("neighbour" in method) == ("adds" in method)
    assert method.get("neighbour", "grpo-8") in METHODS


def test_the_published_page_is_made_of_the_published_runs(tmp_path):
    results = ROOT / "docs" / "results"
    shutil.copytree(results / "methods", tmp_path / "methods")
    write_page(tmp_path / "methods")
    for file in ("methods.md", "methods.json"):
        assert (tmp_path / file).read_text() == (results / file).read_text()


def test_the_published_summary_of_the_pretrained_model_is_made_of_its_runs(tmp_path, monkeypatch):
    """Its page and the README have their numbers from there."""
    from benchmarks import language_model

    published = ROOT / "docs" / "results" / "language-model.json"
    monkeypatch.setattr(language_model, "RESULTS", tmp_path)
    language_model.write_page(json.loads(published.read_text(encoding="utf-8"))["runs"])
    assert (tmp_path / published.name).read_text() == published.read_text()
    assert (tmp_path / "language-model-right.png").stat().st_size > 10_000
