"""The benchmark's arithmetic on made-up timings: turns, ratios, exponents, bars, tables, page."""

from itertools import count
from typing import Any

import pytest

pytest.importorskip("trl")

import numpy as np
import torch

import podsrl
from benchmarks.speed import generation, growth, naive, parts, selection, step
from benchmarks.speed.probe import Probe
from benchmarks.speed.tables import Bar, Table
from benchmarks.speed.timings import Spread, in_turns, ratio, time_in_turns
from benchmarks.speed.timings import growth as fit


@pytest.mark.parametrize(("groups", "n", "m"), [(1, 2, 2), (3, 5, 1), (7, 16, 4), (5, 9, 9)])
def test_the_plain_versions_keep_sets_of_the_same_variance_as_downsample(groups, n, m):
    draw = np.random.default_rng(n)
    selection.check_agreement(draw.normal(size=(groups, n)), m)
    selection.check_agreement(draw.integers(0, 2, size=(groups, n)).astype(float), m)


def test_a_rival_that_keeps_a_worse_set_is_found_out(monkeypatch):
    monkeypatch.setattr(naive, "scan", lambda rewards, m: [list(range(m)) for _ in rewards])
    with pytest.raises(AssertionError):
        selection.check_agreement(np.random.default_rng(0).normal(size=(3, 8)), 2)


def test_everyone_is_measured_once_a_round_and_first_equally_often():
    turns = in_turns(["a", "b", "c"], rounds=6)
    rounds = [turns[i : i + 3] for i in range(0, 18, 3)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert sorted(one[0] for one in rounds) == ["a", "a", "b", "b", "c", "c"]


def test_seconds_are_those_between_two_looks_at_the_clock_in_turns():
    called: list[str] = []
    looks = count()  # the clock jumps by 1 at each look, so every call lasts 1
    functions = {name: lambda name=name: called.append(name) for name in ("a", "b")}
    seconds = time_in_turns(functions, rounds=3, clock=lambda: float(next(looks)))
    assert called == ["a", "b", *("a", "b"), *("b", "a"), *("a", "b")]  # one warms up
    assert seconds == {"a": [1.0, 1.0, 1.0], "b": [1.0, 1.0, 1.0]}


def test_a_ratio_is_taken_round_by_round_so_that_a_slow_round_cancels_out():
    under = [1.0, 1.0, 10.0, 1.0, 1.0]  # the third round was slow for both
    over = [3.0, 3.0, 30.0, 4.0, 2.0]
    assert ratio(over, under) == Spread(median=3.0, low=3.0, high=3.0)


def test_the_exponent_of_a_power_law_is_found():
    assert fit([64, 128, 256], [2.0, 8.0, 32.0]).exponent == pytest.approx(2.0)
    assert fit([1, 4, 16], [5.0, 5.0, 5.0]).exponent == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("value", "at_most", "verdict"),
    [
        (0.30, True, "met"),
        (0.301, True, "missed"),
        (None, True, "not measured"),
        (0.30, False, "met"),
        (0.299, False, "missed"),
    ],
)
def test_a_bar_is_judged_by_its_value_and_direction(value, at_most, verdict):
    assert Bar("x", value, 0.30, at_most).verdict == verdict


def test_a_bar_shows_its_quartiles_and_its_limit():
    bar = Bar.of("share", Spread(0.015, 0.01, 0.02), 0.02, percent=True)
    assert bar.cells() == ["share", "1.5 % (1 % .. 2 %)", "<= 2 %", "met"]


def test_a_table_is_whole_as_text_and_as_markdown():
    table = Table("T", ["", "a"], [["x", "1"], ["y", "22"]], "note", [Bar("b", 2.0, 1.0)])
    text, markdown = table.as_text(), table.as_markdown()
    assert [line.split() for line in text.splitlines()[4:8]] == [
        ["a"], ["-", "--"], ["x", "1"], ["y", "22"],
    ]  # fmt: skip
    for shown in ("note", "missed", "<= 1"):
        assert shown in text
        assert shown in markdown
    assert "| y | 22 |" in markdown


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


def phases(**seconds: float) -> dict[str, float]:
    named = {name.replace("_", "-"): s for name, s in seconds.items()}
    return {"generate": 1.0, "score": 0.0, "other": 0.0, "select": 0.0, "update": 0.0, **named}


def arm(update: float, peak: int, **more: float) -> dict[str, Any]:
    return {
        "seconds": [phases(update=update, **more)] * 3,
        "memory": [{"generate": peak // 2, "update": peak}] * 2,
    }


STEP = {
    "n": 64,
    "m": 16,
    "prompts": 8,
    "variants": {
        "base": {
            # update and log-probs together: 1.0, 4.0, 1.15
            "grpo": arm(0.9, 100, log_probs=0.1),
            "grpo_ga": arm(3.6, 120, log_probs=0.4),
            "pods": arm(1.05, 109, log_probs=0.1, select=0.02, other=0.03),
        }
    },
}


def verdicts(table: Table) -> dict[str, tuple[float, str]]:
    return {bar.what: (round(bar.value or 0.0, 6), bar.verdict) for bar in table.bars}


def test_a_step_is_judged_by_update_memory_and_bookkeeping():
    (table,) = step.tabulate(STEP)
    assert verdicts(table) == {
        "update, pods / grpo_ga": (0.2875, "met"),
        "update, pods / grpo": (1.15, "missed"),
        "peak memory, pods / grpo": (1.09, "met"),
        "pods: bookkeeping's share of a step": (round(0.05 / 2.2, 6), "missed"),
    }
    assert [row[0] for row in table.rows] == ["grpo", "grpo_ga", "pods"]
    assert {len(row) for row in table.rows} == {len(table.head)}


def growing(exponents: dict[str, float], sizes: list[int]) -> dict[str, Any]:
    """A family whose phases follow power laws."""
    return {
        str(x): {"seconds": [{p: x**b for p, b in exponents.items()}] * 2, "memory": []}
        for x in sizes
    }


def growth_measured() -> dict[str, Any]:
    laws = {"generate": 0.9, "score": 1.0, "select": 1.2, "update": 0.05, "other": 0.1}
    prompts = {
        name: {"seconds": [phases(update=s)] * 2, "memory": []}
        for name, s in (("1 prompt", 0.5), ("4 prompts", 4.0), ("2 processes", 6.0))
    }
    families = {"n": growing(laws, [16, 64]), "m": growing(laws, [2, 8]), "prompts": prompts}
    return {"n": 64, "m": 16, "families": families}


def test_growth_is_judged_by_fitted_exponents():
    by_n, by_m, by_prompts = growth.tabulate(growth_measured())
    assert verdicts(by_n) == {
        "generate: exponent of n": (0.9, "met"),
        "select: exponent of n": (1.2, "missed"),
        "update: exponent of n": (0.05, "met"),
    }
    assert by_n.rows[-1][0] == "exponent of n"
    assert len(by_m.rows) == 3
    # (1 + 4) / (1 + 0.5) and (1 + 6) / (1 + 4)
    assert verdicts(by_prompts) == {
        "step, 4 prompts / 1 prompt": (round(5 / 1.5, 6), "met"),
        "step, 2 processes / one, 4 prompts": (1.4, "missed"),
    }


def selection_measured() -> dict[str, Any]:
    seconds = {"numpy": [0.01], "torch": [0.02], "scan": [0.1]}
    seconds |= {"per group": [1.0], "per group, torch": [1.9]}
    cells = [{"groups": p, "n": 64, "seconds": seconds} for p in (1, 4096)]
    n_log_n = {str(n): [n * np.log(n)] for n in (64, 256, 1024)}
    quadratic = {str(n): [float(n**2)] for n in (64, 256, 1024)}
    grown = {"groups": 9, "n": [64, 256, 1024], "numpy": n_log_n, "torch": quadratic}
    share = {"n": 64, "prompts": 8, "seconds": {"1": [0.001], "8": [0.002]}}
    calls = {
        f"{kind}; {rows}; {name}": [0.04, 0.045, seconds]
        for kind in ("0 or 1", "normal")
        for rows in selection.ROWS_PER_PROMPT
        for name, seconds in (("numpy", 1.0), ("torch", 0.01))
    }
    calls["normal; 4; torch"] = [0.06, 0.07, 0.01]
    across = {"groups": 9, "n": 64, "rewards": ["0 or 1", "normal"], "seconds": calls}
    return {"m": 16, "cells": cells, "growth": grown, "across": across, "step": share}


def test_the_selection_is_judged_by_its_growth_its_slowest_batch_and_its_share():
    _, grown, across, share = selection.tabulate(selection_measured(), {"8": [1.0, 4.0, 9.0]})
    found = verdicts(grown)
    assert found["numpy: exponent against n log n"] == (1.0, "met")
    assert found["torch: exponent against n log n"][1] == "missed"
    # the medians of the slowest kind of batch
    assert verdicts(across) == {
        "numpy: seconds of the slowest": (0.045, "met"),
        "torch: seconds of the slowest": (0.06, "missed"),
    }
    assert across.rows[7][1:] == ["4", "45 ms", "60 ms"]
    # 2 ms of 4 s
    assert verdicts(share) == {"8 prompts per step: selection's share of it": (0.0005, "met")}
    assert share.rows[0][2] == "not measured"


def test_without_a_measured_step_the_share_is_not_judged():
    share = selection.tabulate(selection_measured(), {})[-1]
    assert [bar.verdict for bar in share.bars] == ["not measured"]


def test_generation_is_judged_by_its_ratio_to_plain_generate_round_by_round():
    seconds = {"plain": [2.0, 6.0, 4.0], "shared": [1.0, 2.0, 2.0]}
    found = {"seconds": seconds, "tokens": {"plain": [80, 80, 80], "shared": [72, 80, 88]}}
    measured = {"prompts": 2, "n": 4, "workloads": {"sums of 4 columns": found}}
    (table,) = generation.tabulate(measured)
    assert verdicts(table) == {"times faster than plain generate": (2.0, "met")}
    # 80 tokens of 8 rollouts; 72 / 1, 80 / 2, 88 / 2 tokens per second
    assert [row[2:] for row in table.rows] == [["10.0", "20"], ["10.0", "44"]]


ENVIRONMENT = {
    "started": "2026-11-21T06:00:00+00:00",
    "command": ["/somewhere/speed/__main__.py", "--only", "step"],
    "git": {"commit": "0123456789abcdef", "dirty": True},
    "python": "3.11.9",
    "cpu": "A CPU",
    "cores": 2,
    "memory": 24_000_000_000,
    "threads": 2,
    "versions": {"torch": "2.13.0"},
}


def test_the_page_says_on_what_when_and_how_it_was_measured():
    measured = {"selection": selection_measured(), "step": STEP, "growth": growth_measured()}
    found = {
        name: {"part": name, "environment": ENVIRONMENT, "seconds": 61.0, "measured": m}
        for name, m in measured.items()
    }
    text = parts.page(found)
    for shown in (
        "A CPU, 2 cores, 24 GB; torch used 2 threads",
        "torch 2.13.0",
        "Step: 2026-11-21, commit 0123456789ab with changes,"
        " `python -m benchmarks.speed --only step`, 61 s",
        "10 met, 7 missed, 0 not measured",
    ):
        assert shown in text
    assert "/somewhere" not in text
    assert text.count("| bar |") == 7


def test_downsample_is_the_same_whether_numpy_or_torch_is_timed():
    rewards = np.random.default_rng(1).normal(size=(4, 32))
    kept = podsrl.downsample(torch.from_numpy(rewards), 8)
    assert kept.tolist() == podsrl.downsample(rewards, 8).tolist()
