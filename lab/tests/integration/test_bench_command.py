"""`python -m benchmarks.speed` as a user types it."""

from pathlib import Path

import pytest

pytest.importorskip("trl")

from benchmarks.speed.__main__ import main
from benchmarks.speed.probe import PHASES
from benchmarks.speed.step import QUICK, settings
from benchmarks.speed.turns import Member
from podsrl.errors import PodsError


@pytest.mark.slow
def test_a_quick_benchmark_writes_its_tables(tmp_path, tiny_model, monkeypatch, capsys):
    monkeypatch.setenv("PODSRL_CACHE", str(tiny_model.parent))
    page = tmp_path / "page.md"
    assert main(["--quick", "--logs", str(tmp_path), "--markdown", str(page)]) == 0
    said, text = capsys.readouterr().out, page.read_text()
    for title in ("max_variance, m = 4", "max_contrast", "A step: num_iterations = 2"):
        assert title in said
        assert title in text
    assert text.count("| across |") == 2


@pytest.mark.slow
def test_a_turn_has_every_phase_and_a_peak_of_memory(tmp_path: Path, tiny_model: Path):
    _, _, pods, _ = settings(QUICK, str(tiny_model), "num_iterations = 2")
    with Member(pods, tmp_path) as member:
        member.turn()
        turn = member.turn()
    assert set(turn) == {*PHASES, "peak"}
    assert all(0 < turn[phase] < 60 for phase in PHASES)
    assert 1e6 < turn["peak"] < 1e10


@pytest.mark.slow
def test_a_trainer_that_ends_is_reported_with_what_it_said(tmp_path):
    setting = settings(QUICK, str(tmp_path / "no model here"), "base")[0]
    with Member(setting, tmp_path) as member, pytest.raises(PodsError, match="no model here"):
        member.turn()
