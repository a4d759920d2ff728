"""An inspector that watches a run holds the run's curve, and else no more than at first."""

import pytest

pytest.importorskip("duckdb")

from podsrl.inspector.answers import state_of
from podsrl.inspector.sources import trained_run
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.rollout_log.writer import RolloutLog
from support.growth import containers, grown, of_process
from support.inspected import answer, app_of, index_of
from support.synthetic_rollouts import rollouts

#: Steps that the log of the run holds at most.
HELD = 6


@pytest.fixture
def train(tmp_path):
    """train(step): what a run writes in that step, within the bound of its log."""
    run = RunFolder(tmp_path / "run")
    run.write_config({"arm": "pods", "seed": 0})
    of_a_step = len(rollouts()["group"])
    log = RolloutLog(run, max_rows=HELD * of_a_step)

    def write(step):
        log.write(step, rollouts, groups=2, rollouts=of_a_step)
        log.flush()
        run.append_metrics({"step": step, "reward": 0.5, "pods/training_seconds": float(step)})

    yield write
    log.close()


@pytest.mark.parametrize("clock_seconds", [trained_run._CLOCK_SECONDS, 0.0], ids=["soon", "late"])
def test_a_run_that_is_looked_at_again_and_again_is_held_once(
    train, tmp_path, monkeypatch, clock_seconds
):
    """Also where a machine is so busy that every folder is old by the time of the next look."""
    monkeypatch.setattr(trained_run, "_CLOCK_SECONDS", clock_seconds)
    counts = []
    with index_of(tmp_path) as index:
        for first, last in ((1, 25), (25, 73)):
            for step in range(first, last):
                train(step)
                index.refresh()
                state_of(index)
            [run] = index.runs
            [indexed] = index.rows("SELECT count(*) AS steps FROM steps")
            here = {
                "files beside the index": len(list(index._folder.iterdir())),
                "indexed steps": max(HELD, indexed["steps"]),
                "indexed files": max(HELD, len(run.files)),
            }
            counts.append(of_process() | containers(index, "index") | here)

    more = grown(*counts)
    of_curve = [name for name in more if ".metrics[" in name]
    assert {more[name] for name in of_curve} == {(24, 72)}  # a number for each step

    of_files = [name for name in more if name.endswith(("files", "_listings"))]
    assert {name: more[name] for name in of_files if more[name][1] > HELD} == {}
    of_one_file = [name for name in more if "step_" in name]  # those of other steps by now
    assert set(more) - {*of_curve, *of_files, *of_one_file} == set()


def test_an_app_that_is_asked_often_keeps_no_thread_and_no_file_for_it(train, tmp_path):
    train(1)
    counts = []
    with app_of(tmp_path) as server:
        for requests in (10, 30):
            for _ in range(requests):
                assert answer(server, "/api/state")[0] == 200
            counts.append(of_process())
    # The server may begin another of its few workers, and close a socket a moment after its answer.
    # One for each of the 20 other requests would be more.
    more = grown(*counts)
    assert {name: counted for name, counted in more.items() if counted[1] - counted[0] > 5} == {}
