"""benchmarks/methods: every file can be run, and runs are compared within their series."""

import json
from pathlib import Path

import pytest
import yaml

from benchmarks.answers import by_kind
from benchmarks.methods import page
from benchmarks.methods.__main__ import series_of
from benchmarks.series import all_series, read_series
from podslab.tasks.answers import Answers
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import PODSConfig

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "benchmarks" / "methods").rglob("*.yaml"))
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


def write_run(folder, method, seed, arm, seconds, accuracy):
    counts = list(range(len(seconds)))
    curve = {"steps": counts, "seconds": seconds, "generated": counts, "trained": counts}
    curve |= {"accuracy": accuracy, "answers": [256] * len(seconds)}
    run = {"method": method, "name": method, "arm": arm, "setting": folder.parent.name}
    run |= {"seed": seed, "learning_rate": 1e-5, "rows": 16, "cpu": "a CPU", "curve": curve}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{method}-{seed}.json").write_text(json.dumps(run))


def test_the_runs_of_a_series_are_compared_at_the_time_that_all_of_them_lasted(tmp_path):
    folder = tmp_path / "gpu-middle" / "2026-11-26-88e3def"
    grpo, kept = ({"num_rollouts": 8, "num_generations": m} for m in (8, 2))
    for seed in (0, 1):
        write_run(folder, "grpo-8", seed, grpo, [0, 10, 20], [0.2, 0.4, 0.6])
        write_run(folder, "best-4", seed, kept, [0, 20, 40], [0.2, 0.6, 0.8])
    series = read_series(folder)
    assert (series.seconds, series.evaluations) == (20, 2)
    # after 10 s the second one is half way from 0.2 to 0.6, and after 20 s at 0.6
    assert series.accuracies("best-4").tolist() == [pytest.approx([0.2, 0.4, 0.6])] * 2
    assert page.best_grpo(series) == "grpo-8"
    lines = list(page.table(series))
    assert "| 50.0 % | 60.0 % | 60, 60 | 1.00x (1.00x to 1.00x) |" in "\n".join(lines)


def test_a_series_without_grpo_says_nothing_of_speed(tmp_path):
    folder = tmp_path / "gpu-middle" / "2026-11-26-88e3def"
    kept = {"num_rollouts": 8, "num_generations": 2}
    write_run(folder, "pods", 0, kept, [0, 10], [0.2, 0.4])
    series = read_series(folder)
    assert page.best_grpo(series) is None
    assert "times as fast" not in "\n".join(page.table(series))


def test_a_run_goes_into_the_folder_of_its_day_and_code():
    made = {"started": "2026-11-26T03:07:50+00:00", "git": {"commit": "88e3def" + 33 * "0"}}
    assert series_of("gpu-middle", made).parts[-2:] == ("gpu-middle", "2026-11-26-88e3def")


def test_every_published_series_can_be_read():
    found = list(all_series())
    assert len(found) >= 50
    for series in found:
        for method in series.by_method:
            assert 0 < series.over_run(method) < 1


def test_what_a_run_learned_of_each_kind_is_read_off_its_rollouts(tmp_path):
    run, options = RunFolder(tmp_path), {"kinds": ["sum", "larger"], "train_size": 20}
    run.write_config({"arm": "a", "seed": 0, "task_options": json.dumps(options)})
    task = Answers(**options)
    rows = task.load("train")
    asked = [task.prompt(row)[-1]["content"] for row in rows]
    for step in range(1, 9):  # sums are learned, the larger of two numbers is not
        rewards = [float(" + " in row["question"] and step > 4) for row in rows]
        columns = {"group": [0] * 20, "rollout": range(20), "completion": [""] * 20}
        columns |= {"prompt": [f"user\n{one}<|im_end|>" for one in asked], "reward": rewards}
        columns |= {"kept": [True] * 20, "advantage": [0.0] * 20, "tokens": [1] * 20}
        run.write_rollouts(step, columns)
    found = by_kind(run)
    assert (found["sum"]["first"], found["sum"]["last"]) == (0, 1)
    assert (found["larger"]["first"], found["larger"]["last"]) == (0, 0)
    assert found["sum"]["guess"] >= 0.1


def test_the_published_summary_of_the_pretrained_model_is_made_of_its_runs(tmp_path, monkeypatch):
    """Its figure is drawn from there."""
    from benchmarks import language_model

    published = ROOT / "results" / "language-model.json"
    monkeypatch.setattr(language_model, "RESULTS", tmp_path)
    language_model.write_page(json.loads(published.read_text(encoding="utf-8"))["runs"])
    assert (tmp_path / published.name).read_text() == published.read_text()
    assert (tmp_path / "language-model.png").stat().st_size > 10_000
