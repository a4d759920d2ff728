"""The page of what selecting costs says what its raw file says, and its measuring runs."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("trl")
pytest.importorskip("podslab")

from benchmarks.speed import cost, cost_page
from benchmarks.speed.numbers import slope
from support.forked import Forked

ROOT = Path(__file__).parents[2]
RAW = ROOT / "results" / "cost.json"


@pytest.fixture(scope="module")
def raw():
    return json.loads(RAW.read_text(encoding="utf-8"))


def test_the_page_is_the_one_that_its_raw_file_gives(raw):
    said = RAW.with_suffix(".md").read_text(encoding="utf-8")
    assert said == cost_page.page(raw), "python -m benchmarks.speed.cost --page writes it"
    assert RAW.with_suffix(".png").stat().st_size > 10_000


def test_another_measurement_gives_another_page(raw):
    told = cost_page.page(raw)
    raw = json.loads(json.dumps(raw))
    raw["measured"][-1]["processes"][0]["seconds"]["move"] = 98.7
    assert "98.7 s" in cost_page.page(raw)
    assert "98.7 s" not in told


def test_what_was_asked_for_is_in_the_raw_file(raw):
    found = {(of["world"], of["rollouts"]) for of in raw["measured"]}
    assert {(world, rollouts) for world in (1, 2, 4, 8) for rollouts in (256, 16384)} <= found
    assert {64, 512} <= {of["world"] for of in raw["simulated"]}
    assert {2048, 32768} <= {of["rows"] for of in raw["verl"]["measured"]}
    assert {2048, 32768} <= {of["rows"] for of in raw["slime"]["measured"]}


def test_counted_bytes_are_the_measured_ones(raw):
    measured = {(of["world"], of["rollouts"]): of["processes"] for of in raw["measured"]}
    both = [of for of in raw["simulated"] if (of["world"], of["rollouts"]) in measured]
    assert len(both) >= 3
    for counted in both:
        processes = measured[counted["world"], counted["rollouts"]]
        moved = [of["moved"] for of in processes]
        assert counted["moved_most"] == max(moved) > 0
        assert counted["moved_by_all"] == sum(moved)
        assert counted["numbers"] == max(of["numbers"] for of in processes)


def test_the_seconds_of_a_step_are_those_of_the_slowest_process():
    def process(**seconds):
        others = {"know": 0.0, "select": 0.0, "move": 0.0, "log": 0.0, "write": 9.0}
        return {"seconds": others | seconds}

    processes = [process(know=1.0, move=2.0), process(select=2.5, log=1.0)]
    assert cost_page.waited(processes) == 3.5  # not 1 + 2.5 + 2 + 1, nor anything of the 9


def test_the_slope_is_that_of_the_logarithms():
    assert slope([256, 1024, 4096], [7.0, 28.0, 112.0]) == pytest.approx(1.0)
    assert slope([2048, 4096], [1.0, 4.0]) == pytest.approx(2.0)


@pytest.mark.slow
def test_small_sizes_are_measured_and_told(tmp_path):
    log = tmp_path / "log"
    run = Forked(lambda: cost.main(["--quick", str(tmp_path)]), log, tmp_path / "errors")
    assert run.wait() == 0, run.said()

    raw = json.loads((tmp_path / "cost.json").read_text(encoding="utf-8"))
    page = (tmp_path / "cost.md").read_text(encoding="utf-8")
    assert page == cost_page.page(raw)
    assert re.search(r"^\| 64 on 2 \|", page, re.MULTILINE)

    def of_64_on_2(kind):
        [found] = [of for of in raw[kind] if (of["rollouts"], of["world"]) == (64, 2)]
        return found

    moved = [process["moved"] for process in of_64_on_2("measured")["processes"]]
    assert of_64_on_2("simulated")["moved_by_all"] == sum(moved) > 0
