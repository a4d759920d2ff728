"""benchmarks/gpu runs to its end on a CPU, and its results are whole."""

import json
import sys

import pytest

pytest.importorskip("trl")

from benchmarks.gpu import __main__ as script

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch and transformers
    pytest.mark.filterwarnings("ignore::UserWarning"),  # of torch: no pinned memory on a CPU
]
ARMS = ("grpo", "grpo_ga", "pods", "across")


@pytest.mark.slow
def test_a_trial_compares_the_arms_and_writes_everything(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks.gpu", "--smoke", "--output", str(tmp_path)])
    assert script.main() == 0, (tmp_path / "README.md").read_text()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["problems"] == {}
    assert list(summary["model"]["pass_rates"]) == ["2", "3"]
    compared = summary["comparison"]
    for arm in ARMS:
        assert compared["phases"][arm]["update"] > 0
        assert compared["phases"][arm]["peak_memory"] > 0
    assert {arm["arm"] for arm in compared["numbers"]["arms"]} == set(ARMS)
    assert summary["selection"]["equality"]["different"] == []
    assert len(summary["selection"]["timings"]) == 4
    page = (tmp_path / "README.md").read_text()
    for figure in ("accuracy.png", "seconds_per_step.png"):
        assert figure in page
        assert (tmp_path / figure).read_bytes().startswith(b"\x89PNG")


def test_without_enough_time_it_writes_what_it_has_and_says_what_is_missing(tmp_path, monkeypatch):
    given = ["benchmarks.gpu", "--smoke", "--minutes", "0.25", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", given)
    assert script.main() == 1
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert "too few for one seed" in summary["problems"]["comparison"]
    assert "What went wrong" in (tmp_path / "README.md").read_text()
