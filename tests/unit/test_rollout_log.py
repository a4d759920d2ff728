"""The writer of rollouts: a thread, a part for each process, and one account of the steps."""

import threading

import pytest

from podsrl.errors import RecordError
from podsrl.rollout_log import files
from podsrl.rollout_log.run_folder import DamagedFileWarning, Part, RunFolder
from podsrl.rollout_log.writer import LoggedSteps, RolloutLog


def columns(groups, rollouts=range(2)):
    """Some groups, with these rollouts of each."""
    places = [(group, rollout) for group in groups for rollout in rollouts]
    return {
        "group": [group for group, _ in places],
        "rollout": [rollout for _, rollout in places],
        "prompt": [f"prompt {group}" for group, _ in places],
        "completion": ["it is 2"] * len(places),
        "reward": [1.0] * len(places),
        "kept": [True] * len(places),
        "advantage": [0.0] * len(places),
        "tokens": [3] * len(places),
    }


def logs_of(run, world, max_rows=10**6):
    """The logs of all processes of a run, as they begin."""
    made = []
    for process in range(world):
        made.append(RolloutLog(run, max_rows, process, world, LoggedSteps.of(run)))
    return made


def write_generation(logs, step):
    """Four groups of two rollouts, a share of them from each process."""
    world = len(logs)
    for process, log in enumerate(logs):
        share = range(4 * process // world, 4 * (process + 1) // world)
        log.write(step, lambda share=share: columns(share), groups=4, rollouts=8)


def rollouts_of(run, step):
    table = run.rollouts(step).to_pydict()
    return list(zip(table["group"], table["rollout"], table["prompt"], strict=True))


def test_readers_see_the_parts_of_all_processes_as_one_table(tmp_path):
    run = RunFolder(tmp_path)
    logs = logs_of(run, world=3)
    for step in (1, 2):
        write_generation(logs, step)
    for log in logs:
        log.flush()
    assert run.rollout_steps() == [1, 2]
    assert rollouts_of(run, 2) == [(g, r, f"prompt {g}") for g in range(4) for r in range(2)]
    assert run.rollout_count(2) == 8


def test_generations_of_one_step_follow_each_other_and_number_their_groups_on(tmp_path):
    run = RunFolder(tmp_path)
    logs = logs_of(run, world=2)
    for _ in range(2):
        write_generation(logs, 5)
    for log in logs:
        log.flush()
    groups = [(group, prompt) for group, rollout, prompt in rollouts_of(run, 5) if rollout == 0]
    assert groups == [(group, f"prompt {group % 4}") for group in range(8)]


def test_parts_are_in_order_also_of_many_processes():
    parts = [Part(process, 100, generation) for generation in (0, 1) for process in range(100)]
    names = [part.file_name for part in parts]
    assert names[:100] == sorted(names[:100])
    assert [Part.of(name) for name in names] == parts


def test_a_step_of_which_a_part_is_missing_is_named_and_left_out(tmp_path):
    run = RunFolder(tmp_path)
    logs = logs_of(run, world=3)
    write_generation(logs, 1)
    for log in logs:
        log.flush()
    run.rollout_parts(1)[1].rename(tmp_path / "elsewhere.parquet")
    with pytest.warns(DamagedFileWarning, match="lacks the parts of ranks 1 of 3"):
        assert run.rollouts(1) is None
    assert run.rollout_count(1) == 0


def test_a_part_that_is_half_written_is_no_part(tmp_path, monkeypatch):
    """A kill leaves a hidden file behind, which no reader looks at."""
    run = RunFolder(tmp_path)
    monkeypatch.setattr(files.os, "replace", lambda *paths: None)
    run.write_rollouts(1, columns([0]))
    assert [path.suffix for path in run.rollout_folder(1).iterdir()] == [".part"]
    assert run.rollout_steps() == []


def test_all_processes_thin_out_the_same_steps_also_those_of_more_processes(tmp_path):
    run = RunFolder(tmp_path)
    before = logs_of(run, world=4, max_rows=40)  # 5 steps of 8 rollouts
    for step in (1, 2, 3, 4, 5):
        write_generation(before, step)
    for log in before:
        log.close()
    assert run.rollout_steps() == [1, 2, 3, 4, 5]

    after = logs_of(run, world=2, max_rows=40)  # resumed on fewer processes
    for step in range(6, 13):
        write_generation(after, step)
    for log in after:
        log.close()
    assert run.rollout_steps() == [1, 5, 9]
    assert [len(run.rollout_parts(step)) for step in (1, 5, 9)] == [4, 4, 2]
    run.sweep()
    folders = sorted(path.name for path in (tmp_path / "rollouts").glob("step_*"))
    assert folders == ["step_000001", "step_000005", "step_000009"]


def test_training_does_not_wait_for_the_disk_until_two_generations_wait(tmp_path):
    run = RunFolder(tmp_path)
    log = RolloutLog(run, max_rows=10**6)
    disk = threading.Event()
    wrote = []

    def slow():
        disk.wait(60)
        return columns([0])

    for step in (1, 2, 3):  # one in the making, two that wait
        log.write(step, slow, groups=1, rollouts=2)
    assert run.rollout_steps() == []

    def fourth():
        log.write(4, slow, groups=1, rollouts=2)
        wrote.append(run.rollout_steps())

    training = threading.Thread(target=fourth)
    training.start()
    disk.set()
    training.join()
    assert wrote[0][:1] == [1]  # it waited for the first
    log.flush()
    assert run.rollout_steps() == [1, 2, 3, 4]
    log.close()


def test_what_can_not_be_written_is_told_at_the_next_flush_and_write_in_one_line(
    tmp_path, monkeypatch
):
    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    run = RunFolder(tmp_path)
    log = RolloutLog(run, max_rows=10**6)
    monkeypatch.setattr(files, "write_whole", full)
    log.write(1, lambda: columns([0]), groups=1, rollouts=2)
    with pytest.raises(RecordError, match="No space left on device") as said:
        log.flush()
    assert "\n" not in str(said.value)
    assert "rollout_log=False" in str(said.value)
    with pytest.raises(RecordError):
        log.write(2, lambda: columns([0]), groups=1, rollouts=2)
    log.close()
    assert isinstance(log.error, OSError)


def test_nothing_is_left_behind_when_it_is_closed(tmp_path):
    before = set(threading.enumerate())
    run = RunFolder(tmp_path)
    log = RolloutLog(run, max_rows=10**6)
    for step in (1, 2, 3):
        log.write(step, lambda: columns([0]), groups=1, rollouts=2)
    log.close()
    assert run.rollout_steps() == [1, 2, 3]
    assert set(threading.enumerate()) <= before  # those of other tests may end meanwhile
    log.close()  # twice, as where a run ends by an exception
