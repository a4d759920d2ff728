"""benchmarks/gpu runs to its end on a CPU, and its results are whole."""

import json
import signal
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("trl")
pytest.importorskip("matplotlib")

from benchmarks.gpu import __main__ as script
from benchmarks.gpu import comparison, model, report, selection  # noqa: F401 # not while time is up

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch and transformers
    pytest.mark.filterwarnings("ignore::UserWarning"),  # of torch: no pinned memory on a CPU
]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """run("--flag", ..., minutes_ago=0): the script's exit status, begun so long ago."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGTERM)}

    def call(*arguments: str, minutes_ago: float = 0.0) -> int:
        monkeypatch.setenv(script._BEGAN, str(time.time() - 60 * minutes_ago))
        monkeypatch.setenv(script._COMMAND, "python -m benchmarks.gpu")
        monkeypatch.setattr(sys, "argv", ["benchmarks.gpu", *arguments])
        return script.main()

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.slow
def test_a_trial_compares_the_arms_and_writes_everything(
    run: Callable[..., int], tmp_path: Path
) -> None:
    output, packed = tmp_path / "results", tmp_path / "runs.tar.gz"
    written = ("--output", str(output), "--archive", str(packed))
    assert run("--smoke", "--comparisons", "main", *written) == 0
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


def test_a_trial_without_enough_time_writes_what_it_has_and_says_what_is_missing(
    run: Callable[..., int], tmp_path: Path
) -> None:
    assert run("--smoke", "--minutes", "9", "--output", str(tmp_path), minutes_ago=9) == 1
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["problems"]
    assert (tmp_path / "README.md").is_file()
