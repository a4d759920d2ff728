"""The small versions of the paper's experiments: runs are shared, and the page is of the files."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("trl")
pytest.importorskip("matplotlib")

from benchmarks.paper.__main__ import comparisons
from benchmarks.paper.page import EXPERIMENTS, write_page
from podslab.training.config_file import read_config

RESULTS = Path(__file__).parents[3] / "results" / "paper"


def test_every_arm_and_seed_of_the_experiments_is_run_once():
    wanted = set()
    for name in EXPERIMENTS:
        config = read_config(f"compare/{name}")
        wanted |= {(arm, seed) for arm in config["arms"] for seed in config["seeds"]}
    run = [(arm, seed) for part in comparisons() for seed in part["seeds"] for arm in part["arms"]]
    assert len(run) == len(set(run))
    assert set(run) == wanted


def test_no_run_of_the_protocol_is_missing_and_none_is_left_out_of_the_page():
    files = {path.stem for path in (RESULTS / "runs").glob("*.json")}
    assert files == {
        f"{arm}-{seed}" for part in comparisons() for seed in part["seeds"] for arm in part["arms"]
    }
    page = (RESULTS / "page.md").read_text(encoding="utf-8")
    listed = page.split("## All runs")[1].splitlines()
    assert sum(line.startswith("| ") for line in listed) == len(files) + 2  # head and rule


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
    write_page(tmp_path)
    assert (tmp_path / "page.md").read_bytes() == (RESULTS / "page.md").read_bytes()
