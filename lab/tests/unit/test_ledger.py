"""The ledger: every attempt is there, also one that was killed."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from podslab.engine.ledger import ENDED, FAILED, STOPPED, Ledger, code_digest, digest_of
from podsrl.errors import InvalidInputError


def test_an_attempt_that_was_killed_was_stopped_and_the_next_one_has_its_own_number(tmp_path):
    ledger = Ledger(tmp_path, "plan")
    assert ledger.begin("pods seed 0") == 1
    assert ledger.begin("grpo seed 0") == 1
    ledger.end("grpo seed 0", 1, FAILED, "out of memory")
    assert ledger.begin("pods seed 0") == 2
    ledger.end("pods seed 0", 2, ENDED)

    found = [(one.run, one.number, one.state, one.why) for one in ledger.attempts()]
    assert found == [
        ("pods seed 0", 1, STOPPED, ""),
        ("grpo seed 0", 1, FAILED, "out of memory"),
        ("pods seed 0", 2, ENDED, ""),
    ]
    (first, *_) = ledger.attempts()
    assert (first.plan, first.code) == ("plan", code_digest())
    assert first.machine


def test_two_writers_lose_no_line(tmp_path):
    with ThreadPoolExecutor(4) as threads:
        numbers = list(threads.map(lambda _: Ledger(tmp_path, "plan").begin("run"), range(24)))
    assert sorted(numbers) == list(range(1, 25))
    assert len(Ledger(tmp_path, "plan").attempts()) == 24


def test_a_digest_is_of_the_values_and_not_of_their_order():
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})


def test_a_damaged_ledger_is_named(tmp_path):
    (tmp_path / "ledger.jsonl").write_text("{")
    with pytest.raises(InvalidInputError, match=r"ledger\.jsonl is damaged"):
        Ledger(tmp_path, "plan").attempts()


def test_parts_of_several_machines_are_copied_together_without_a_loss(tmp_path):
    for part in ("1-of-2", "2-of-2"):
        ledger = Ledger(tmp_path, "a", part)
        ledger.end("pods seed 0", ledger.begin("pods seed 0"), FAILED, f"why of {part}")
    attempts = Ledger(tmp_path, "a").attempts()
    assert [attempt.why for attempt in attempts] == ["why of 1-of-2", "why of 2-of-2"]
