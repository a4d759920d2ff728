"""The arithmetic of benchmarks/speed on made-up timings: turns, ratios, phases, limits, tables."""

from itertools import count

import numpy as np
import pytest

pytest.importorskip("trl")

from benchmarks.speed import peaks, selection, step
from benchmarks.speed.numbers import Limit, Spread, in_turns, ratio, section, time_in_turns
from benchmarks.speed.probe import Probe


@pytest.mark.parametrize(("groups", "n", "m"), [(1, 2, 2), (3, 5, 1), (7, 16, 4), (5, 9, 9)])
def test_the_plain_version_keeps_sets_of_the_same_variance_as_downsample(groups, n, m):
    draw = np.random.default_rng(n)
    selection.check_agreement(draw.normal(size=(groups, n)), m)
    selection.check_agreement(draw.integers(0, 2, size=(groups, n)).astype(float), m)


def test_a_rival_that_keeps_a_worse_set_is_found_out(monkeypatch):
    monkeypatch.setattr(selection, "scan", lambda rewards, m: [list(range(m)) for _ in rewards])
    with pytest.raises(AssertionError):
        selection.check_agreement(np.random.default_rng(0).normal(size=(3, 8)), 2)


def test_everyone_is_measured_once_a_round_and_first_equally_often():
    turns = in_turns(["a", "b", "c"], rounds=6)
    rounds = [turns[start : start + 3] for start in range(0, 18, 3)]
    for of_round in rounds:
        assert sorted(of_round) == ["a", "b", "c"]
    firsts = [of_round[0] for of_round in rounds]
    assert sorted(firsts) == ["a", "a", "b", "b", "c", "c"]


def test_seconds_are_those_between_two_looks_at_the_clock_in_turns():
    called: list[str] = []
    looks = count()  # the clock jumps by 1 at each look, so every call lasts 1
    functions = {name: lambda name=name: called.append(name) for name in ("a", "b")}
    seconds = time_in_turns(functions, rounds=3, clock=lambda: float(next(looks)))

    rounds = [called[start : start + 2] for start in range(0, 8, 2)]
    assert rounds == [["a", "b"], ["a", "b"], ["b", "a"], ["a", "b"]]  # the first one warms up
    assert len(called) == 8
    assert seconds == {"a": [1.0, 1.0, 1.0], "b": [1.0, 1.0, 1.0]}


def test_a_ratio_is_taken_round_by_round_so_that_a_slow_round_cancels_out():
    under = [1.0, 1.0, 10.0, 1.0, 1.0]  # the third round was slow for both
    over = [3.0, 3.0, 30.0, 4.0, 2.0]
    assert ratio(over, under) == Spread(median=3.0, low=3.0, high=3.0)


def test_the_probe_counts_every_moment_once_and_gives_it_to_the_inner_phase():
    now = [0.0]
    probe = Probe(clock=lambda: now[0])
    probe.reset()
    now[0] = 1.0  # other
    with probe.phase("select"):
        now[0] = 3.0  # select: 2
        with probe.phase("generate"):
            now[0] = 10.0  # generate: 7
        now[0] = 11.0  # select: 1 more
    now[0] = 11.5
    probe.settle()
    assert dict(probe.seconds) == {"other": 1.5, "select": 3.0, "generate": 7.0}


def turns(peak, update, log_probs, select=0.0, other=0.0):
    """Three turns that took the same seconds."""
    turn = {
        "generate": 1.0,
        "score": 0.0,
        "select": select,
        "log-probs": log_probs,
        "update": update,
        "other": other,
        "peak": peak,
    }
    return [turn] * 3


def test_a_step_is_judged_by_update_memory_and_bookkeeping():
    found = {  # update and log-probs together: 1.0, 4.0, 1.15
        "grpo": turns(100, update=0.9, log_probs=0.1),
        "grpo_ga": turns(120, update=3.6, log_probs=0.4),
        "pods": turns(109, update=1.05, log_probs=0.1, select=0.02, other=0.03),
        "across": turns(109, update=1.05, log_probs=0.1, select=0.01, other=0.01),
    }
    judged = {}
    for limit in step.limits(found):
        judged[limit.what] = (round(limit.found.median, 6), limit.kept)
    assert judged == {
        "update, pods / grpo_ga": (0.2875, True),
        "update, pods / grpo": (1.15, False),
        "peak memory, pods / grpo": (1.09, True),
        "select + other, pods: s": (0.05, False),
        "select + other, across: s": (0.02, True),
    }

    lines = step.phases("A step", found, step.QUICK).splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if "MB" in line]
    assert [row[0] for row in rows] == list(found)
    for row in rows:
        assert len(row) == 1 + len(step.PHASES) + 3


def test_a_table_shows_its_note_its_cells_and_its_limits():
    limit = Limit("b", Spread(2.0, 1.5, 2.5), 1.0)
    shown = section("T", "a note", ["", "a"], [["x", "1"], ["y", "22"]], [limit])
    for line in ("## T", "a note", "| y | 22 |", "| b | 2 (1.5 to 2.5) | 1 | **missed** |"):
        assert line in shown.splitlines()


def test_peaks_of_real_steps_are_those_of_their_phases(monkeypatch):
    found = peaks.measure(step.QUICK, steps=2)
    assert [setting.name for setting, _ in found] == ["grpo", "grpo_ga", "pods", "across"]
    for _, of_arm in found:
        assert len(of_arm) == 2
        for of_step in of_arm:
            assert of_step.updating > of_step.generating / 10 > 0
            assert 0 < of_step.tokens < 100

    text = peaks.page(found)
    tokens = [of_step.tokens for of_step in found[2][1]]
    assert f"| pods | 16 → 4 | 8 | {sum(tokens) / 2:.0f} ({min(tokens)} to {max(tokens)}) |" in text
