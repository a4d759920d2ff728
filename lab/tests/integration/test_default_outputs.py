"""What a command writes without being told where lies beside what it was made of."""

from pathlib import Path
from typing import Any

import pytest

from podsrl.cli import main
from support.synthetic_rollouts import rollouts
from support.synthetic_runs import write_run


def test_reports_and_recommendations_go_beside_the_run(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    run = write_run(tmp_path / "runs" / "one", "pods", 0, (0.1, 0.5), n=16, m=4)
    for step in (1, 2):
        run.write_rollouts(step, rollouts(groups=1, n=16, m=4))
    for verb, file in (
        ("report", "report/report.html"),
        ("recommend", "recommendation/recommendation.json"),
    ):
        assert main([verb, "runs/one"]) == 0, capsys.readouterr().err
        assert (tmp_path / "runs" / "one" / file).is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    assert main(["report", "runs/one"]) == 0  # what stands beside the run is no run of its own
