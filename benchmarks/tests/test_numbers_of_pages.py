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
    stale = "<!-- generated: published -->\n9.99x\n<!-- end -->\n"
    right = blocks.rewritten(stale)
    assert "2.00x (1.00x to 2.50x)" in right
    assert "9.99" not in right
    assert blocks.rewritten(right) == right
    with pytest.raises(KeyError):
        blocks.rewritten("<!-- generated: no-such-block -->\n<!-- end -->")


#: The measures themselves, their intervals, what is withdrawn, and the start of two settings.
NOT_MEASURED = {"99 %", "97 %", "95 %", "2.63x", "3 %"}


@pytest.mark.parametrize("page", FRONT, ids=lambda page: page.name)
def test_a_front_page_states_no_measured_number_that_is_not_held_to_the_files(page):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"^```.*?^```|<[^>]*>", "", text, flags=re.DOTALL | re.MULTILINE)
    held = " ".join(quote.said() for quote in quoted.QUOTES if quote.page == page)
    assert set(MEASURED.findall(text)) <= {*MEASURED.findall(held), *NOT_MEASURED}


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
