"""benchmarks/methods: every file can be run, and the page says what the published runs do."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from datasets import Dataset

from benchmarks.answers import by_kind
from benchmarks.methods import page
from benchmarks.methods.uneven import UnevenTrainer
from podslab.tasks.answers import Answers
from podslab.tasks.arithmetic import Arithmetic
from podslab.training.run import with_prompts
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


def test_the_published_page_is_made_of_the_published_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "render", lambda drawn, kind: b"a figure")  # most of the time
    monkeypatch.setattr(page.costs, "figure", lambda *given: None)
    monkeypatch.setattr(page.costs, "predicted", lambda *given: {})
    results = ROOT / "results"
    shutil.copytree(results / "methods", tmp_path / "methods")
    page.write_page(tmp_path / "methods")
    for file in ("methods.md", "methods.json"):
        assert (tmp_path / file).read_text() == (results / file).read_text()


def test_a_row_without_a_pass_is_no_trained_row():
    file = ROOT / "results/methods/pretrained-16/grpo-filter-rest-0.json"
    run = json.loads(file.read_text())
    expected = run["rows_trained"] * (1 - run["filler_share"])
    assert page.curves([run]).trained[0, -1] == pytest.approx(expected)
    as_in_trl = {**run, "arm": {**run["arm"], "skip_zero_advantage": False}}
    assert page.curves([as_in_trl]).trained[0, -1] == run["rows_trained"]
    twice = {**run, "setting": "rare-16", "filler_share": 1.0}
    # two passes of one row, and one that goes forward only
    passes = (2 + 1 / 3) * run["curve"]["steps"][-1] / 2
    assert page.curves([twice]).trained[0, -1] == pytest.approx(passes)
    share = {**twice, "share_passed": 0.5}
    assert page.passes(share) == pytest.approx(0.5 * (2 + 1 / 3))


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


def test_an_evaluation_that_waited_for_its_step_is_read_at_its_own_time():
    curve = {"seconds": [0, 90, 160, 240, 330], "accuracy": [0, 0.3, 0.4, 0.6, 0.9]}
    right = page.at_equal_times({"setting": "pretrained-16", "curve": curve})
    assert right.tolist() == pytest.approx([0, 0.25, 0.3 + 0.1 * 6 / 7, 0.5625, 0.8])


def test_the_published_summary_of_the_pretrained_model_is_made_of_its_runs(tmp_path, monkeypatch):
    """Its page and the README have their numbers from there."""
    from benchmarks import language_model

    published = ROOT / "results" / "language-model.json"
    monkeypatch.setattr(language_model, "RESULTS", tmp_path)
    language_model.write_page(json.loads(published.read_text(encoding="utf-8"))["runs"])
    assert (tmp_path / published.name).read_text() == published.read_text()
    assert (tmp_path / "language-model.png").stat().st_size > 10_000


@pytest.mark.slow
def test_prompts_with_different_numbers_of_rollouts(tiny_model, tmp_path):
    """What was not generated has no reward and is not counted."""
    task, prompts = Arithmetic(2, 2), 8
    trainer = UnevenTrainer(
        str(tiny_model),
        lambda completions, answer, **_: [
            float(f">{a}<" in c[0]["content"]) for c, a in zip(completions, answer, strict=True)
        ],
        args=PODSConfig(
            str(tmp_path), **METHODS["grpo-8-screen"]["arm"], per_device_train_batch_size=prompts,
            gradient_accumulation_steps=1, max_completion_length=48, max_steps=2, report_to="none",
            use_cpu=True, bf16=False,
        ),
        train_dataset=Dataset.from_list(with_prompts(task, task.load("train")[:64])),
    )  # fmt: skip
    trainer.train()
    tables = [RunFolder(tmp_path).rollouts(step).to_pandas() for step in (1, 2)]
    made = 0
    for table in tables:
        scored = table.groupby("group")["reward"].count()
        assert len(scored) == prompts
        assert table["kept"].sum() == prompts
        assert set(scored) <= {0, 8}  # one group at most goes on, and counts whole
        assert (scored > 0).sum() <= 1
        made += 2 * prompts + 6 * (scored > 0).sum()
    assert trainer.rollouts_generated == made
