"""The small versions of the paper's experiments: runs are shared, and the page is of the files."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("trl")
pytest.importorskip("matplotlib")

from benchmarks.paper.__main__ import comparisons
from benchmarks.paper.finished_runs import summary
from benchmarks.paper.page import EXPERIMENTS, write_page
from podslab.training.config_file import read_config
from support.synthetic_runs import write_metrics, write_run

RESULTS = Path(__file__).parents[2] / "results" / "paper"


def runs_of(comparison):
    """The runs of a comparison, as they are named in results/paper/runs."""
    return [f"{arm}-{seed}" for arm in comparison["arms"] for seed in comparison["seeds"]]


def all_runs():
    names = []
    for comparison in comparisons():
        names += runs_of(comparison)
    return names


def test_every_arm_and_seed_of_the_experiments_is_run_once():
    wanted = set()
    for name in EXPERIMENTS:
        wanted |= set(runs_of(read_config(f"compare/{name}")))
    assert sorted(all_runs()) == sorted(wanted)


def test_every_run_of_the_protocol_is_there_or_named_as_missing():
    listed = [path.stem for path in (RESULTS / "runs").glob("*.json")]
    for run in json.loads((RESULTS / "not-run.json").read_text(encoding="utf-8")):
        listed.append(f"{run['arm']}-{run['seed']}")
    assert sorted(listed) == sorted(all_runs())


def test_the_page_lists_every_run_and_every_one_that_is_missing():
    files = list((RESULTS / "runs").glob("*.json"))
    missing = json.loads((RESULTS / "not-run.json").read_text(encoding="utf-8"))
    page = (RESULTS / "page.md").read_text(encoding="utf-8")
    listed = page.split("## All runs")[1].splitlines()
    assert sum(line.startswith("| ") for line in listed) == len(files) + 1  # the head
    assert sum(line.startswith("* ") for line in listed) == len(missing)


def test_a_run_had_the_settings_of_its_file():
    by_name = {path.stem: path for path in (RESULTS / "runs").glob("*.json")}
    for name in EXPERIMENTS:
        config = read_config(f"compare/{name}")
        for arm, own in config["arms"].items():
            run = json.loads(by_name[f"{arm}-{config['seeds'][0]}"].read_text(encoding="utf-8"))
            assert run["learning_rate"] == own["learning_rate"]
            assert run["budget_seconds"] == config["budget"]["training_seconds"]


def test_the_page_is_what_its_command_writes(tmp_path):
    shutil.copytree(RESULTS / "runs", tmp_path / "runs")
    shutil.copy(RESULTS / "not-run.json", tmp_path)
    write_page(tmp_path)
    assert (tmp_path / "page.md").read_bytes() == (RESULTS / "page.md").read_bytes()


def test_a_run_that_was_evaluated_less_often_has_its_own_end(tmp_path):
    shutil.copytree(RESULTS / "runs", tmp_path / "runs")
    shutil.copy(RESULTS / "not-run.json", tmp_path)
    for seed in (201, 202, 203):
        file = tmp_path / "runs" / f"n256-{seed}.json"
        run = json.loads(file.read_text(encoding="utf-8"))
        for values in run["curve"].values():
            del values[3]
        file.write_text(json.dumps(run), encoding="utf-8")

    write_page(tmp_path)
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "nan" not in page
    before = (RESULTS / "page.md").read_text(encoding="utf-8")
    [end_before, end] = [
        text.split("| PODS 256 → 16 |")[1].split(" | ")[2] for text in (before, page)
    ]
    assert end == end_before


def test_what_is_published_of_a_run_is_read_off_its_folder(tmp_path):
    config = {
        "downsampling_rule": "max_variance",
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 2,
        "max_training_seconds": 20,
    }
    run = write_run(tmp_path, "pods", 3, [0.1, 0.3, 0.5], n=64, m=16, config=config)
    write_metrics(run, 20, 64, 16, **{"pods/kept_rollouts": 16, "step_time": 2.0})
    run.write_environment()

    published = summary(run)
    assert published["arm"] == "pods"
    assert published["rows"] == 16
    assert published["wall_seconds"] == 40  # 20 steps of 2 s
    assert published["seconds"]["generate"] == 8  # 20 steps of 0.4 s
    # 8 s for 20 * 64 rollouts, over 10 s for 20 * 16 rows
    assert published["g_over_u"] == pytest.approx(0.2)
    assert published["filler_share"] == 0.25
    assert published["curve"]["accuracy"] == pytest.approx([0.1, 0.3, 0.5])
    assert published["curve"]["answers"] == [200] * 3  # 100 problems, twice
    # the files beside it have the same fields
    earlier = json.loads((RESULTS / "runs" / "pods-201.json").read_text(encoding="utf-8"))
    assert published.keys() == earlier.keys()
    assert published["curve"].keys() == earlier["curve"].keys()
