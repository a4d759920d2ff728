"""Training time by phase, on the wall and on the processor."""

import time
from typing import Any

import pytest

pytest.importorskip("trl")

from podsrl.trl.clock import PhaseClock


def ticking(*readings: float) -> Any:
    left = iter(readings)
    return lambda: next(left)


def test_a_step_is_split_into_its_phases(monkeypatch):
    # the step lasts from 10 to 20, of which generating takes 3 and scoring 2
    monkeypatch.setattr(time, "perf_counter", ticking(10.0, 11.0, 14.0, 14.5, 16.5, 20.0))
    clock = PhaseClock()
    clock.on_step_begin(None, None, None)
    with clock.phase("generate"):
        pass
    with clock.phase("score"):
        pass
    clock.on_step_end(None, None, None)
    assert clock.training_seconds == 10.0
    assert clock.last_step == {"generate": 3.0, "score": 2.0, "select": 0.0, "update": 5.0}


def test_a_phase_inside_another_is_counted_once(monkeypatch):
    # from 10 to 30: generating takes 10 to 20, and 3 of them are scoring
    monkeypatch.setattr(time, "perf_counter", ticking(10.0, 10.0, 12.0, 15.0, 20.0, 30.0))
    clock = PhaseClock()
    clock.on_step_begin(None, None, None)
    with clock.phase("generate"), clock.phase("score"):
        pass
    clock.on_step_end(None, None, None)
    assert clock.last_step == {"generate": 7.0, "score": 3.0, "select": 0.0, "update": 10.0}
