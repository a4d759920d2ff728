"""Numbers of the README and the evidence page are those of results/; the log has every run."""

import json
import re
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("podslab")

from benchmarks.pages import blocks
from benchmarks.series import METHODS, all_series

ROOT = Path(__file__).parents[2]
FRONT = (ROOT / "README.md", ROOT / "docs" / "evidence.md")
#: Blocks that take most of the time of `python -m benchmarks.pages`.
SLOW = ("every-series", "questions")
#: A number with a unit of results.
MEASURED = re.compile(r"\d(?:[\d.,]*\d)?(?: ?%|x\b| times as fast)")


def blocks_of(page):
    return blocks.names_of_blocks(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", blocks.PAGES, ids=lambda page: page.name)
def test_a_page_says_what_the_raw_files_say(page):
    for match in blocks.BLOCK.finditer(page.read_text(encoding="utf-8")):
        if match[2] not in SLOW:
            said = match[0].removeprefix(match[1]).removesuffix(match[3])
            assert said == blocks.block(match[2]), "python -m benchmarks.pages writes it"


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_block_that_takes_long_says_what_the_raw_files_say(name, monkeypatch):
    pytest.importorskip("reasoning_gym")
    monkeypatch.chdir(ROOT)
    (page,) = [page for page in blocks.PAGES if name in blocks_of(page)]
    assert blocks.block(name) in page.read_text(encoding="utf-8")


def test_every_marker_of_a_page_is_closed_and_names_a_block_that_there_is():
    for page in blocks.PAGES:
        text = page.read_text(encoding="utf-8")
        assert text.count("<!-- generated: ") == text.count("<!-- end -->") == len(blocks_of(page))
        assert set(blocks_of(page)) <= set(blocks.BLOCKS)


def test_a_block_that_is_no_longer_so_is_written_anew():
    stale = "<!-- generated: published-range -->\n9.9 times as fast\n<!-- end -->\n"
    right = blocks.rewritten(stale)
    assert "1.7 to 3.0 times as fast" in right
    assert "9.9" not in right
    assert blocks.rewritten(right) == right
    with pytest.raises(KeyError):
        blocks.rewritten("<!-- generated: no-such-block -->\n<!-- end -->")


def test_the_evidence_page_states_no_measured_number_outside_its_blocks():
    text = blocks.BLOCK.sub("", (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8"))
    # the measure itself, its intervals, and what is withdrawn
    assert set(MEASURED.findall(text)) <= {"99 %", "95 %", "2.63x"}


def test_the_readme_states_no_measured_number_of_its_own():
    """Beside its blocks it may say what the authors measured, in the words of the block."""
    text = blocks.BLOCK.sub("", (ROOT / "README.md").read_text(encoding="utf-8"))
    text = re.sub(r"^```.*?^```|<[^>]*>", "", text, flags=re.DOTALL | re.MULTILINE)
    assert set(MEASURED.findall(text)) <= set(MEASURED.findall(blocks.block("published-range")))


@pytest.mark.parametrize("page", FRONT, ids=lambda page: page.name)
def test_no_front_page_calls_a_result_certain(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"\bcertain\b", text.replace('"2.63x, certain"', ""))


def test_every_file_of_a_run_belongs_to_a_series_of_the_log():
    log = (ROOT / "results" / "log.md").read_text(encoding="utf-8")
    every = {f"{series.setting}/{series.name}": len(series.runs) for series in all_series()}
    for file in METHODS.rglob("*.json"):
        if "curve" in json.loads(file.read_text(encoding="utf-8")):
            folder = str(file.parent.relative_to(METHODS))
            assert folder in every, f"{file} is in no series' folder"
            assert f"[{folder}](methods/{folder})" in log, folder
    assert sum(every.values()) == sum(1 for _ in METHODS.glob("*/20*/*.json"))


def test_every_run_that_was_left_out_is_there_and_has_a_reason():
    gone = tomllib.loads((METHODS / "left-out.toml").read_text(encoding="utf-8"))
    for folder, one in gone.items():
        assert one["why"]
        missing = [run for run in one["runs"] if not (METHODS / folder / f"{run}.json").is_file()]
        assert missing == [], folder
