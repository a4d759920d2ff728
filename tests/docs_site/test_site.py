"""The documentation site, built strictly and read in headless Chromium; `nox -s site`."""

import functools
import http.server
import math
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import podsrl
from support.chromium import BINARY, Chromium

pytest.importorskip("material", reason="mkdocs-material is not installed: nox -s site")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed: nox -s site")
pytestmark = pytest.mark.skipif(BINARY is None, reason="no chromium on this machine")

ROOT = Path(__file__).parents[2]
PHONE, DESK = 390, 1280


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "-d", site]
    return subprocess.run(command, capture_output=True, text=True)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site, and its address."""
    folder = tmp_path_factory.mktemp("site")
    built = build(ROOT / "mkdocs.yml", folder)
    assert built.returncode == 0, built.stderr
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module", params=[PHONE, DESK])
def browser(request, tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile"), width=request.param) as browser:
        browser.width = request.param
        yield browser


def complaints(browser):
    """What the browser's console holds against the pages so far."""
    logged = [e["entry"]["text"] for e in browser.of_kind("Log.entryAdded")]
    printed = browser.of_kind("Runtime.consoleAPICalled")
    raised = browser.of_kind("Runtime.exceptionThrown")
    return [*logged, *(p for p in printed if p["type"] in ("error", "warning")), *raised]


def test_every_page_opens_without_complaint_sideways_scrolling_or_another_host(site, browser):
    folder, address = site
    pages = sorted(str(path.parent.relative_to(folder)) for path in folder.rglob("index.html"))
    assert len(pages) >= 10

    for page in pages:
        browser.open(address + ("" if page == "." else f"{page}/"))
        width = browser.run("document.documentElement.scrollWidth")
        assert width <= browser.width, f"{page} is {width} pixels wide"
        assert browser.run("document.querySelectorAll('h1').length") == 1, page
        shown = "[...document.images].every((image) => image.complete && image.naturalWidth)"
        browser.wait_for(shown)
        assert not complaints(browser), page

    asked = {event["request"]["url"] for event in browser.of_kind("Network.requestWillBeSent")}
    assert {url for url in asked if not url.startswith((address, "data:", "blob:"))} == set()


def test_the_search_finds_a_page_by_its_words(site, browser):
    browser.open(site[1])
    browser.run("document.querySelector('[data-md-toggle=search]').click()")
    field = "document.querySelector('.md-search__input')"
    browser.wait_for(field)
    browser.run(f"{field}.focus()")
    browser.send("Input.insertText", text="colocated vLLM places")
    browser.wait_for("document.querySelector('.md-search-result__link')")
    links = "[...document.querySelectorAll('.md-search-result__link')].map((a) => a.pathname)"
    assert {"/trl/", "/faq/"} & set(browser.run(links))
    assert not complaints(browser)


def test_llms_txt_says_what_each_page_is_for_and_its_links_lead_to_the_page_as_text(site, browser):
    folder, address = site
    text = (folder / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# podsrl\n\n> ")

    listed = re.findall(r"^- \[[^]]+\]\((\S+\.md)\): (.+)$", text, re.MULTILINE)
    in_nav = re.findall(
        r"^  - [^:]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE
    )
    assert [path for path, _ in listed] == in_nav

    for path, purpose in listed:
        assert purpose.endswith((".", "?")), path
        page = (folder / path).read_text(encoding="utf-8")
        assert page.startswith("# ")
        assert "<!--" not in page

    assert "## A whole script with TRL" in text  # of AGENTS.md
    browser.open(f"{address}evidence/")
    assert "<!--" not in browser.run("document.querySelector('article').innerHTML")


def test_every_page_of_the_navigation_begins_with_a_command():
    pages = re.findall(r"^  - [^:]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M)
    for page in pages:
        # What stands first, or in a first section that says how to install.
        first, section, *_ = (ROOT / "docs" / page).read_text(encoding="utf-8").split("\n## ")
        beginning = f"{first}\n{section}" if section.startswith("Install") else first
        assert re.search(r"^```bash\n(pip|python|pods|nox|make) ", beginning, re.M), page


def turn(browser, **dials):
    """Set dials of the figure as a reader would, and return what it then says."""
    for name, value in dials.items():
        dial = f"document.querySelector('#pods-figure [data-dial={name}]')"
        event = "new Event('input', {bubbles: true})"
        browser.run(f"{dial}.value = {value}; {dial}.dispatchEvent({event})")
    return browser.run("document.querySelector('#pods-figure .says').textContent")


def average_contrast(p, n, m):
    """Over all numbers of right rollouts, by what the real rule keeps of them."""
    total = 0.0
    for right in range(n + 1):
        rewards = [1.0] * right + [0.0] * (n - right)
        share = sum(rewards[i] for i in podsrl.downsample(rewards, m)) / m
        chance = math.comb(n, right) * p**right * (1 - p) ** (n - right)
        total += chance * math.sqrt(share * (1 - share))
    return total


@pytest.mark.parametrize(("n", "m", "p"), [(64, 16, 10), (32, 8, 50), (16, 16, 90), (12, 2, 4)])
def test_the_figure_keeps_what_the_rule_keeps_and_says_what_it_teaches(site, browser, n, m, p):
    browser.open(site[1])
    said = turn(browser, n=n, m=m, p=p)
    right, of, kept, wrong = map(
        int, re.match(r"(\d+) of (\d+) .*: (\d+) right and (\d+) wrong", said).groups()
    )
    rewards = [1.0] * right + [0.0] * (n - right)
    assert (of, kept + wrong) == (n, m)
    assert kept == sum(rewards[i] for i in podsrl.downsample(rewards, m))
    drawn = "[...document.querySelectorAll('#pods-figure .dot')].map((dot) => dot.className)"
    assert sorted(browser.run(drawn)) == sorted(
        ["dot right kept"] * kept
        + ["dot wrong kept"] * wrong
        + ["dot right dropped"] * (right - kept)
        + ["dot wrong dropped"] * (n - right - wrong)
    )
    for size, told in zip((n, m), re.findall(r"has (\d\.\d\d)", said)[-2:], strict=True):
        assert float(told) == pytest.approx(average_contrast(p / 100, size, m), abs=0.006)


def test_drawing_again_draws_other_rollouts(site, browser):
    browser.open(site[1])
    before = turn(browser, n=64, m=8, p=50)
    draws = set()
    for _ in range(20):
        browser.run("document.querySelector('#pods-figure button').click()")
        draws.add(turn(browser))
    assert draws - {before}


def test_formulas_are_mathml_and_examples_are_code(site, browser):
    browser.open(f"{site[1]}theory/")
    assert browser.run("document.querySelectorAll('math[display=block]').length") >= 3
    assert "$$" not in browser.run("document.body.textContent")
    browser.open(f"{site[1]}api/")
    assert browser.run("document.querySelectorAll('math[display=block]').length") >= 2
    assert ".. math" not in browser.run("document.body.textContent")
    examples = "[...document.querySelectorAll('.highlight')].map((e) => e.textContent).join('')"
    assert ">>> downsample_batch(" in browser.run(examples)


def test_a_broken_link_reference_or_formula_fails_the_build(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for name in ("mkdocs.yml", "src", "lab", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "mkdocs.yml", tmp_path / "own.yml")

    faq = tmp_path / "docs" / "faq.md"
    api = tmp_path / "docs" / "api.md"
    whole = faq.read_text(encoding="utf-8")

    links = ("[x](nowhere.md)", "[x](trl.md#nowhere)", "![x](nowhere.png)")
    faq.write_text("\n\n".join([whole, *links]), encoding="utf-8")
    built = build(tmp_path / "own.yml", tmp_path / "site")
    assert built.returncode == 1
    for named in ("nowhere.md", "trl.md#nowhere", "nowhere.png"):
        assert f"'{named}'" in built.stderr

    for broken in (r"$$\nosuchcommand$$", "text\n* item"):
        faq.write_text(f"{whole}\n{broken}\n", encoding="utf-8")
        assert build(tmp_path / "own.yml", tmp_path / "site").returncode == 1, broken

    faq.write_text(whole, encoding="utf-8")
    api.write_text("# API\n\n::: podsrl.nothing_of_this_name\n", encoding="utf-8")
    assert build(tmp_path / "own.yml", tmp_path / "site").returncode == 1
