"""`pods compare`: equal budgets, one process per run, killed and continued."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("trl")

from podsgrading.pool import GradingProcessError
from podsgrading.unscorable import UnscorableError
from podslab.comparison import run_worker as worker
from podslab.comparison.comparison import RunKey, Shard, open_comparison
from podslab.comparison.comparison_config import parse_comparison
from podslab.comparison.run_comparison import compare
from podslab.comparison.run_worker import work
from podslab.evaluation.records import evaluations
from podslab.report.load_runs import Choices, load_comparison
from podslab.training import run as experiment
from podslab.training.evaluator import Evaluator
from podsrl.cli import main
from podsrl.errors import InvalidInputError, RewardError
from podsrl.rollout_log.run_folder import RunFolder, find_runs
from podsrl.trl import PODSTrainer
from support.forked import Forked, hold_after, pods
from support.synthetic_runs import write_run


def write(path: Path, config: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return str(path)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# ---- running -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_equal_training_time_is_equal_to_one_step(comparison, tmp_path, capsys):
    config = comparison(budget={"training_seconds": 1.0}, evaluations=1)

    def seconds_of(step):
        phases = ("generate", "score", "select", "update")
        return sum(step[f"pods/seconds_{phase}"] for phase in phases)

    for run in train_here(config):
        steps = run.metrics()
        last = steps[-1]
        total = last["pods/training_seconds"]
        # without its last step it would have been too short
        assert total - seconds_of(last) < 1.0 <= total
        # evaluations took their time, too, but the steps' phases alone make up the training time
        assert sum(map(seconds_of, steps)) == pytest.approx(total)

        assert [point.step for point in evaluations(run)] == [0, last["step"]]
        assert run.environment()["versions"]["trl"]
        assert run.config()["arm"] == run.path.parent.name

    assert main(["compare", "--config", write(tmp_path / "c.yaml", config)]) == 0
    assert "3 runs finished" in capsys.readouterr().out
    report = load_comparison([tmp_path / "runs"], Choices())
    assert [arm.name for arm in report.arms] == ["grpo", "grpo_ga", "pods"]


def train_here(config: dict[str, Any]) -> list[RunFolder]:
    """Every run, in this process: what a run records does not depend on who started it."""
    spec = open_comparison(parse_comparison(config, "x"))
    for run in spec.runs():
        run_spec = spec.run_spec(run)
        experiment.train(run_spec, experiment.load_data(run_spec))
    return [spec.run_folder(run) for run in spec.runs()]


# ---- processes: killed, crashing, side by side ---------------------------------------------------
# Where training itself is not looked at, the runs' processes are those of
# support/comparison_worker.py, which write a run's files and import no torch.

SUPPORT = Path(__file__).parents[3] / "tests" / "support"
WITHOUT_TORCH = [sys.executable, str(SUPPORT / "comparison_worker.py")]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    tests = str(SUPPORT.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([tests, os.environ["PYTHONPATH"]]))


def behave(tmp_path: Path, **arms: str) -> None:
    (tmp_path / "behave.json").write_text(json.dumps(arms))


def started(path: str, log: Path, *flags: str) -> Forked:
    return pods(["compare", "--config", path, *flags], log)


def test_a_killed_comparison_goes_on_and_leaves_finished_runs_as_they_are(
    comparison, tmp_path, quick
):
    budget = {"steps": 8}
    config = comparison(arms=["grpo", "pods"], budget=budget, evaluations=4, launch=WITHOUT_TORCH)
    behave(tmp_path, pods="hold")
    path = write(tmp_path / "c.yaml", config)
    log = tmp_path / "log"
    first, second = (RunFolder(tmp_path / "runs" / arm / "seed-0") for arm in ("grpo", "pods"))

    process = started(path, log)
    process.wait_for(lambda: first.finished() and len(second.metrics()) >= 5)
    process.send(signal.SIGKILL)  # as if the machine had gone down
    before = contents(first.path)
    assert second.finished() is None
    behave(tmp_path)

    assert started(path, log).wait() == 0, log.read_text()
    assert contents(first.path) == before
    assert "resumed" not in second.environment()
    assert_8_steps_with_4_evaluations(second)
    before = contents(tmp_path / "runs")  # and a third time there is nothing to do
    assert main(["compare", "--config", path]) == 0
    assert contents(tmp_path / "runs") == before


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_from_its_last_checkpoint(comparison, tmp_path):
    """In the process of a run as users have it."""
    settings = {"save_strategy": "steps", "save_steps": 2, "evaluation_problems": 2}
    config = comparison(settings, arms=["pods"], budget={"steps": 8}, evaluations=4)
    spec = open_comparison(parse_comparison(config, "x"))
    run = spec.run_folder(RunKey("pods", 0))

    def until_step_5() -> None:
        hold_after(5)
        work(spec.folder, "pods/seed-0")

    process = Forked(until_step_5, tmp_path / "log")
    process.wait_for(lambda: len(run.metrics()) == 5)
    process.send(signal.SIGKILL)
    steps = run.metrics()

    assert main(["compare", "--config", write(tmp_path / "c.yaml", config)]) == 0
    assert run.metrics()[:4] == steps[:4]  # 4 of 5 were kept
    assert run.rollout_steps() == list(range(1, 9))
    assert_8_steps_with_4_evaluations(run)


def assert_8_steps_with_4_evaluations(run: RunFolder) -> None:
    assert [row["step"] for row in run.metrics()] == list(range(1, 9))
    assert [e.step for e in evaluations(run)] == [0, 2, 4, 6, 8]
    assert run.finished() == {
        "arm": "pods",
        "seed": 0,
        "steps": 8,
        "training_seconds": run.metrics()[-1]["pods/training_seconds"],
    }


def test_a_run_that_crashes_hurts_no_other_and_is_retried(comparison, tmp_path, capsys, quick):
    config = comparison(arms=["grpo", "pods"], evaluations=1, launch=WITHOUT_TORCH)
    path = write(tmp_path / "c.yaml", config)
    behave(tmp_path, grpo="kill")
    assert main(["compare", "--config", path]) == 1
    assert "grpo seed 0: killed by signal 9" in capsys.readouterr().err
    assert RunFolder(tmp_path / "runs" / "pods" / "seed-0").finished()
    behave(tmp_path)
    assert main(["compare", "--config", path]) == 0


def test_a_users_error_in_a_run_ends_the_comparison_which_may_then_be_corrected(
    comparison, tmp_path, capsys, quick
):
    config = comparison(arms=["grpo", "pods"], launch=WITHOUT_TORCH)
    path = write(tmp_path / "c.yaml", config)
    behave(tmp_path, grpo="mistake")
    assert main(["compare", "--config", path]) == 2
    assert "grpo seed 0: the model 'no/such' is nowhere" in capsys.readouterr().err

    behave(tmp_path)
    config["budget"] = {"steps": 3}  # another comparison, as no run had begun
    assert main(["compare", "--config", write(tmp_path / "c.yaml", config)]) == 0

    finished = {run.path: contents(run.path) for run in find_runs(tmp_path / "runs")}
    config["arms"] = {"grpo": {}, "pods": {}, "max_reward": {"downsampling_rule": "max_reward"}}
    behave(tmp_path, max_reward="mistake")  # what is there is not touched by a later mistake
    assert main(["compare", "--config", write(tmp_path / "c.yaml", config)]) == 2
    assert {path: contents(path) for path in finished} == finished


def test_a_model_that_is_nowhere_is_named(comparison):
    config = comparison({"model_name_or_path": "no/such-folder"}, arms=["pods"])
    spec = open_comparison(parse_comparison(config, "x"))
    with pytest.raises(InvalidInputError, match="no/such-folder"):
        work(spec.folder, "pods/seed-0")
    with pytest.raises(InvalidInputError, match="min_columns = 3"):
        parse_comparison(comparison({"task_options": {"min_columns": 3, "max_columns": 2}}), "x")


@pytest.mark.slow
def test_steps_longer_than_the_way_between_evaluations_are_named(comparison, tmp_path, capsys):
    config = comparison(arms=["grpo", "pods"], budget={"training_seconds": 0.001}, evaluations=4)
    path = write(tmp_path / "c.yaml", config)
    folder = tmp_path / "runs"
    train_here(config)
    before = contents(folder)
    assert main(["compare", "--config", path]) == 1
    said = capsys.readouterr().err
    assert "pods seed 0: evaluated 2 times instead of 5: a step took longer than 0.0002" in said
    assert f"Delete {folder / 'pods' / 'seed-0'} to run it again" in said
    assert contents(folder) == before  # and it neither stops nor changes the others


def test_a_run_that_another_process_finished_meanwhile_is_left_as_it_is(
    comparison, tmp_path, monkeypatch
):
    spec = open_comparison(parse_comparison(comparison(arms=["pods"]), "x"))
    run = spec.run_folder(RunKey("pods", 0))

    class Finishing:
        """The other process: it lets go of the lock when the run is finished."""

        def __init__(self, folder: RunFolder) -> None:
            write_run(folder.path, "pods", 0, (0.1, 0.5, 0.8))

        def __enter__(self) -> None:
            pass

        def __exit__(self, *error: object) -> None:
            self.before = contents(run.path)

    def not_again(*args: object, **kwargs: object) -> None:
        raise AssertionError("the finished run was started again")

    locks = []
    monkeypatch.setattr(
        "podslab.engine.pool.lock_of",
        lambda f: locks.append(Finishing(f)) or locks[-1],
    )
    monkeypatch.setattr(subprocess, "Popen", not_again)
    outcome = compare(spec, Shard(1, 1))
    assert (outcome.done, outcome.failed) == (1, {})
    assert contents(run.path) == locks[0].before
    # and a worker that was started before the run was finished does nothing either
    work(spec.folder, "pods/seed-0")
    assert contents(run.path) == locks[0].before


def test_a_reward_function_that_fails_is_its_own_runs_failure(monkeypatch, capsys, tmp_path):
    def fails(error: type[Exception]) -> int:
        def work(*args: object) -> None:
            raise error("why")

        monkeypatch.setattr(worker, "work", work)
        monkeypatch.setattr(worker, "end_with_parent", lambda: None)
        monkeypatch.setattr(sys, "argv", ["worker", str(tmp_path / "folder"), "pods/seed-0"])
        return worker.main()

    own = (RewardError, UnscorableError, GradingProcessError)
    assert [fails(error) for error in (*own, InvalidInputError)] == [1, 1, 1, 2]
    assert capsys.readouterr().err == "why\n" * 4


@pytest.mark.slow
def test_two_shards_at_once_do_each_run_once(comparison, tmp_path, quick):
    config = comparison(arms=["grpo", "pods"], seeds=2, evaluations=1, launch=WITHOUT_TORCH)
    path = write(tmp_path / "c.yaml", config)
    folder = tmp_path / "runs"
    log = tmp_path / "log"
    open_comparison(parse_comparison(config, "x"))
    parts = [started(path, log, "--shard", f"{i}/2") for i in (1, 2)]
    assert [part.wait() for part in parts] == [0, 0], log.read_text()

    runs = find_runs(folder)
    names = [str(run.path.relative_to(folder)) for run in runs]
    assert names == ["grpo/seed-0", "grpo/seed-1", "pods/seed-0", "pods/seed-1"]
    assert all(run.finished() and "resumed" not in run.environment() for run in runs)
    before = contents(folder)
    assert main(["compare", "--config", path]) == 0
    assert contents(folder) == before


@pytest.mark.slow
def test_evaluations_and_checkpoints_are_outside_training_time(comparison, tmp_path, monkeypatch):
    """2 seconds of each are slept: were any inside, training time would hold them."""
    spec = parse_comparison(comparison({"save_strategy": "steps", "save_steps": 1}), "x")
    run_spec = spec.run_spec(RunKey("pods", 0))
    measure = Evaluator._measure
    save = PODSTrainer._save_checkpoint

    def slowly(method: Any) -> Any:
        def slow(self: Any, *args: Any, **kwargs: Any) -> Any:
            time.sleep(2)
            return method(self, *args, **kwargs)

        return slow

    monkeypatch.setattr(Evaluator, "_measure", slowly(measure))
    monkeypatch.setattr(PODSTrainer, "_save_checkpoint", slowly(save))
    began = time.monotonic()
    result = experiment.train(run_spec, experiment.load_data(run_spec))
    wall = time.monotonic() - began
    points, checkpoints = 3, 2  # two steps
    assert len(evaluations(result.run)) == points
    assert wall - result.training_seconds >= 2 * (points + checkpoints)


def test_a_dry_run_prints_every_arm_and_makes_nothing(comparison, tmp_path, capsys):
    path = write(tmp_path / "c.yaml", comparison(seeds=2, budget={"training_seconds": 60}))
    assert main(["compare", "--config", path, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "grpo, grpo_ga, pods x 2 seeds, 60 training_seconds each" in printed
    assert "1 prompts x 8 rollouts" in printed
    assert "6 runs, 6 min of training time in all" in printed
    assert "keep        all 8 rollouts (n = m: plain GRPO): the update sees 8 rows" in printed
    assert not (tmp_path / "runs").exists()
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "config.yaml").touch()  # of `pods train`
    assert main(["compare", "--config", path, "--dry-run"]) == 2
    assert "holds files that are no comparison's" in capsys.readouterr().err


def test_a_dry_run_shows_how_arms_differ_from_each_other_and_from_their_methods(
    comparison, tmp_path, capsys
):
    arms = {"grpo": {}, "pods": {}, "max_contrast": {"advantage_baseline": "kept"}}
    base = {"skip_zero_advantage": False, "learning_rate": 2e-4}
    path = write(tmp_path / "c.yaml", comparison(base, arms=arms))
    assert main(["compare", "--config", path, "--dry-run"]) == 0

    printed = capsys.readouterr().out
    _, table = printed.split("Fields in which arms differ:\n")
    rows = [line.split() for line in table.splitlines()]
    assert rows[0] == ["field", "grpo", "pods", "max_contrast"]
    of_field = {row[0]: row[1:] for row in rows[1:] if row}
    assert of_field["method"] == ["grpo", "pods", "max_contrast"]
    assert of_field["downsampling_rule"][1:] == ["max_variance", "max_contrast"]
    assert "learning_rate" not in of_field  # all have the same
    assert "output_dir" not in of_field  # which every run has for itself

    departed = dict(re.findall(r"^(\w+) differs from its method: (.*)$", printed, re.MULTILINE))
    assert departed["pods"].endswith("skip_zero_advantage is off (on in pods)")
    assert departed["max_contrast"] == "advantage_baseline is 'kept' ('group' in max_contrast)"
    assert "grpo" not in departed
