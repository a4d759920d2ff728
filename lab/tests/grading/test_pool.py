"""Grading processes: what hangs or crashes is None, is counted, and harms no other."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from podsgrading.pool import GRACE, GradingPool, GradingProcessError, usable_cores
from podsgrading.unscorable import COUNTS, UnscorableError, UnscorableWatch
from podsrl.errors import InvalidInputError, PodsError

GRADERS = str(Path(__file__).with_name("graders_for_tests.py"))
#: Seconds for an answer that is to come, however busy the machine.
LONG = 120.0


@pytest.fixture
def pool():
    made = GradingPool(deadline=LONG, workers=2)
    yield made
    made.close()


@pytest.fixture
def hasty():
    """A pool that gives up an answer after a fifth of a second, or six fifths by the clock."""
    made = GradingPool(deadline=0.2, workers=2)
    yield made
    made.close()


def run(pool, function, *items):
    return pool.run(f"{GRADERS}:{function}", list(items))


def gone(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().split()[2]
    except (FileNotFoundError, ProcessLookupError):  # before it was opened, or before it was read
        return True
    return state == "Z"


def wait_until_gone(pid):
    end = time.monotonic() + 120  # a bound on hanging, not a measurement
    while not gone(pid):
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.02)


def test_answers_come_back_in_order(pool):
    items = [(i % 97,) for i in range(512)]
    assert run(pool, "double", *items) == [2 * i for (i,) in items]
    assert run(pool, "sleep", (0.3,), (0.1,), (0.2,)) == [0.3, 0.1, 0.2]


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("count_for_ever", "timeouts"),  # in one C call, which never looks at Python signals
        ("kill_itself", "crashes"),
        ("segfault", "crashes"),
        ("leave", "timeouts"),  # without an error: pebble waits for the rest of its time
        ("fill_memory", "errors"),
        ("complain", "errors"),
        ("exit_politely", "errors"),
        ("give_back_what_cannot_be_sent", "crashes"),
    ],
)
def test_what_cannot_be_graded_is_none_is_counted_and_harms_no_other(hasty, function, kind):
    kinds = {kind, "timeouts"}  # on a busy machine a crash may be noticed as the end of its time
    before = sum(COUNTS[one] for one in kinds)
    # two in a row, so that each of the two workers has failed
    assert run(hasty, function, (1,), (2,)) == [None, None]
    assert sum(COUNTS[one] for one in kinds) == before + 2
    hasty._deadline = LONG  # it goes with each request
    assert run(hasty, "double", (1,), (2,), (3,)) == [2, 4, 6]


def test_a_slow_answer_is_none_and_quick_ones_are_there(hasty):
    assert run(hasty, "sleep", (60,)) == [None]
    hasty._deadline = LONG
    assert run(hasty, "sleep", (0.01,), (0.02,)) == [0.01, 0.02]


def test_a_deadline_is_of_the_time_that_an_answer_has_a_processor(monkeypatch, tmp_path):
    """Half a second by the clock is no more than the deadline to who does nothing in it."""
    patient = tmp_path / "patient.py"  # so only time on a processor can end an answer
    patient.write_text(f"from podsgrading import pool; pool._LONGEST = {LONG / 0.2}\n")
    pool = GradingPool(deadline=0.2, preload=(str(patient),), workers=2)
    before = COUNTS.copy()
    assert run(pool, "sleep", (0.5,), (0.01,)) == [0.5, 0.01]
    assert run(pool, "compute", (0.5,)) == [None]
    assert run(pool, "compute", (0.01,)) == [0.01]
    assert COUNTS - before == {"graded": 4, "timeouts": 1}
    pool.close()


#: Pebble reads nothing that its workers say until it has seen that one of them has ended.
LATE = """
import threading
from pebble.pool.process import PoolManager

has_seen = threading.Event()
expire, read = PoolManager.handle_worker_expiration, PoolManager.process_next_message

def expire_and_say(manager, expiration):
    try:
        expire(manager, expiration)
    finally:
        has_seen.set()

def read_late(manager, timeout):
    has_seen.wait()
    read(manager, timeout)

PoolManager.handle_worker_expiration, PoolManager.process_next_message = expire_and_say, read_late
"""


def test_who_breaks_all_processes_harms_no_other(tmp_path):
    (tmp_path / "late.py").write_text(LATE)
    pool = GradingPool(deadline=LONG, preload=(str(tmp_path / "late.py"),), workers=2)
    before = COUNTS.copy()
    assert run(pool, "kill_itself_or_double", (1,), (-1,), (2,), (3,)) == [2, None, 4, 6]
    assert COUNTS - before == {"graded": 4, "crashes": 1}
    assert run(pool, "double", (4,)) == [8]
    pool.close()


def test_a_helper_killed_between_runs_is_replaced_and_no_answer_is_lost(pool):
    for k in range(2):
        assert run(pool, "double", (k,), (k + 0.5,)) == [2 * k, 2 * k + 1]
        os.killpg(pool.pid, signal.SIGKILL)
    assert run(pool, "double", (5,)) == [10]


def test_a_grading_that_takes_all_processes_with_it_is_none_and_the_next_is_graded(pool):
    assert run(pool, "kill_the_group", (1,)) == [None]
    assert run(pool, "double", (4,)) == [8]


def test_a_stopped_helper_is_killed_and_replaced(pool):
    assert run(pool, "double", (1,)) == [2]
    stopped = pool.pid
    os.kill(stopped, signal.SIGSTOP)

    # The time for which it is waited for is over at once; that for the one in its place is not.
    waits = []

    def nothing_comes(seconds):
        waits.append(seconds)
        return False

    pool._connection.poll = nothing_comes
    assert run(pool, "double", (5,)) == [10]
    assert waits == [6 * LONG + GRACE]
    assert gone(stopped)


@pytest.fixture
def ctrl_c_interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
    yield
    signal.signal(signal.SIGINT, before)


def test_after_ctrl_c_no_late_answer_is_taken_for_another(pool, ctrl_c_interrupts):
    assert run(pool, "double", (1,), (2,)) == [2, 4]
    before = pool.pid
    with pytest.raises(KeyboardInterrupt):
        run(pool, "interrupt", (os.getpid(), True), (os.getpid(), False))
    assert gone(before)
    assert run(pool, "double", (3,), (4,)) == [6, 8]


def test_it_works_in_threads_and_in_async_code(pool):
    others = threading.active_count()  # of earlier tests in this process

    async def both():
        direct = run(pool, "double", (1,))
        in_threads = await asyncio.gather(
            *(asyncio.to_thread(run, pool, "double", (k,), (-k,)) for k in range(1, 8))
        )
        return direct, in_threads

    assert asyncio.run(both()) == ([2], [[2 * k, -2 * k] for k in range(1, 8)])
    assert threading.active_count() <= others  # none of the pool's, so that this process may fork


def _in_child(pool, connection):
    connection.send((pool.pid, run(pool, "double", (21,))))
    pool.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # what is tested
def test_it_works_after_a_fork_in_child_and_parent(pool):
    assert run(pool, "double", (1,)) == [2]
    helper = pool.pid
    ours, theirs = multiprocessing.Pipe()
    # A daemonic process, as TRL's asynchronous worker, may have no multiprocessing children.
    child = multiprocessing.get_context("fork").Process(
        target=_in_child, args=(pool, theirs), daemon=True
    )
    child.start()
    assert ours.recv() == (None, [42])
    child.join()
    assert pool.pid == helper
    assert run(pool, "double", (2,)) == [4]


def test_the_main_script_is_not_run_again_and_no_process_is_left_behind(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        "from podsgrading.pool import GradingPool\n"
        "open('started', 'a').write('once ')\n"
        "pool = GradingPool(workers=2)\n"
        f"print(*pool.run({GRADERS + ':process_id'!r}, [(1,), (2,)]), pool.pid)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (tmp_path / "started").read_text() == "once "
    assert done.stderr == ""
    for pid in done.stdout.split():
        wait_until_gone(int(pid))


def test_no_process_outlives_a_parent_that_was_killed():
    script = (
        "from podsgrading.pool import GradingPool\n"
        "pool = GradingPool(deadline=3600.0, workers=1)\n"
        f"print(*pool.run({GRADERS + ':process_id'!r}, [(1,)]), pool.pid, flush=True)\n"
        f"pool.run({GRADERS + ':count_for_ever'!r}, [(9,)])\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = parent.stdout.readline().split()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for pid in pids:
        wait_until_gone(int(pid))


def test_workers_import_no_torch(pool):
    (modules,) = run(pool, "modules", ())
    assert "podsrl" in modules
    assert not {"torch", "transformers", "trl"} & set(modules)


def test_what_is_imported_before_the_first_answer_is_there_in_a_worker_that_was_replaced():
    pool = GradingPool(deadline=LONG, preload=("podsgrading.math.warm",), workers=1)
    assert run(pool, "kill_itself", (1,)) == [None]
    (modules,) = run(pool, "modules", ())
    pool.close()
    assert {"podsgrading.math.warm", "sympy"} <= set(modules)


def test_what_a_grader_prints_disturbs_nothing(pool, capfd):
    assert run(pool, "chatter", ()) == ["done"]
    assert capfd.readouterr() == ("", "")


def test_no_share_of_failures_stops_a_pool_and_each_is_counted(pool):
    before = COUNTS.copy()
    assert run(pool, "complain", *((i,) for i in range(100))) == [None] * 100
    assert COUNTS - before == {"graded": 100, "errors": 100}


def test_a_watch_looks_at_the_last_gradings_only(monkeypatch):
    monkeypatch.setitem(COUNTS, "timeouts", 7)
    watch = UnscorableWatch(0.2)
    watch.record([True] * 63)  # too few to judge
    watch.record([False] * 961)
    watch.record([True] * 204)  # 63 have left the window, 204 of 1,024 are not over the limit
    with pytest.raises(UnscorableError, match=r"205 of the last 1024.* 7 timeouts") as error:
        watch.record([True])
    assert isinstance(error.value, PodsError)
    UnscorableWatch(1.0).record([True] * 1000)


def test_a_grader_that_cannot_be_imported_is_said_once_and_clearly():
    pool = GradingPool(preload=("no_such_module_of_graders",))
    with pytest.raises(GradingProcessError, match="no_such_module_of_graders"):
        pool.run(f"{GRADERS}:double", [(1,)])


@pytest.mark.parametrize("settings", [{"workers": 0}, {"deadline": 0}])
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(InvalidInputError):
        GradingPool(**settings)
    with pytest.raises(InvalidInputError, match="max_unscorable"):
        UnscorableWatch(2)


def test_the_ranks_of_a_machine_share_its_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(96)), raising=False)
    assert usable_cores() == 96
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert usable_cores() == 12
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "128")
    assert usable_cores() == 1
