"""The page of a report in real headless Chromium, opened from a file."""

import os
from pathlib import Path

import pytest

from podslab.report.load_runs import Choices, load_comparison
from podslab.report.write_report import write_report
from support.chromium import BINARY, HOSTILE, Chromium, assert_quiet, texts
from support.synthetic_runs import write_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BINARY is None, reason="no chromium on this machine"),
]


def test_what_runs_wrote_is_shown_as_text(tmp_path):
    write_run(tmp_path / "grpo", "grpo", 0, (0.1, 0.5, 0.8))
    write_run(tmp_path / "pods", "pods", 0, (0.1, 0.8, 0.8), config={"note": HOSTILE})
    comparison = load_comparison([tmp_path], Choices())
    page = write_report([comparison], tmp_path / "report", "A report").page
    with Chromium(tmp_path / "profile") as browser:
        browser.open(page)
        assert HOSTILE in texts(browser, "td")  # from the config
        assert browser.run("document.querySelectorAll('script, td :is(img, svg, a)').length") == 0
        assert_quiet(browser)


@pytest.fixture(scope="module")
def wide_page(tmp_path_factory):
    """Arms enough for two panels and a table wider than a phone, with every figure there is."""
    folder = tmp_path_factory.mktemp("wide")
    for arm in ("grpo", "grpo_ga", "pods", "auto", "n32", "n128", "random"):
        write_run(folder / arm, arm, 0, (0.18, 0.5, 0.6, 0.88), n=64)
    return write_report([load_comparison([folder], Choices())], folder / "report", "Arms").page


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1280, "light")])
def test_the_page_fits_phones_and_desks_light_and_dark(wide_page, tmp_path, width, theme):
    """The screenshots are for looking at: PODSRL_SCREENSHOTS=FOLDER keeps them."""
    shots = Path(os.environ.get("PODSRL_SCREENSHOTS") or tmp_path)
    with Chromium(tmp_path / "profile", width=width, height=900, theme=theme) as browser:
        browser.open(wide_page)
        assert browser.run("document.documentElement.scrollWidth") <= width

        small = (
            "[...document.querySelectorAll('main *')].filter((e) => e.children.length === 0 &&"
            " e.textContent.trim()).map((e) => parseFloat(getComputedStyle(e).fontSize))"
        )
        assert min(browser.run(small)) >= 12

        top, table = browser.run(
            "['.first figure', '.first table'].map((q) => document.querySelector(q))"
            ".map((e) => e.getBoundingClientRect().top)"
        )
        assert top < table  # seven arms: the table is too wide to stand beside the figure

        browser.screenshot(shots / f"page-{width}-{theme}.png")
        paper = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, paper[4:-1].split(","))) < 3 * 64) == (theme == "dark")
        assert_quiet(browser)
