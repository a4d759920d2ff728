"""benchmarks/gpu runs to its end on a CPU, and its results are whole."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("trl")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
def test_a_trial_compares_the_arms_and_writes_everything(tmp_path: Path) -> None:
    output, packed = tmp_path / "results", tmp_path / "runs.tar.gz"
    done = run(
        *("--smoke", "--comparisons", "main"),
        *("--output", str(output), "--archive", str(packed)),
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    summary = json.loads((output / "summary.json").read_text())
    assert summary["problems"] == {}
    assert summary["smoke"] is True
    assert list(summary["model"]["pass_rates"]) == ["2", "3"]
    main = summary["comparisons"]["main"]
    for arm in ("grpo", "grpo_ga", "pods"):
        assert main["phases"][arm]["update"] > 0
        assert main["phases"][arm]["peak_memory"] > 0
        assert len(main["curves"][arm]["answer_accuracy"][0]) == 2
    assert [arm["arm"] for arm in main["numbers"]["arms"]] == ["grpo", "grpo_ga", "pods"]
    assert summary["selection"]["equality"]["different"] == []
    assert len(summary["selection"]["timings"]) == 4
    page = (output / "README.md").read_text()
    for figure in ("main-accuracy.png", "main-seconds_per_step.png"):
        assert figure in page
        assert (output / figure).read_bytes().startswith(b"\x89PNG")
    with tarfile.open(packed) as runs:
        assert "main/pods/seed-0/metrics.jsonl" in runs.getnames()
    assert sum(file.stat().st_size for file in output.iterdir()) < 2**20


@pytest.mark.slow
def test_a_trial_without_enough_time_writes_what_it_has_and_says_what_is_missing(
    tmp_path: Path,
) -> None:
    done = run("--smoke", "--minutes", "0.02", "--output", str(tmp_path))
    assert done.returncode == 1
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["problems"]
    assert (tmp_path / "README.md").is_file()
