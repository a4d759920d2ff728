"""Numbers in the README and the pages are those of docs/results."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
included = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "site" / "included.py")))
FRONT = (ROOT / "docs" / "evidence.md",)
#: A number with a unit of results, without the name of a result behind it.
UNNAMED = re.compile(r"\d(?:[\d.,]*\d)?(?: ?%|x| times as fast)(?!<!--)(?!\w)")


@pytest.mark.parametrize("page", included.PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_the_numbers_of_todays_results(page):
    text = page.read_text(encoding="utf-8")
    assert included.rewritten(text) == text, "python docs/site/included.py writes them"


@pytest.mark.parametrize("page", FRONT, ids=lambda page: page.name)
def test_no_measured_number_of_the_front_pages_stands_without_its_source(page):
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<img[^>]*>|(?<=times as fast\*)", "", text)
    allowed = {"95 %", "99 %"}  # of an interval, and of the measure itself
    assert set(UNNAMED.findall(text)) - allowed == set()


def test_a_number_that_is_no_longer_so_is_found():
    right = included.facts()["rows.median"]
    stale = "the median is 9.99x<!--rows.median-->"
    assert included.rewritten(stale) == f"the median is {right}x<!--rows.median-->"
    with pytest.raises(KeyError):
        included.rewritten("9.99<!--rows.no-such-result-->")
