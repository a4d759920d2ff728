"""`python -m benchmarks.speed` as a user types it: quick, whole, and from what was finished."""

import json
from pathlib import Path

import pytest

pytest.importorskip("trl")

from benchmarks.speed import parts
from benchmarks.speed.__main__ import PARTS, main
from benchmarks.speed.family import Member
from benchmarks.speed.probe import PHASES
from benchmarks.speed.scale import Scale
from benchmarks.speed.step import settings, whole
from podsrl.errors import PodsError


@pytest.fixture(autouse=True)
def cache(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODSRL_CACHE", str(tiny_model.parent))


def test_the_command_knows_all_parts():
    assert tuple(parts.PARTS) == PARTS


def test_the_plan_says_what_and_how_long_and_measures_nothing(tmp_path, capsys):
    assert main(["--dry-run", "--output_dir", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "step" in said
    assert " min on two free cores" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_quick_benchmark_runs_to_its_end_and_is_resumed_from_its_files(tmp_path, capsys):
    folder, page = tmp_path / "out", tmp_path / "page.md"
    command = ["--quick", "--output_dir", str(folder), "--markdown", str(page)]
    assert main(command) == 0
    said = capsys.readouterr().out
    measured = json.loads((folder / "step.json").read_text())["measured"]
    for arm in ("grpo", "grpo_ga", "pods"):
        steps = measured["variants"]["num_iterations = 2"][arm]
        assert len(steps["seconds"]) == Scale.quick().step_rounds
        for seconds in steps["seconds"]:
            assert set(seconds) == set(PHASES) - ({"select"} if arm != "pods" else set())
            assert min(seconds.values()) > 0
            assert whole(seconds) < 60
        assert all(peak["update"] > 0 for peak in steps["memory"])
    tables = json.loads((folder / "tables.json").read_text())["tables"]
    for table in tables:
        assert table["title"] in said
        assert table["title"] in page.read_text()
    assert {bar["verdict"] for table in tables for bar in table["bars"]} <= {"met", "missed"}

    written = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    (folder / "selection.json").unlink()
    assert main([*command, "--resume"]) == 0
    assert capsys.readouterr().out.count("measured before") == len(PARTS) - 1
    again = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    kept = {path.name for path in written if written[path] == again[path]}
    assert kept == {f"{name}.json" for name in PARTS} - {"selection.json"}


def test_parts_of_another_scale_are_not_reused(tmp_path):
    part = parts.PARTS["selection"]
    quick = Scale.quick()
    parts.measure(part, quick, "", tmp_path, lambda done, total, what: None)
    assert parts.finished(part, quick, tmp_path) is not None
    assert parts.finished(part, Scale(), tmp_path) is None


@pytest.mark.slow
def test_a_trainer_that_ends_is_reported_with_what_it_said(tmp_path):
    setting = settings(Scale.quick(), str(tmp_path / "no model here"), "base")[0]
    with Member(setting, tmp_path) as member, pytest.raises(PodsError, match="no model here"):
        member.turn()
