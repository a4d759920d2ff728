"""`pods report --dataset`: the rollouts of runs as a folder that others can load."""

import argparse
import re
from pathlib import Path

import datasets
import pytest
import yaml

from podsrl.cli import report as command
from podsrl.errors import InvalidInputError
from podsrl.runs.folder import OPTIONAL_COLUMNS, ROLLOUT_COLUMNS, RunFolder
from support.synthetic_runs import rollouts, write_run, write_training

HOME = {
    "model_name_or_path": "/home/someone/secret/Qwen2.5-3B-Instruct",
    "downsampling_rule": "/home/someone/secret/rules.py:mine",
    "output_dir": "/home/someone/secret/out",
    "hub_token": "hf_secret",
    "temperature": 0.7,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GRPO and PODS, two steps each; the second arm has one reward function more."""
    folder = tmp_path_factory.mktemp("runs")
    for arm, n in (("grpo", 2), ("pods", 4)):
        run = write_run(folder / arm, arm, 3, (0.1, 0.5), n=n, m=2, config=HOME)
        for step in (1, 2):
            columns = rollouts(n=n, text=f"{arm} {step} {{group}} {{rollout}}")
            if arm == "pods":
                columns["rewards/form"] = [None, *[0.25] * (len(columns["group"]) - 1)]
            run.write_rollouts(step, columns)
    return folder


def pods_report(*words: object) -> int:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.run(parser.parse_args([str(word) for word in words]))


def test_the_folder_loads_as_a_dataset_with_every_rollout(runs, tmp_path, capsys):
    folder = tmp_path / "shared"
    assert pods_report(runs, "--out", tmp_path / "report", "--dataset", folder) == 0
    assert "wrote 24 rollouts and their card" in capsys.readouterr().out
    loaded = datasets.load_dataset(str(folder), split="train", cache_dir=str(tmp_path / "cache"))
    assert len(loaded) == 2 * 2 * (2 + 4)  # steps, prompts, n of both arms
    assert sum(loaded["kept"]) == 2 * 2 * (2 + 2)
    by_text = {row["completion"]: row for row in loaded}
    for arm in ("grpo", "pods"):
        for written in RunFolder(runs / arm).rollouts(2).to_pylist():
            row = by_text[written["completion"]]
            assert (row["arm"], row["seed"]) == (arm, 3)
            assert {name: row[name] for name in written} == written
    # the other arm has no such reward function, and no run has right answers
    assert by_text["grpo 1 0 0"]["rewards/form"] is None
    assert set(loaded["answer"]) == {None}


def test_the_card_tells_settings_columns_and_what_was_kept_but_no_folder_and_no_secret(
    runs, tmp_path
):
    pods_report(runs, "--out", tmp_path / "report", "--dataset", tmp_path / "d", "--title", "a: #b")
    card = (tmp_path / "d" / "README.md").read_text(encoding="utf-8")
    header = yaml.safe_load(card.split("---\n")[1])
    assert header["pretty_name"] == "a b"
    assert header["configs"] == [{"config_name": "default", "data_files": "data/*.parquet"}]
    assert "| setting | grpo | pods |" in card
    assert "| `num_rollouts` | 2 | 4 |" in card
    assert "| `temperature` | 0.7 | 0.7 |" in card
    assert "| `model_name_or_path` | Qwen2.5-3B-Instruct | Qwen2.5-3B-Instruct |" in card
    assert "| `downsampling_rule` | rules.py:mine | rules.py:mine |" in card
    assert "secret" not in card
    # rewards of four rollouts are 1, 2/3, 1/3 and 0; the first and the last are kept
    (counted,) = re.findall(r"\| pods, seed 3 \|(.*)\|", card)
    assert [cell.strip() for cell in counted.split("|")] == [
        *("01-pods-seed-3.parquet", "2", "4", "16", "8", "0.500", "0.500", "0.500")
    ]
    described = {"arm", "seed", *ROLLOUT_COLUMNS, *OPTIONAL_COLUMNS}
    assert all(f"| `{name}` |" in card for name in described | {"rewards/form"})


def test_the_card_tells_what_differs_between_the_seeds_of_an_arm(tmp_path):
    for seed, rate in enumerate([1e-5, 9e-4]):
        config = {"learning_rate": rate, "model_name_or_path": f"/home/someone/model-{seed}"}
        run = write_run(tmp_path / str(seed), "pods", seed, (0.1, 0.5), config=config)
        run.write_rollouts(1, rollouts())
    pods_report(tmp_path, "--out", tmp_path / "report", "--dataset", tmp_path / "d")
    card = (tmp_path / "d" / "README.md").read_text(encoding="utf-8")
    assert r"| `learning_rate` | 1e-05 \| 0.0009 |" in card
    assert "| `seed` | 0, 1 |" in card
    assert r"| `model_name_or_path` | model-0 \| model-1 |" in card


def test_a_run_of_the_trainer_alone_is_shared_too_and_a_damaged_step_is_left_out(tmp_path):
    run = write_training(tmp_path / "run", (0.2, 0.4))
    run.write_rollouts(1, rollouts())
    run.write_rollouts(2, rollouts())
    run.rollout_path(1).write_bytes(b"not parquet")
    with pytest.warns(match=r"step_000001.parquet is damaged"):
        pods_report(run.path, "--out", tmp_path / "report", "--dataset", tmp_path / "d")
    rows = datasets.load_dataset("parquet", data_files=str(tmp_path / "d" / "data" / "*"),
                                 cache_dir=str(tmp_path / "cache"))["train"]  # fmt: skip
    assert set(rows["step"]) == {2}


def test_a_folder_with_something_in_it_and_runs_without_rollouts_are_refused(runs, tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "old.parquet").touch()
    with pytest.raises(InvalidInputError, match="is not empty; name a folder that is new"):
        pods_report(runs, "--out", tmp_path / "report", "--dataset", tmp_path / "used")
    assert not (tmp_path / "report").exists()
    write_run(tmp_path / "bare", "pods", 0, (0.1, 0.5))
    with pytest.raises(InvalidInputError, match="the runs hold no rollouts"):
        pods_report(tmp_path / "bare", "--out", tmp_path / "report", "--dataset", tmp_path / "d")
