"""benchmarks/series.py: runs are read by today's names, and compared within their series."""

import dataclasses
import json

import numpy as np
import pytest

from benchmarks.pages import every_series
from benchmarks.series import all_series, equally_long, read_run, read_series
from podslab.report.curves import ArmCurves

GRPO = {"num_rollouts": 8, "num_generations": 8}
PODS = {"num_rollouts": 8, "num_generations": 2}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "gpu-middle" / "2026-11-26-88e3def"
    folder.mkdir(parents=True)
    return folder


def write_run(folder, method, seed, arm, seconds, accuracy):
    counts = list(range(len(seconds)))
    curve = {
        "steps": counts,
        "seconds": seconds,
        "generated": counts,
        "trained": counts,
        "accuracy": accuracy,
        "answers": [256] * len(seconds),
    }

    run = {
        "method": method,
        "name": method,
        "arm": arm,
        "setting": folder.parent.name,
        "seed": seed,
        "learning_rate": 1e-5,
        "rows": 16,
        "cpu": "a CPU",
        "curve": curve,
    }
    (folder / f"{method}-{seed}.json").write_text(json.dumps(run))


def test_the_runs_of_a_series_are_compared_at_the_time_that_all_of_them_lasted(folder):
    for seed in (0, 1):
        write_run(folder, "grpo-8", seed, GRPO, [0, 10, 20], [0.2, 0.4, 0.6])
        write_run(folder, "best-4", seed, PODS, [0, 20, 40], [0.2, 0.6, 0.8])

    series = read_series(folder)
    assert series.seconds == 20
    assert series.evaluations == 2
    # after 10 s the second one is half way from 0.2 to 0.6, and after 20 s at 0.6
    assert series.accuracies("best-4").tolist() == [pytest.approx([0.2, 0.4, 0.6])] * 2
    assert series.best_grpo() == "grpo-8"
    lines = every_series.methods_of(series)
    assert "| 50.0 % | 60.0 % | 60, 60 | 1.00x (1.00x to 1.00x) |" in "\n".join(lines)


def test_a_series_without_grpo_says_nothing_of_speed(folder):
    write_run(folder, "pods", 0, PODS, [0, 10], [0.2, 0.4])
    series = read_series(folder)
    assert series.best_grpo() is None
    assert "times as fast" not in "\n".join(every_series.methods_of(series))


def test_a_run_that_was_evaluated_less_often_counts_where_it_has_points(folder):
    write_run(folder, "grpo-8", 0, GRPO, [0, 10, 20], [0.2, 0.4, 0.6])
    write_run(folder, "grpo-8", 1, GRPO, [0, 20], [0.2, 0.5])
    series = read_series(folder)
    assert series.evaluations == 1
    assert series.end("grpo-8") == pytest.approx(0.55)  # the mean of 0.6 and 0.5


def test_every_published_series_can_be_read():
    found = list(all_series())
    assert len(found) >= 50
    for series in found:
        for method in series.by_method:
            assert 0 < series.over_run(method) < 1


def test_a_run_of_an_earlier_version_is_read_by_todays_names(tmp_path):
    file = tmp_path / "grpo-2-0.json"
    file.write_text(json.dumps({"arm": {"num_rollouts": 2, "skip_fillers": True}}))
    assert read_run(file)["arm"] == {"num_rollouts": 2, "skip_zero_advantage": True}


def curves(seconds, accuracy):
    """The curves of one seed, of which only times and accuracies matter."""
    unknown = np.full((1, len(seconds)), np.nan)
    fields = {field.name: unknown for field in dataclasses.fields(ArmCurves)}
    fields["arm"] = "an arm"
    fields["seeds"] = (0,)
    fields["seconds"] = np.array([seconds], dtype=float)
    fields["accuracy"] = np.array([accuracy], dtype=float)
    return ArmCurves(**fields)


def test_curves_are_cut_at_the_time_that_both_last():
    short = curves([0, 10], [0.0, 0.2])
    long = curves([0, 5, 40], [0.0, 0.1, 0.9])
    short_cut, long_cut = equally_long(short, long)
    assert short_cut.accuracy.tolist() == [[0.0, 0.2]]
    assert np.nanmax(long_cut.accuracy) == 0.1
    assert np.isnan(long_cut.seconds[0, 2])
