import fcntl
import subprocess
import sys

import numpy as np
import pytest

from podsrl.errors import InvalidInputError
from podsrl.rollout_log.environment import git_state
from podsrl.rollout_log.run_folder import DamagedFileWarning, RunFolder, find_runs
from podsrl.rollout_log.writer import RolloutLog


def rollout_columns(n=4):
    return {
        "group": [0] * n,
        "rollout": list(range(n)),
        "prompt": ["1+1="] * n,
        "completion": [f"it is {i}" for i in range(n)],
        "reward": [None, *np.linspace(0, 1, n - 1)],
        "kept": [i % 2 == 0 for i in range(n)],
        "advantage": [float(i) if i % 2 == 0 else None for i in range(n)],
        "tokens": [3] * n,
        "rewards/correctness": [float("nan"), *np.linspace(0, 1, n - 1)],
    }


def log_four(log, step):
    """Four rollouts of one group, on disk when it returns."""
    log.write(step, rollout_columns, groups=1, rollouts=4)
    log.flush()


def test_a_run_reads_back_what_was_written(tmp_path):
    run = RunFolder(tmp_path / "run")
    config = {"arm": "pods", "seed": 3, "learning_rate": 5e-6, "rule": None, "layers": ["q", "v"]}
    run.write_config(config)
    run.append_metrics({"step": 1, "reward": np.float32(0.5), "loss": float("nan")})
    run.append_metrics({"step": 2, "reward": 1.0})
    run.finish("pods", 3, 2, 12.5)

    again = RunFolder(tmp_path / "run")
    assert again.config() == config
    assert again.metrics() == [{"step": 1, "reward": 0.5, "loss": None}, {"step": 2, "reward": 1.0}]
    assert again.finished() == {"arm": "pods", "seed": 3, "steps": 2, "training_seconds": 12.5}


def test_rollouts_read_back_with_nulls_where_there_is_no_value(tmp_path):
    run = RunFolder(tmp_path)
    run.write_rollouts(7, rollout_columns())
    assert run.rollout_steps() == [7]
    table = run.rollouts(7).to_pydict()
    assert table["step"] == [7, 7, 7, 7]
    assert table["reward"] == [None, 0.0, 0.5, 1.0]
    assert table["rewards/correctness"] == [None, 0.0, 0.5, 1.0]
    assert table["advantage"] == [0.0, None, 2.0, None]


def test_a_half_written_last_line_is_named_and_skipped_and_not_glued_to_the_next(tmp_path):
    run = RunFolder(tmp_path)
    run.append_metrics({"step": 1})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "rew')
    with pytest.warns(DamagedFileWarning, match=r"metrics\.jsonl, line 2 is half-written"):
        assert run.metrics() == [{"step": 1}]
    run.append_metrics({"step": 2})
    assert run.metrics() == [{"step": 1}, {"step": 2}]


def test_a_whole_last_line_without_its_end_is_kept(tmp_path):
    run = RunFolder(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}')
    assert len(run.metrics()) == 2
    run.append_metrics({"step": 3})
    assert [row["step"] for row in run.metrics()] == [1, 2, 3]
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}')
    run.truncate_after(2)
    assert len(run.metrics()) == 2


@pytest.mark.parametrize("damage", ['{"step": 1, "x\n', "\x00\x00\n", "[1]\n", '{"loss": 1}\n'])
def test_a_damaged_line_in_the_middle_is_refused_by_name(tmp_path, damage):
    run = RunFolder(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n' + damage + '{"step": 3}\n')
    with pytest.raises(InvalidInputError, match=r"metrics\.jsonl.*damaged"):
        run.metrics()


def test_truncating_forgets_everything_after_the_step(tmp_path):
    run = RunFolder(tmp_path)
    for step in (1, 2, 3):
        run.append_metrics({"step": step})
        run.write_rollouts(step, rollout_columns())
    run.finish("pods", 0, 3, 3.0)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step"')  # half-written: must go, without a warning

    run.truncate_after(2)
    assert [row["step"] for row in run.metrics()] == [1, 2]
    assert run.rollout_steps() == [1, 2]
    assert run.finished() is None

    run.finish("pods", 0, 2, 2.0)
    run.truncate_after(2)  # it goes on, with more steps than it was to have
    assert run.finished() is None


def test_going_back_sets_later_checkpoints_aside_as_the_newest_is_resumed_from(tmp_path):
    for name in ("checkpoint-5", "checkpoint-10", "checkpoint-20", "checkpoint-best"):
        (tmp_path / name).mkdir()
    RunFolder(tmp_path).truncate_after(10)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["checkpoint-10", "checkpoint-5", "checkpoint-best", "previous-1"]
    assert [path.name for path in (tmp_path / "previous-1").iterdir()] == ["checkpoint-20"]


def test_the_records_of_an_earlier_run_are_set_aside_and_nothing_else(tmp_path):
    run = RunFolder(tmp_path)
    run.write_config({"arm": "pods"})
    assert run.set_aside() is None  # nothing was recorded yet

    run.append_metrics({"step": 1})
    run.write_rollouts(1, rollout_columns())
    (tmp_path / "model.bin").write_text("x")
    assert run.set_aside() == tmp_path / "previous-1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.bin", "previous-1"]
    assert RunFolder(tmp_path / "previous-1").rollout_steps() == [1]

    run.append_metrics({"step": 1})
    assert run.set_aside() == tmp_path / "previous-2"
    with pytest.raises(InvalidInputError, match="no run in"):  # those set aside are none
        find_runs(tmp_path)


@pytest.mark.parametrize("per_step", [1, 2])
@pytest.mark.parametrize("apart", [1, 4, 10])
def test_a_log_over_its_bound_keeps_steps_at_equal_distances(tmp_path, apart, per_step):
    """Of any numbers: a host may log every tenth step, or generate for four steps at once."""
    run = RunFolder(tmp_path)
    log = RolloutLog(run, max_rows=20 * per_step)  # 5 steps of 4 rows
    for i in range(12):
        for _ in range(per_step):
            log_four(log, apart * (i + 1))
    # the sixth step is one too many, and so is the sixth of those that every second one makes
    assert run.rollout_steps() == [apart * i for i in (1, 5, 9)]
    counts = {run.rollout_count(step) for step in run.rollout_steps()}
    assert counts == {4 * per_step}


@pytest.mark.parametrize("apart", [1, 4])
@pytest.mark.parametrize("after", [2, 5, 9, 10])
def test_a_resumed_run_logs_the_steps_that_it_would_have_logged(tmp_path, after, apart):
    runs = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "resumed")
    for run in runs:
        log = RolloutLog(run, max_rows=4 * 4)
        for i in range(1, 20):
            log_four(log, apart * i)
            if i == after and run is runs[1]:
                run.truncate_after(apart * i)
                log = RolloutLog(run, max_rows=4 * 4)
    assert runs[0].rollout_steps() == runs[1].rollout_steps() == [apart, apart * 9, apart * 17]


def test_a_thinned_log_goes_on_thinned_and_a_whole_one_whole(tmp_path):
    thinned = RunFolder(tmp_path / "thinned")
    whole = RunFolder(tmp_path / "whole")

    log = RolloutLog(thinned, max_rows=11)
    for step in (1, 2, 3):
        log_four(log, step)
    assert thinned.rollout_steps() == [1, 3]

    thinned.truncate_after(2)
    log = RolloutLog(thinned, max_rows=11)
    for step in range(3, 8):
        log_four(log, step)
    assert thinned.rollout_steps() == [1, 5]  # 1, 3 and 5 were one too many

    for step in (1, 5, 9, 13):  # a generation for four steps at once
        log_four(RolloutLog(whole, max_rows=100), step)

    log = RolloutLog(whole, max_rows=100)
    for step in (15, 19, 23):  # resumed from a checkpoint of step 14
        log_four(log, step)
    assert whole.rollout_steps() == [1, 5, 9, 13, 15, 19, 23]


def test_damaged_rollouts_are_named_and_skipped(tmp_path):
    run = RunFolder(tmp_path)
    run.write_rollouts(1, rollout_columns())
    (path,) = run.rollout_parts(1)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.warns(DamagedFileWarning, match=r"step_000001/rank_0_of_1\.parquet is damaged"):
        assert run.rollouts(1) is None


def test_damaged_config_and_finished_files_are_refused_by_name(tmp_path):
    run = RunFolder(tmp_path)
    with pytest.raises(InvalidInputError, match=r"no config\.yaml"):
        run.config()
    (tmp_path / "config.yaml").write_text("a: [1")
    with pytest.raises(InvalidInputError, match=r"config\.yaml is damaged"):
        run.config()
    (tmp_path / "finished.json").write_text('{"arm"')
    with pytest.raises(InvalidInputError, match=r"finished\.json is damaged"):
        run.finished()


def test_runs_are_found_below_a_folder_and_none_is_an_error(tmp_path):
    with pytest.raises(InvalidInputError, match="no run in"):
        find_runs(tmp_path)
    for name in ("pods/seed-1", "grpo/seed-0", "grpo/seed-1"):
        RunFolder(tmp_path / name).write_config({"arm": name[:4]})
    # what a start that was killed had put beside a run
    RunFolder(tmp_path / "pods" / ".seed-1.before").write_config({"arm": "pods"})
    names = [str(run.path.relative_to(tmp_path)) for run in find_runs(tmp_path)]
    assert names == ["grpo/seed-0", "grpo/seed-1", "pods/seed-1"]


@pytest.mark.parametrize("text", ["name: hydra's\n", "- a\n- list\n", "{{ template }}\n", ""])
def test_a_foreign_config_below_a_folder_is_skipped_with_a_note(tmp_path, caplog, text):
    RunFolder(tmp_path / "pods").write_config({"seed": 1, "arm": "pods"})
    foreign = tmp_path / "pods" / "wandb" / "files" / "config.yaml"
    foreign.parent.mkdir(parents=True)
    foreign.write_text(text)
    assert [run.path for run in find_runs(tmp_path)] == [tmp_path / "pods"]
    assert f"{foreign} is no run's" in caplog.text
    with pytest.raises(InvalidInputError, match="no run in"):
        find_runs(tmp_path / "pods" / "wandb")


def test_a_folder_that_cannot_be_written_to_is_one_line(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "run" / ".podsrl.lock").mkdir(parents=True)  # as one that others may not open
    for folder, why in (("file", "File exists"), ("run", "Is a directory")):
        with pytest.raises(InvalidInputError, match=f"can't write to {tmp_path / folder}: {why}"):
            RunFolder(tmp_path / folder).lock()


def test_a_folder_that_another_run_lets_go_at_this_moment_is_locked_all_the_same(
    tmp_path, monkeypatch
):
    """A run that ends removes its lock's file, which the next one may have opened already."""
    other = RunFolder(tmp_path)
    other.lock()
    flock = fcntl.flock

    def end_the_other_and_lock(*given):
        other.unlock()
        flock(*given)

    run = RunFolder(tmp_path)
    with monkeypatch.context() as while_locking:
        while_locking.setattr(fcntl, "flock", end_the_other_and_lock)
        run.lock()
    with pytest.raises(InvalidInputError, match="is being written to by process"):
        other.lock()
    run.unlock()


def test_a_token_on_the_command_line_is_not_recorded(tmp_path, monkeypatch):
    given = ["pods", "--hub_token", "abc", "--hub_token=abc", "--seed", "1"]
    monkeypatch.setattr(sys, "argv", given)
    run = RunFolder(tmp_path)
    run.write_environment()
    masked = ["pods", "--hub_token", "***", "--hub_token=***", "--seed", "1"]
    assert run.environment()["command"] == masked


def test_the_environment_tells_versions_hardware_and_command(tmp_path):
    run = RunFolder(tmp_path)
    assert run.environment() == {}

    run.write_environment()
    found = run.environment()
    assert found["versions"]["numpy"] == np.__version__
    assert found["command"] == sys.argv
    assert found["cores"] >= 1
    assert found["cpu"]

    run.write_environment()  # resumed, twice: what it began on stays
    run.write_environment()
    first = run.environment()
    later = first.pop("resumed")
    assert first == found
    assert [start["cpu"] for start in later] == [found["cpu"]] * 2


def test_git_state_tells_the_commit_and_uncommitted_changes(tmp_path):
    def git(*words):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    assert git_state(tmp_path) is None  # nothing committed yet
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-m", "x")
    state = git_state(tmp_path)
    assert len(state["commit"]) == 40
    assert state["dirty"] is False
    (tmp_path / "new").write_text("x")
    assert git_state(tmp_path)["dirty"] is True


def test_records_import_neither_torch_nor_pyarrow():
    code = (
        "import sys, podsrl.rollout_log.run_folder;"
        "print({'torch', 'pyarrow', 'pandas', 'scipy'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", code]) == b"set()\n"
