"""The index of the inspector: what it says of steps and prompts, and how it grows with a run."""

import copy
import fcntl
import os
import resource
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from podsrl.errors import InvalidInputError
from podsrl.inspector import answers
from podsrl.inspector.answers import curves_of, featured, group_of, state_of, step_of
from podsrl.inspector.index import Index
from podsrl.inspector.notes import Mark, add_note, read_notes
from podsrl.inspector.search import PAGE, Query, search, write_results
from podsrl.inspector.sources import Options, find_sources
from podsrl.rollout_log.run_folder import Part
from support.inspected import age, answer, app_of, index_of, write_run
from support.synthetic_rollouts import rollouts

pytestmark = pytest.mark.usefixtures("unhurried")


def found(index, **words):
    return search(index, Query.of({name: str(value) for name, value in words.items()}))


def places(result):
    return [(row["step"], row["group"], row["rollout"]) for row in result["rows"]]


def pages(index, query):
    """Where the rollouts of all pages are, in their order."""
    seen = []
    before = ""
    while True:
        page = search(index, query, before)
        assert len(page["rows"]) <= PAGE
        seen += [(r["run"], r["step"], r["group"], r["rollout"]) for r in page["rows"]]
        before = page["before"]
        if not before:
            return seen


def test_the_summary_of_a_step_is_what_its_rollouts_say(tmp_path):
    """Against numpy, over the columns as they were written."""
    columns = rollouts(groups=3, n=6, m=2)
    columns["reward"][:6] = [0.5] * 6  # the first prompt teaches nothing
    columns["advantage"][:6] = [0.0 if kept else None for kept in columns["kept"][:6]]
    run = write_run(tmp_path / "run", steps=())
    run.write_rollouts(4, columns)
    with index_of(run.path) as index:
        steps = curves_of(index, index.runs[0])["steps"]

    reward_P_N = np.array(columns["reward"]).reshape(3, 6)
    kept_P_N = np.array(columns["kept"]).reshape(3, 6)
    spreads = [row.std() for row in reward_P_N]
    kept_spreads = [row[kept].std() for row, kept in zip(reward_P_N, kept_P_N, strict=True)]
    expected = {
        "step": 4,
        "rollouts": 18,
        "kept": 6,
        "prompts": 3,
        "reward": reward_P_N.mean(),
        "kept_reward": reward_P_N[kept_P_N].mean(),
        "dropped_reward": reward_P_N[~kept_P_N].mean(),
        "contrast": np.mean(spreads),
        "kept_contrast": np.mean(kept_spreads),
        "teaching": 2 / 3,
        "rows_with_pass": 4,
        "tokens": 12.5,  # 10, ..., 15
        "kept_tokens": 12.5,  # both ends
        "longest": 15,
    }
    assert {name: column for name, (column,) in steps.items()} == pytest.approx(expected, rel=1e-4)


def test_a_prompt_has_its_rollouts_by_reward_and_where_else_it_stands(tmp_path):
    run = write_run(tmp_path / "run", steps=(1, 5), groups=2, n=4, m=2, text="said {rollout}")
    with index_of(run.path) as index:
        group = group_of(index, index.runs[0], 5, 1)
        assert [r["completion"] for r in group["rollouts"]] == [f"said {i}" for i in range(4)]
        assert [r["kept"] for r in group["rollouts"]] == [True, False, False, True]
        assert group["rollouts"][0]["rewards"] == {"correctness": 1.0}
        assert (group["earlier"], group["later"]) == (1, None)
        assert [(e["step"], e["group"]) for e in group["elsewhere"]] == [(1, 1), (5, 1)]
        with pytest.raises(InvalidInputError, match="no prompt 9 in step 5"):
            group_of(index, index.runs[0], 5, 9)
        with pytest.raises(InvalidInputError, match="no rollouts of step 2"):
            step_of(index, index.runs[0], 2)


def test_parts_of_processes_are_one_step_once_all_are_there(tmp_path):
    run = write_run(tmp_path / "run", steps=())
    run.write_rollouts(1, rollouts(groups=1), Part(0, 2))
    with index_of(run.path) as index:
        assert state_of(index)["runs"][0]["logged_steps"] == 0
        run.write_rollouts(1, rollouts(groups=1) | {"group": [1] * 4}, Part(1, 2))
        index.refresh()
        assert step_of(index, index.runs[0], 1)["prompts"] == 2


def test_steps_that_come_are_seen_and_steps_that_go_are_forgotten(tmp_path):
    run = write_run(tmp_path / "run", steps=(1, 2))
    with index_of(run.path) as index:
        first = state_of(index)
        index.refresh()
        assert state_of(index)["version"] == first["version"]  # nothing new to see

        run.write_rollouts(3, rollouts())
        run.append_metrics({"step": 3, "reward": 0.25, "pods/training_seconds": 6.0})
        index.refresh()
        [now] = state_of(index)["runs"]
        assert (now["last_step"], now["reward"]) == (3, 0.25)

        run.delete_parts(2, process=0, world=1)  # as the log does where it thins out
        run.write_rollouts(1, rollouts(groups=5))  # as a run does that was resumed
        index.refresh()
        steps = curves_of(index, index.runs[0])["steps"]
        assert (steps["step"], steps["prompts"]) == ([1, 3], [5, 2])


def test_a_step_that_comes_while_a_page_asks_for_the_state_is_asked_for_again(
    tmp_path, monkeypatch
):
    """A page draws a state anew where its version is another one."""
    run = write_run(tmp_path / "run", steps=(1,))
    with index_of(run.path) as index:
        state_of_run = answers._state_of_run

        def told_before_a_step_comes(*of_run):
            told = state_of_run(*of_run)
            run.write_rollouts(2, rollouts())
            index.refresh()
            return told

        with monkeypatch.context() as while_asking:
            while_asking.setattr(answers, "_state_of_run", told_before_a_step_comes)
            early = state_of(index)
        late = state_of(index)
        assert [state["runs"][0]["last_step"] for state in (early, late)] == [1, 2]
        assert early["version"] != late["version"]


def test_who_asks_for_the_newest_gets_it_however_long_reading_took(tmp_path):
    """Only the thread that watches lets a file rest that takes long; it looks again later."""
    run = write_run(tmp_path / "run", steps=(1,))
    with index_of(run.path) as index:
        for file in index.runs[0].files.values():
            file.seconds = 3600.0  # as on a machine that does much else

        run.write_rollouts(1, rollouts(groups=5))
        index._read_changes(resting=True)
        assert curves_of(index, index.runs[0])["steps"]["prompts"] == [2]
        index.refresh()
        assert curves_of(index, index.runs[0])["steps"]["prompts"] == [5]


def test_a_damaged_file_is_named_and_left_out_until_it_is_whole(tmp_path):
    run = write_run(tmp_path / "run", steps=(1, 2))
    [path] = run.rollout_parts(2)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])

    with index_of(run.path) as index:
        [state] = state_of(index)["runs"]
        assert state["logged_steps"] == 1
        assert str(path) in state["damaged"][0]

        path.unlink()
        run.write_rollouts(2, rollouts())
        index.refresh()
        [state] = state_of(index)["runs"]
        assert (state["logged_steps"], state["damaged"]) == (2, [])


def test_a_step_that_is_taken_away_while_it_is_read_is_told(tmp_path):
    run = write_run(tmp_path / "run", steps=(1, 2))
    with app_of(run.path) as server:
        run.delete_parts(1, process=0, world=1)
        status, _, body = answer(server, "/api/group?step=1&group=0")
        assert status == 404
        assert b"changed while they were read" in body or b"no prompt 0 in step 1" in body


def test_a_step_whose_files_are_forgotten_after_its_numbers_were_read_is_told(
    tmp_path, monkeypatch
):
    run = write_run(tmp_path / "run", steps=(1, 2))
    with index_of(run.path) as index:
        # As if the thread that follows the run had seen in between that they are gone.
        monkeypatch.setattr(type(index.runs[0]), "files_of", lambda run, steps: [])
        with pytest.raises(InvalidInputError, match="changed while they were read"):
            group_of(index, index.runs[0], 1, 0)


@pytest.mark.parametrize("last", [1, 2, 3, 4])
def test_a_resumed_run_has_its_metrics_once_however_far_it_is_at_the_next_look(tmp_path, last):
    run = write_run(tmp_path / "run")
    for step in (1, 2, 3):
        run.append_metrics({"step": step, "entropy": float(step)})
    with index_of(run.path) as index:
        run.truncate_after(1)
        if last == 1:
            index.refresh()
        for step in range(2, last + 1):
            run.append_metrics({"step": step, "entropy": 10.0 * step})
        index.refresh()
        assert index.runs[0].metrics["entropy"] == [1.0, 20.0, 30.0, 40.0][:last]


def test_a_log_of_metrics_that_was_emptied_is_read_anew(tmp_path):
    run = write_run(tmp_path / "run")
    run.append_metrics({"step": 2, "entropy": 2.0})
    with index_of(run.path) as index:
        run.truncate_after(0)
        for entropies in ([2.0], [3.0]):
            index.refresh()
            assert index.runs[0].metrics["entropy"] == entropies
            run.append_metrics({"step": 1, "entropy": 3.0})


def test_an_evaluation_stands_beside_its_step_and_takes_no_curve_away(tmp_path):
    run = write_run(tmp_path / "run")
    run.append_metrics({"step": 1, "reward": 0.25, "pods/training_seconds": 1.0})
    with index_of(run.path) as index:
        run.append_metrics({"step": 1, "eval_reward": 0.75})
        index.refresh()
        run.append_metrics({"step": 2, "reward": 0.5, "pods/training_seconds": 2.0})
        index.refresh()
        metrics = index.runs[0].metrics
    assert metrics["reward"] == [0.25, None, 0.5]
    assert metrics["eval_reward"] == [None, 0.75, None]


def test_metrics_that_a_page_reads_do_not_change_under_it(tmp_path):
    run = write_run(tmp_path / "run")
    with index_of(run.path) as index:
        for step in (1, 2):
            read = index.runs[0].metrics
            before = copy.deepcopy(read)
            run.append_metrics({"step": step, "entropy": float(step)})
            index.refresh()
            assert read == before
        assert index.runs[0].metrics["entropy"] == [1.0, 2.0]


def test_a_run_that_begins_later_in_the_same_folder_is_found(tmp_path):
    write_run(tmp_path / "runs" / "a")
    with index_of(tmp_path / "runs") as index:
        write_run(tmp_path / "runs" / "b", steps=(1, 2))
        index.refresh()
        assert [run["name"] for run in state_of(index)["runs"]] == ["a", "b"]
        assert index.run_named("b").source.path == tmp_path / "runs" / "b"


def test_progress_is_told_from_the_runs_own_files(tmp_path):
    run = write_run(tmp_path / "run", config={"max_steps": 10})
    run.append_metrics({"step": 4, "reward": 0.5, "pods/training_seconds": 8.0})
    with index_of(run.path) as index:
        [state] = state_of(index)["runs"]
        assert state["state"] == "training"
        assert (state["step"], state["total_steps"]) == (4, 10)
        assert state["seconds_left"] == 12.0  # six steps of two seconds
        run.finish("pods", 0, 10, 20.0)
        assert state_of(index)["runs"][0]["state"] == "finished"


#: Locks a run's folder as a trainer does, says so, and waits to be killed.
TRAINS = """
import sys, time
from podsrl.rollout_log.run_folder import RunFolder
RunFolder(sys.argv[1]).lock()
print("locked", flush=True)
time.sleep(600)
"""


def test_a_run_that_was_killed_is_not_called_training(tmp_path):
    run = write_run(tmp_path / "run")
    words = [sys.executable, "-c", TRAINS, str(run.path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout.readline() == "locked\n"
        a_minute_ago = time.time() - 60
        for name in ("config.yaml", "rollouts"):
            os.utime(run.path / name, (a_minute_ago, a_minute_ago))
        with index_of(run.path) as index:
            assert state_of(index)["runs"][0]["state"] == "training"
            trainer.kill()
            trainer.wait()
            assert state_of(index)["runs"][0]["state"] == "stopped"
    run.lock()  # and another run can begin there
    run.unlock()


def test_asking_whether_a_run_is_alive_does_not_keep_another_one_from_starting(tmp_path):
    run = write_run(tmp_path / "run")
    (run.path / ".podsrl.lock").touch()
    asked = os.open(run.path / ".podsrl.lock", os.O_RDONLY)
    fcntl.flock(asked, fcntl.LOCK_SH)  # as the inspector has it, on a machine that does much else
    letting_go = threading.Timer(0.5, os.close, [asked])
    letting_go.start()
    try:
        run.lock()
        assert run.is_being_written
    finally:
        letting_go.join()
        run.unlock()


def test_a_run_that_its_time_ends_has_no_last_step_to_tell(tmp_path):
    config = {"max_steps": 10_000_000, "max_training_seconds": 20.0}
    run = write_run(tmp_path / "run", config=config)
    run.append_metrics({"step": 4, "pods/training_seconds": 8.0})
    with index_of(run.path) as index:
        [state] = state_of(index)["runs"]
        assert (state["step"], state["total_steps"]) == (4, None)
        assert state["seconds_left"] == 12.0


def test_the_prompt_to_begin_with_has_contrast_among_what_was_kept(tmp_path):
    run = write_run(tmp_path / "run", steps=(1,))
    columns = rollouts(groups=2, n=4, m=2)
    columns["reward"][:4] = [0.0] * 4
    run.write_rollouts(2, columns)
    run.write_rollouts(3, columns | {"reward": [0.0] * 8})
    with index_of(run.path) as index:
        group = featured(index)
        assert (group["step"], group["group"]) == (2, 1)


def test_rollouts_that_come_to_a_step_after_a_check_are_checked_too(tmp_path):
    """A step has several files, or one that grows, and a look may come in between."""
    (tmp_path / "mine.py").write_text(
        "def place(rollout):\n"
        "    if rollout['rollout'] == 3:\n        raise ValueError('three')\n"
        "    return rollout['group']\n"
    )
    run = write_run(tmp_path / "run", steps=(1, 2), groups=1)
    with index_of(run.path, check=f"{tmp_path}/mine.py:place") as index:
        assert (index.check.done, index.check.failed) == (8, 2)
        index.refresh()
        assert (index.check.done, index.check.failed) == (8, 2)  # and none of them again

        later = rollouts(groups=1) | {"group": [1] * 4}
        run.write_rollouts(2, later, Part(generation=1))
        index.refresh()
        assert (index.check.done, index.check.failed) == (12, 3)
        of_later = group_of(index, index.runs[0], 2, 1)["rollouts"]
        assert sorted(one["check"] for one in of_later if one["check"] is not None) == [1, 1, 1]

        run.write_rollouts(1, rollouts(groups=1, n=2))  # as a run does that went back
        index.refresh()
        assert (index.check.done, index.check.failed) == (10, 2)


def test_names_of_folders_that_look_like_patterns_are_just_names(tmp_path):
    run = write_run(tmp_path / "a[1] *?" / "it's", steps=(1,))
    write_run(tmp_path / "a1 xx" / "it's", steps=(1,))
    with index_of(run.path) as index:
        assert state_of(index)["runs"][0]["rollouts"] == 8
        assert group_of(index, index.runs[0], 1, 0)["rollouts"][0]["completion"] == "0.0"


@pytest.mark.parametrize("name", ["reward=format", "step=3", "prompt=cot"])
def test_names_of_folders_that_hydra_gives_are_no_columns(tmp_path, name):
    run = write_run(tmp_path / name, steps=(1,))
    write_run(tmp_path / "plain", steps=(1,))
    with index_of(run.path, tmp_path / "plain") as index:
        assert [one["damaged"] for one in state_of(index)["runs"]] == [[], []]
        hydra, plain = (group_of(index, one, 1, 0) for one in index.runs)
        assert hydra["prompt"] == plain["prompt"]
        assert hydra["rollouts"] == plain["rollouts"]

        (tmp_path / "files").mkdir()
        table = pq.read_table(write_results(index, Query(), "parquet", tmp_path / "files"))
        assert set(table["reward"].to_pylist()) == {one["reward"] for one in plain["rollouts"]}


def test_runs_with_other_reward_functions_are_shown_together(tmp_path):
    write_run(tmp_path / "runs" / "a")
    columns = rollouts()
    columns['rewards/it\'s "odd"'] = columns.pop("rewards/correctness")
    write_run(tmp_path / "runs" / "b", steps=()).write_rollouts(1, columns)
    with index_of(tmp_path / "runs") as index:
        assert len(found(index, function="correctness", part_min=1)["rows"]) == 2
        rows = found(index, function='it\'s "odd"', part_max=0)["rows"]
        assert [row["run"] for row in rows] == ["b", "b"]
        with pytest.raises(InvalidInputError, match="no reward function 'x'"):
            found(index, function="x")


def test_filters_are_of_one_mind_with_the_rollouts(tmp_path):
    run = write_run(
        tmp_path / "run", steps=(1, 2), config={"max_completion_length": 13}, groups=1, n=4, m=2
    )
    with index_of(run.path) as index:
        every = [(step, 0, rollout) for step in (2, 1) for rollout in range(4)]
        assert places(found(index)) == every
        assert places(found(index, kept=0)) == [p for p in every if p[2] in (1, 2)]
        assert places(found(index, reward_min=0.5)) == [p for p in every if p[2] < 2]
        assert places(found(index, tokens_max=10)) == [p for p in every if p[2] == 0]
        assert places(found(index, cut_off=1)) == [p for p in every if p[2] == 3]
        assert places(found(index, cut_off=0, step_max=1)) == every[4:7]
        assert places(found(index, text="0.2", step_min=2)) == [(2, 0, 2)]
        assert places(found(index, text="0.2", kept=1)) == []
        assert places(found(index, text="%")) == []  # no pattern, just a character


def test_pages_follow_each_other_without_gaps(tmp_path):
    run = write_run(tmp_path / "run", steps=range(1, 8), groups=3, n=8, m=2)
    with index_of(run.path) as index:
        seen = pages(index, Query())
        assert len(seen) == len(set(seen)) == 7 * 3 * 8

        # The number of all is told with the first page alone.
        first = search(index, Query())
        assert first["total"] == 7 * 3 * 8
        assert search(index, Query(), first["before"])["total"] is None


def test_a_search_of_texts_says_how_far_it_came_and_goes_on_from_there(tmp_path):
    run = write_run(tmp_path / "run", steps=range(1, 5), groups=4, n=16, m=2, text="word")
    with index_of(run.path) as index:
        first = search(index, Query(text="WORD"))
        assert len(first["rows"]) == PAGE
        assert first["read"] == {"from": 4, "to": 4, "left": 4}  # 14 of the 64 are still to come
        second = search(index, Query(text="WORD"), first["before"])
        assert len(second["rows"]) == PAGE
        assert second["read"] == {"from": 3, "to": 4, "left": 3}


def test_a_search_of_texts_reaches_every_rollout_of_a_step_with_many(tmp_path):
    """Two runs, of which one has more rollouts in a step than the other in all of its steps."""
    write_run(tmp_path / "all" / "few", steps=(1, 2, 3), groups=1, text="word", n=PAGE)
    write_run(tmp_path / "all" / "many", steps=(2,), groups=10, n=60, text="word {rollout}")
    with index_of(tmp_path / "all") as index:
        all_rows = pages(index, Query(text="word"))
        rows_of_one = pages(index, Query(text="WORD 59", run="many"))

    of_few = [[("few", step, 0, rollout) for rollout in range(PAGE)] for step in (3, 2, 1)]
    of_many = [("many", 2, group, rollout) for group in range(10) for rollout in range(60)]
    assert all_rows == [*of_few[0], *of_few[1], *of_many, *of_few[2]]
    assert rows_of_one == [("many", 2, group, 59) for group in range(10)]


def test_a_search_of_texts_that_time_ended_goes_on_with_the_next_step(tmp_path, monkeypatch):
    monkeypatch.setattr("podsrl.inspector.search._SECONDS", 0.0)
    run = write_run(tmp_path / "run", steps=(1, 2), groups=1, n=4)
    run.write_rollouts(3, rollouts(groups=1, n=4, text="nothing"))
    with index_of(run.path) as index:
        first = search(index, Query(text="0.1"))
        assert (first["rows"], first["read"]) == ([], {"from": 3, "to": 3, "left": 2})
        second = search(index, Query(text="0.1"), first["before"])
        assert (places(second), second["read"]["left"]) == ([(2, 0, 1)], 1)
        last = search(index, Query(text="0.1"), second["before"])
        assert (places(last), last["before"]) == ([(1, 0, 1)], "")


@pytest.mark.parametrize("before", ["1", "1,2,3", "1,2,3,4,5", "a,b"])
def test_a_place_that_is_none_is_refused(tmp_path, before):
    with index_of(write_run(tmp_path / "run").path) as index:
        for query in (Query(), Query(text="word")):
            with pytest.raises(InvalidInputError, match="is no place in these results"):
                search(index, query, before)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_was_found_can_be_had_as_a_file(tmp_path, kind):
    import pandas as pd

    run = write_run(tmp_path / "run", steps=(1, 2), text='=HYPERLINK("x") {rollout}')
    (tmp_path / "files").mkdir()
    with index_of(run.path) as index:
        query = Query(text="hyperlink", kept=False)
        path = write_results(index, query, kind, tmp_path / "files")
        table = (pd.read_csv if kind == "csv" else pd.read_parquet)(path)
    assert table["step"].tolist() == [2] * 4 + [1] * 4
    assert not table["kept"].any()
    # a program for tables would run the formula
    start = "'=" if kind == "csv" else "="
    assert table["completion"].str.startswith(start + "HYPERLINK").all()


@pytest.mark.parametrize("words", [{"text": "no 3"}, {"tokens_min": 13}])
def test_the_bound_of_a_file_counts_what_was_found(tmp_path, monkeypatch, words):
    """Rollout 3 of each of 4 prompts has 13 tokens and says so: 4 in a step, 6 in the file."""
    monkeypatch.setattr("podsrl.inspector.search.DOWNLOAD", 6)
    run = write_run(tmp_path / "run", steps=(1, 2), groups=4, n=4, text="no {rollout}")
    run.write_rollouts(3, rollouts(groups=4, n=3, text="no {rollout}"))
    with index_of(run.path) as index:
        table = pq.read_table(write_results(index, Query(**words), "parquet", tmp_path))

    assert table.column_names[0] == "run"
    assert table["step"].to_pylist() == [2] * 4 + [1] * 2
    assert table["group"].to_pylist() == [0, 1, 2, 3, 0, 1]
    assert table["rollout"].to_pylist() == [3] * 6


def test_a_file_may_have_more_texts_of_a_step_than_the_index_has_memory(tmp_path):
    """8,000 texts of 15,000 characters are 120 MB, and the index has 100 MB."""
    run = write_run(tmp_path / "run", groups=80, n=100, text="word " * 3_000)
    with index_of(run.path) as index:
        path = write_results(index, Query(text="word"), "parquet", tmp_path)

    table = pq.read_table(path, columns=["group", "rollout"]).to_pydict()
    found = list(zip(table["group"], table["rollout"], strict=True))
    assert found == [(group, rollout) for group in range(80) for rollout in range(100)]


def test_a_search_that_finds_nothing_makes_no_file(tmp_path):
    with index_of(write_run(tmp_path / "run").path) as index:
        for query in (Query(text="nothing like it"), Query(tokens_min=1_000)):
            with pytest.raises(InvalidInputError, match="nothing was found"):
                write_results(index, query, "parquet", tmp_path)


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    run = write_run(tmp_path / "run")
    with index_of(run.path):
        assert list((tmp_path / "temporary").iterdir())
    assert not list((tmp_path / "temporary").iterdir())
    shutil.rmtree(run.path)
    with pytest.raises(InvalidInputError, match="there is no"):
        Index(lambda: find_sources([run.path], Options()))
    assert not list((tmp_path / "temporary").iterdir())


def test_a_note_after_a_half_written_line_is_read(tmp_path):
    """As where a disk was full for a while."""
    notes = tmp_path / "podsrl-notes.jsonl"
    add_note(notes, (1, 0, 0), Mark("good"))
    with notes.open("ab") as file:
        file.write(b'{"step": 1, "group": 0, "rol')
    add_note(notes, (1, 0, 2), Mark("bad", "important"))
    add_note(notes, (1, 0, 3), Mark("hack"))
    expected = {(1, 0, 0): Mark("good"), (1, 0, 2): Mark("bad", "important")}
    assert read_notes(notes) == {**expected, (1, 0, 3): Mark("hack")}
    assert b"\n\n" not in notes.read_bytes()


def test_two_notes_of_one_tick_of_the_file_systems_clock_are_both_seen(tmp_path):
    run = write_run(tmp_path / "run")
    notes = run.path / "podsrl-notes.jsonl"
    with index_of(run.path) as index:
        for rollout in (0, 1):
            add_note(notes, (1, 0, rollout), Mark("good"))
            age(notes)
            index.refresh()
        labels = [row["label"] for row in group_of(index, index.runs[0], 1, 0)["rollouts"]]
    assert labels.count("good") == 2


def test_a_note_that_was_written_in_part_is_not_reported_as_saved(tmp_path):
    """A bound of the size of files cuts a line as a full disk does."""
    notes = tmp_path / "podsrl-notes.jsonl"
    add_note(notes, (1, 0, 0), Mark("good"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (notes.stat().st_size + 20, hard))
    try:
        with pytest.raises(InvalidInputError, match="can't be written"):
            add_note(notes, (1, 0, 2), Mark("bad", "important"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    add_note(notes, (1, 0, 3), Mark("hack"))
    assert read_notes(notes) == {(1, 0, 0): Mark("good"), (1, 0, 3): Mark("hack")}
