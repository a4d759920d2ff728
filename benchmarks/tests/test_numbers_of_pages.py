"""Numbers of the README and the evidence page are those of results/."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("podslab")

from benchmarks.markdown import BLOCK
from benchmarks.pages import blocks, quoted
from benchmarks.worth.__main__ import SHIPPED
from benchmarks.worth.shipped import shipped

ROOT = Path(__file__).parents[2]
FRONT = (ROOT / "README.md", ROOT / "docs" / "evidence.md")
#: A number with a unit of results.
MEASURED = re.compile(r"\d(?:[\d.,]*\d)?(?: ?%|x\b| times as fast)")


def blocks_of(page):
    return blocks.names_of_blocks(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", blocks.PAGES, ids=lambda page: page.name)
def test_a_page_says_what_the_raw_files_say(page):
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        said = match[0].removeprefix(match[1]).removesuffix(match[3])
        assert said == blocks.block(match[2]), "python -m benchmarks.pages writes it"


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
    text = BLOCK.sub("", (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8"))
    # the measure itself, its intervals, and what is withdrawn
    assert set(MEASURED.findall(text)) <= {"99 %", "95 %", "2.63x"}


def test_the_readme_states_no_measured_number_of_its_own():
    """Beside its blocks it may say what the authors measured, in the words of the block."""
    text = BLOCK.sub("", (ROOT / "README.md").read_text(encoding="utf-8"))
    text = re.sub(r"^```.*?^```|<[^>]*>", "", text, flags=re.DOTALL | re.MULTILINE)
    assert set(MEASURED.findall(text)) <= set(MEASURED.findall(blocks.block("published-range")))


@pytest.mark.parametrize("page", FRONT, ids=lambda page: page.name)
def test_no_front_page_calls_a_result_certain(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"\bcertain\b", text.replace('"2.63x, certain"', ""))


@pytest.mark.parametrize(
    "quote", quoted.QUOTES, ids=lambda quote: f"{quote.page.name}: {quote.words}"
)
def test_a_number_in_a_sentence_is_that_of_the_raw_files(quote):
    assert quote.is_there(), f"{quote.page} should say: {quote.said()}"


def test_a_sentence_with_another_number_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a step is **worth\n2.11** steps")
    assert quoted.Quote(page, "a step is worth {} steps", lambda: ("2.11",)).is_there()
    assert not quoted.Quote(page, "a step is worth {} steps", lambda: ("2.12",)).is_there()


def test_the_authors_worths_that_are_shipped_are_those_of_the_raw_files():
    assert json.loads(SHIPPED.read_text(encoding="utf-8")) == shipped()
