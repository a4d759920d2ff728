"""The app of `pods inspect` in real headless Chromium: every view, its keys, and hostile texts."""

import json
import os
from pathlib import Path
from urllib.parse import urlencode

import pytest

from podsrl.cli import main
from podsrl.rollout_log.run_folder import RunFolder
from support.chromium import BINARY, HOSTILE, Chromium, assert_quiet, texts
from support.inspected import app_of, ask, write_run
from support.synthetic_rollouts import rollouts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("unhurried"),
    pytest.mark.skipif(BINARY is None, reason="no chromium on this machine"),
]

CHAT = (
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is {sum}?<|im_end|>\n"
    "<|im_start|>assistant\n"
)
ANSI = "\x1b[31mred\x1b[0m"
TURNED = "safe \u202eevil\u202c"
LINE = "W" * 1_000_000
RUN = "out <b>& 1"

# ---- what the run holds --------------------------------------------------------------------------


def sums():
    """Two prompts of a chat; of each, half of the rollouts are right, and two of them kept."""
    columns = rollouts(groups=2, n=8, m=2)
    prompts = [CHAT.replace("{sum}", asked) for asked in ("48 + 27 + 19", "7314 + 226")]
    right = "The sum is 94, I am sure.<|im_end|>"
    wrong = "The sum is 104, I am sure.<|im_end|>"
    rewards = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]

    # the first and the sixth of each prompt are kept
    kept = [True, False, False, False, False, True, False, False]
    advantages = [0.7, None, None, None, None, -0.7, None, None]
    return columns | {
        "prompt": [prompts[0]] * 8 + [prompts[1]] * 8,
        "completion": 2 * ([right] * 4 + [wrong] * 4),
        "answer": ["94"] * 8 + ["7540"] * 8,
        "reward": 2 * rewards,
        "rewards/correctness": 2 * rewards,
        "rewards/judge": [None] * 16,
        "kept": 2 * kept,
        "advantage": 2 * advantages,
        "tokens": [12] * 15 + [64],  # the last one is cut off
    }


def turn(role, text="", *calls, **more):
    """A turn as the rollout log has it; calls are pairs of a tool's name and its arguments."""
    named = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return {"role": role, "text": text, "calls": named, **more}


def games():
    """Rollouts that call a tool once, one of hostile names, and nothing."""
    columns = rollouts(groups=1, n=4, m=2, prompt="Find it.", text="said {rollout}")
    look = [
        turn("assistant", "", ("look", '{"where": "left"}'), thinking="Where is it?"),
        turn("tool", "nothing there", name="look", length=5_000_000),
    ]
    hostile = [
        turn("assistant", HOSTILE, (HOSTILE, HOSTILE), thinking=HOSTILE),
        turn("tool", HOSTILE, name=HOSTILE),
        turn(HOSTILE, HOSTILE),
    ]
    look_and_say = [*look, turn("assistant", "said 3")]
    return columns | {
        "turns": [json.dumps(look), None, json.dumps(hostile), json.dumps(look_and_say)],
    }


def hostile():
    """Texts that no page should trust, each as prompt, answer, completion and function's name."""
    columns = rollouts(groups=2, n=4, m=2)
    completions = [HOSTILE, ANSI, TURNED, LINE]
    return columns | {
        "prompt": [HOSTILE] * 4 + [TURNED + ANSI] * 4,
        "answer": [HOSTILE] * 8,
        "data": [json.dumps({HOSTILE: HOSTILE + "!"})] * 8,
        "completion": completions * 2,
        f"rewards/{HOSTILE}": columns["reward"],
    }


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    run = write_run(
        tmp_path_factory.mktemp("page") / RUN,
        steps=(1, 5),
        config={"max_completion_length": 64, "max_steps": 20},
        groups=3,
        n=6,
        m=2,
        text="first {group}.{rollout}",
    )
    run.write_rollouts(12, sums())
    run.write_rollouts(13, games())
    run.write_rollouts(14, hostile())
    for step in range(1, 15):
        run.append_metrics(metrics_of(step))
    with app_of(run.path) as server:
        yield server


def metrics_of(step):
    return {
        "step": step,
        "pods/training_seconds": 4.0 * step,
        "reward": step / 20,
        "entropy": 1 / step,
        "pods/seconds_generate": 1.0,
        "pods/seconds_score": 1.0,
        "pods/seconds_select": 1.0,
        "pods/seconds_update": 1.0,
    }


# ---- going about ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def opened(app, tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        browser.open(app.address)
        # What it asks the server for at first has come; before that it can't show another view.
        browser.wait_for("document.querySelector('#view > *')")
        yield browser


@pytest.fixture
def browser(opened, app):
    """The page at its beginning."""
    opened.look_as(1200)
    show(opened, "")
    opened.wait_for("document.querySelectorAll('figure canvas').length > 5")
    yield opened
    assert_quiet(opened, f"http://127.0.0.1:{app.port}/")


def address(view, step, group=None):
    run = RUN.replace(" ", "%20").replace("&", "%26").replace("<", "%3C")
    of_step = f"/{view}/{run}/{step}"
    return of_step if group is None else f"{of_step}/{group}"


def show(browser, where):
    """Follow a link to a view, and wait until it is drawn."""
    browser.run("document.getElementById('view').replaceChildren()")
    browser.run(f"location.hash = '#{where or '/'}'; dispatchEvent(new HashChangeEvent('x'))")
    browser.run(
        "new Promise((r) => { const w = () => document.querySelector('#view > *') ? r()"
        " : setTimeout(w, 20); show().then(w); })"
    )


def wait(browser, milliseconds):
    """For what follows no event: that nothing happens, or a drawing that has no end."""
    browser.run(f"new Promise((r) => setTimeout(r, {milliseconds}))")


def count(browser, selector):
    return browser.run(f"document.querySelectorAll({json.dumps(selector)}).length")


def classes(browser, selector):
    """The class attribute of all elements of a selector."""
    query = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return browser.run(f"{query}.map((e) => e.className)")


def hash_of(browser):
    return browser.run("decodeURIComponent(location.hash)")


def width_of_page(browser):
    return browser.run("document.documentElement.scrollWidth")


# ---- the views -----------------------------------------------------------------------------------


def test_the_run_has_its_curves_and_begins_with_a_prompt_that_teaches(browser):
    titles = texts(browser, "figcaption")
    first_words = [title.split(" ")[0] for title in titles if "reward function" not in title]
    assert first_words == [
        "Reward",
        "Rewards",
        "Contrast",
        "Prompts",
        "Rows",
        "Length",
        "Seconds",
        "Entropy",
    ]
    of_functions = [title for title in titles if "reward function" in title]
    assert [title.split(" ")[0] for title in of_functions][:1] == ["correctness"]
    assert texts(browser, "h1") == [RUN]
    assert texts(browser, "#bar") == ["step 14 of 20 · 24 s left · reward 0.7"]
    assert "step 14" in texts(browser, ".featured .small")[0]

    browser.choose("over", "time")
    browser.wait_for("document.querySelectorAll('figure canvas').length > 5")
    browser.click(".featured a")
    browser.wait_for("document.querySelector('.cards')")
    assert hash_of(browser).startswith(f"#/group/{RUN}/14/")
    show(browser, "")
    browser.choose("over", "step")


def test_a_drag_over_a_curve_zooms_and_a_click_opens_the_step(browser):
    x, y, width = browser.run(
        "(() => { const r = document.querySelector('.u-over').getBoundingClientRect();"
        " return [r.left, r.top, r.width]; })()"
    )

    def mouse(kind, right):
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        at = {"x": x + right, "y": y + 20}
        browser.send("Input.dispatchMouseEvent", type=kind, **at, **button)

    assert not browser.run("isZoomed()")
    mouse("mouseMoved", width / 2)
    mouse("mousePressed", width / 2)
    browser.send(
        "Input.dispatchMouseEvent", type="mouseMoved", x=x + width - 5, y=y + 20, buttons=1
    )
    mouse("mouseReleased", width - 5)
    browser.wait_for("isZoomed()")
    assert browser.run("location.hash") in ("", "#/")

    show(browser, "")
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        mouse(kind, 2)
    browser.wait_for("location.hash.startsWith('#/step/')")
    assert hash_of(browser) == f"#/step/{RUN}/1"


def test_the_step_has_its_prompts_by_pass_rate_with_what_was_kept(browser):
    show(browser, address("step", 12))
    assert texts(browser, ".prompt .asked") == ["What is 48 + 27 + 19?", "What is 7314 + 226?"]
    assert texts(browser, ".prompt .facts") == ["50 % pass · 2 of 8 kept"] * 2
    assert classes(browser, ".prompt .dots i")[:8] == [
        "above kept",
        "above dropped",
        "above dropped",
        "above dropped",
        "below dropped",
        "below kept",
        "below dropped",
        "below dropped",
    ]
    assert "2 prompts · 16 rollouts · 4 kept" in texts(browser, ".summary")[0]


def test_a_dropped_rollout_has_the_colour_of_a_kept_one_as_a_ring(browser):
    def colours_of(dot):
        style = f"getComputedStyle(document.querySelectorAll('.dots i')[{dot}])"
        return browser.run(f"[{style}.backgroundColor, {style}.borderColor]")

    show(browser, address("step", 12))
    filled, border_of_filled = colours_of(0)
    hollow, border_of_hollow = colours_of(1)
    assert filled == border_of_filled == border_of_hollow
    assert hollow == "rgba(0, 0, 0, 0)"


def test_prompts_in_another_order_lead_to_their_groups(browser):
    show(browser, address("step", 14))
    browser.choose("order", "number")
    browser.wait_for("document.querySelector('.prompt')")
    browser.click(".prompt:nth-child(2)")
    browser.wait_for("document.querySelector('.cards')")
    assert hash_of(browser) == f"#/group/{RUN}/14/1"
    show(browser, address("step", 12))
    browser.choose("order", "reward")


def test_the_group_shows_kept_and_dropped_side_by_side_and_what_differs(browser):
    show(browser, address("group", 12, 0))
    assert texts(browser, "#question") == ["What is 48 + 27 + 19?"]
    assert texts(browser, ".gold b") == ["94"]
    assert texts(browser, "details summary") == ["as the model reads it"]
    assert texts(browser, "details pre") == [CHAT.replace("{sum}", "48 + 27 + 19")]
    # four say one thing and four another; one of each was kept
    assert texts(browser, "article .mark") == ["4 identical, 1 kept"] * 2
    assert texts(browser, "article .text") == [
        "The sum is 94, I am sure.",
        "The sum is 104, I am sure.",
    ]
    assert texts(browser, "article mark") == ["94", "104"]
    assert "advantage 0.7" in texts(browser, ".facts")[0]
    assert texts(browser, ".parts")[0] == "correctness 1 · judge gave none"
    summary = texts(browser, ".group > .summary")[0]
    assert summary.startswith("2 of 8 rollouts kept · mean reward 0.5")


def test_the_differences_of_a_group_can_be_hidden(browser):
    show(browser, address("group", 12, 0))
    browser.click("#differences")
    browser.wait_for("!document.querySelector('article mark')")
    assert texts(browser, "article mark") == []
    browser.click("#differences")
    browser.wait_for("document.querySelector('article mark')")
    assert texts(browser, "article mark") != []


def test_the_dropped_rollouts_of_a_group_can_be_shown_alone(browser):
    show(browser, address("group", 5, 1))
    browser.choose("kept", "0")
    browser.wait_for("document.querySelectorAll('article').length === 4")
    assert set(texts(browser, "article .mark")) == {"dropped"}
    browser.choose("kept", "")
    browser.wait_for("document.querySelectorAll('article').length === 6")
    assert texts(browser, ".elsewhere a:not(.beside)") == ["step 1: 0.5"]


def test_a_rollout_that_was_cut_off_is_marked(browser):
    show(browser, address("group", 12, 1))
    assert texts(browser, ".facts .warn") == ["cut off"]  # the last one has all 64 tokens


def test_turns_with_tools_are_folded_and_open(browser):
    show(browser, address("group", 13, 0))
    turns = "article:first-child .turns > *"
    assert classes(browser, turns) == ["thinks", "calls", "returns"]
    assert texts(browser, f"{turns} .who") == [
        "the model thinks",
        "calls look",
        "look returned, first 13 of 5,000,000 characters",
    ]

    returned = "document.querySelector('.returns')"
    assert not browser.run(f"{returned}.open")
    browser.click(".returns summary")
    assert browser.run(f"{returned}.open")
    assert browser.run(f"{returned}.querySelector('pre').textContent") == "nothing there"


def test_a_search_is_an_address_that_leads_to_the_rollouts(browser, app):
    show(browser, "/search")
    browser.run("document.getElementById('text').value = 'first 1.'")
    browser.choose("kept", "1")  # which submits the form
    browser.wait_for("document.querySelectorAll('.hits > li').length === 4")
    assert texts(browser, ".hits .text") == ["first 1.0", "first 1.5"] * 2
    assert texts(browser, ".hits mark") == ["first 1."] * 4
    assert hash_of(browser) == "#/search?text=first+1.&kept=1"
    assert "steps 14 to 1 just now, 0 steps left" in texts(browser, ".on")[0]
    browser.click(".hits a")
    browser.wait_for("document.querySelector('.cards')")
    assert hash_of(browser) == f"#/group/{RUN}/5/1"


def test_what_a_search_found_can_be_had_as_a_file(browser):
    show(browser, "/search?reward_min=1&function=correctness&tokens_max=12&step_max=12")
    assert texts(browser, ".results .summary")[0].startswith("14 rollouts found")  # 3, 3 and 8
    assert browser.run("document.getElementById('function').value") == "correctness"

    file = browser.run(
        "fetch(document.querySelector('.downloads a').href).then((answer) => answer.text())"
    )
    assert len(file.splitlines()) > 13


def test_a_search_for_what_is_not_there_says_so(browser):
    show(browser, "/search?text=nothing+like+it")
    assert "Nothing found." in texts(browser, ".on")[0]


def test_the_keyboard_goes_through_steps_and_prompts(browser):
    show(browser, address("step", 5))
    for key, place in (
        ("ArrowRight", f"step/{RUN}/12"),
        ("ArrowLeft", f"step/{RUN}/5"),
        ("n", f"group/{RUN}/5/0"),
        ("n", f"group/{RUN}/5/1"),
        ("p", f"group/{RUN}/5/0"),
        ("ArrowLeft", f"group/{RUN}/1/0"),
        ("u", f"step/{RUN}/1"),
        ("r", ""),
        ("/", "search"),
    ):
        browser.press(key)
        expected = json.dumps(f"#/{place}")
        browser.wait_for(f"decodeURIComponent(location.hash) === {expected}")
        browser.wait_for("document.querySelector('#view').children.length")
        wait(browser, 150)

    browser.wait_for("document.activeElement.id === 'text'")
    browser.press("n")  # now a letter
    assert browser.run("document.getElementById('text').value") == "n"


@pytest.mark.parametrize(
    "where",
    [
        address("step", 14),
        address("group", 14, 0),
        address("group", 14, 1),
        address("group", 13, 0),
        "/search?step_min=14",
        "/search?text=<script>",
    ],
)
def test_what_models_wrote_never_becomes_elements_and_never_runs(browser, where):
    show(browser, where)
    assert count(browser, "main :is(img, script, svg, main b > *, iframe)") == 0
    assert browser.run("window.ran") is None


def test_what_models_wrote_is_shown_as_text(browser):
    show(browser, address("group", 14, 0))
    shown = texts(browser, "article .text")
    assert shown[0] == HOSTILE
    assert shown[1] == "␛[31mred␛[0m"  # a terminal's codes are seen
    assert shown[2] == "safe ⟨U+202E⟩evil⟨U+202C⟩"  # and so is what turns the direction
    assert len(shown[3]) == 20_000
    assert HOSTILE in texts(browser, ".parts")[0]


def test_a_megabyte_of_one_line_is_cut_and_can_be_had_whole(browser):
    card = "article:nth-child(4)"
    height = f"document.querySelector('{card}').clientHeight"
    length = f"document.querySelector('{card} .text').textContent.length"

    show(browser, address("group", 14, 0))
    browser.wait_for(f"document.querySelector('{card} .unfold')")
    assert browser.run(height) < 700

    browser.click(f"{card} .unfold")
    browser.wait_for(f"{length} > 1e5")
    assert browser.run(length) == 1_000_000
    assert width_of_page(browser) <= 1200


# ---- looks ---------------------------------------------------------------------------------------

VIEWS = {
    "run": "",
    "step": address("step", 12),
    "group": address("group", 12, 0),
    "turns": address("group", 13, 0),
    "hostile": address("group", 14, 0),
    "search": "/search?text=first",
}


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1280, "light")])
def test_every_view_fits_phones_and_desks_light_and_dark(browser, tmp_path, width, theme):
    """The screenshots are for looking at: PODSRL_SCREENSHOTS=FOLDER keeps them."""
    screenshots = Path(os.environ.get("PODSRL_SCREENSHOTS") or tmp_path)
    browser.look_as(width, theme=theme)
    for name, where in VIEWS.items():
        show(browser, where)
        if name == "run":
            browser.wait_for("document.querySelectorAll('figure canvas').length > 5")
        wait(browser, 100)
        browser.screenshot(screenshots / f"{name}-{width}-{theme}.png")

        assert width_of_page(browser) <= width, name
        assert min(font_sizes(browser)) >= 12, name
        assert is_dark(browser) == (theme == "dark")
        shown = browser.run("document.querySelector('main').innerText")
        for nothing in ("null", "undefined", "NaN"):
            assert nothing not in shown, name


def font_sizes(browser):
    """In pixels, of all elements that have a text of their own; without curves."""
    return browser.run(
        "[...document.querySelectorAll('main *')].filter((e) => e.children.length === 0 &&"
        " e.textContent.trim() && !e.closest('.u-wrap, option'))"
        ".map((e) => parseFloat(getComputedStyle(e).fontSize))"
    )


def is_dark(browser):
    """Whether the background is, on average of its three colours, below a quarter."""
    colour = browser.run("getComputedStyle(document.body).backgroundColor")
    red, green, blue = map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))
    return red + green + blue < 3 * 64


# ---- safety, and a server that ends --------------------------------------------------------------


def test_a_script_that_is_not_ours_would_be_refused(app, tmp_path):
    """So the content security policy is in force, and the tests above would notice."""
    with Chromium(tmp_path / "profile") as browser:
        browser.open(app.address)
        browser.run(
            "(() => { const s = document.createElement('script');"
            " s.textContent = 'window.ran = 5'; document.body.append(s);"
            " document.body.insertAdjacentHTML('beforeend', '<img src=\"http://127.0.0.1:9/x\">');"
            " })()"
        )
        for directive in ("script-src", "img-src"):
            browser.wait_for_event(
                "Log.entryAdded", lambda event, d=directive: d in event["entry"]["text"]
            )
        assert browser.run("window.ran") is None


def test_a_page_in_another_tab_cannot_read_what_the_server_knows(app, tmp_path):
    """Even one that guessed the port: it has no token, and no leave to read the answer."""
    page = tmp_path / "evil.html"
    page.write_text(
        f"<script>fetch('http://127.0.0.1:{app.port}/api/state')"
        ".then((a) => a.text()).catch(() => 'refused').then((t) => window.got = t)"
        "</script>"
    )
    with Chromium(tmp_path / "profile") as browser:
        browser.open(page)
        browser.wait_for("window.got")
        assert browser.run("window.got") == "refused"


def test_a_page_says_that_its_server_does_not_answer_any_more(tmp_path):
    run = write_run(tmp_path / "run")
    with Chromium(tmp_path / "profile") as browser:
        with app_of(run.path) as server:
            browser.open(server.address)
            browser.wait_for("document.querySelector('.featured')")
        browser.wait_for("document.getElementById('bar').textContent.includes('does not answer')")
        assert "does not answer" in browser.run("document.getElementById('bar').textContent")


# ---- the exported page ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(app, tmp_path_factory):
    page = tmp_path_factory.mktemp("exported") / "page.html"
    [run] = app.index.runs
    assert main(["inspect", str(run.source.path), "--export", str(page)]) == 0

    with Chromium(tmp_path_factory.mktemp("profile"), width=390) as browser:
        browser.open(page)
        yield browser
        assert_quiet(browser)


def test_the_exported_page_has_every_view_without_a_server(exported):
    exported.wait_for("document.querySelectorAll('figure canvas').length > 5")
    assert "step 14" in texts(exported, ".featured .small")[0]

    show(exported, address("step", 12))
    assert texts(exported, ".prompt .facts") == ["50 % pass · 2 of 8 kept"] * 2
    exported.click(".prompt")
    exported.wait_for("document.querySelector('.cards')")
    assert texts(exported, "article mark") == ["94", "104"]
    exported.press("ArrowRight")
    exported.wait_for("document.querySelector('.turns')")

    show(exported, "/search?text=first+1.&kept=1")
    assert texts(exported, ".hits .text") == ["first 1.0", "first 1.5"] * 2
    assert width_of_page(exported) <= 390

    show(exported, "/search?reward_max=0.5&cut_off=1")  # by the filters of the list of columns
    assert texts(exported, ".hits .mark") == ["dropped"]
    show(exported, "/search?" + urlencode({"pattern": r"FIRST\s1\.[05]", "kept": 1}))
    assert texts(exported, ".hits .text") == ["first 1.0", "first 1.5"] * 2
    assert texts(exported, ".hits mark") == ["first 1.0", "first 1.5"] * 2


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"(a)\1", "refers back to a group"),
        ("first(?= 1)", "looks ahead or behind"),
        (r"\pL+", "does not know"),
        ("(?m)^a", "does not know such flags"),
        ("(a", "none that can be searched for"),
    ],
)
def test_a_pattern_that_the_app_or_a_browser_does_not_know_is_refused(exported, pattern, said):
    show(exported, "/search?" + urlencode({"pattern": pattern}))
    assert said in texts(exported, ".note")[0]


@pytest.mark.parametrize(
    "pattern", [r"\Afirst", r"(?i)FIRST 1\.0\z", "(?P<word>first)", "[ft]irst (?:1|2)", r"\d\.\d$"]
)
def test_a_pattern_finds_the_same_on_a_page_and_in_the_app(exported, app, pattern):
    show(exported, "/search?" + urlencode({"pattern": pattern, "step_min": 5, "step_max": 5}))
    found = ask(app, "search", pattern=pattern, step_min=5, step_max=5)["rows"]
    assert len(found) > 0
    expected = sorted((row["group"], row["snippet"], row["matched"]) for row in found)
    assert count(exported, ".hits > li") == len(expected)
    assert sorted(texts(exported, ".hits mark")) == sorted(row[2] for row in expected)


def test_a_worker_that_begins_late_has_its_time_for_a_pattern(exported):
    """As on a machine that does much else: three seconds are for looking, not for beginning."""
    exported.run(
        "window.atOnce = Worker.prototype.postMessage; Worker.prototype.postMessage ="
        " function (texts) { setTimeout(() => atOnce.call(this, texts), this.begun ? 0 : 3_500);"
        " this.begun = true; }; 0"
    )
    try:
        show(exported, "/search?" + urlencode({"pattern": "first 1.", "step_min": 5}))
        exported.wait_for("document.querySelector('.hits > li, .results .note, #view > .note')")
        assert texts(exported, ".hits mark")[:1] == ["first 1."]
    finally:
        exported.run("Worker.prototype.postMessage = atOnce; 0")


def test_a_pattern_that_takes_a_browser_for_ever_is_ended(tmp_path):
    run = write_run(tmp_path / "run", groups=1, n=2, text="a" * 40 + "b").path
    page = tmp_path / "page.html"
    assert main(["inspect", str(run), "--export", str(page)]) == 0
    with Chromium(tmp_path / "profile") as browser:
        browser.open(f"{page.resolve().as_uri()}#/search?pattern=(a%2B)%2B%24")
        browser.wait_for("document.querySelector('#view .note')")
        assert "takes too long on a page" in texts(browser, "#view .note")[0]
        assert_quiet(browser)


def test_the_exported_page_says_what_it_does_not_hold(exported):
    show(exported, address("group", 14, 0))
    assert texts(exported, "article .text")[0] == HOSTILE
    exported.click("article:nth-child(4) .unfold")
    exported.wait_for("document.querySelector('.note')")

    show(exported, address("step", 99))
    assert texts(exported, ".note") == [f"step 99 of {RUN} is not on this page"]


def test_a_search_on_an_exported_page_reaches_all_that_it_found(tmp_path):
    run = write_run(tmp_path / "run", groups=1, n=600, text="word {rollout}").path
    page = tmp_path / "page.html"
    assert main(["inspect", str(run), "--export", str(page)]) == 0

    with Chromium(tmp_path / "profile") as browser:
        browser.open(page)
        browser.wait_for("document.querySelector('#view > *')")
        show(browser, "/search?text=word")
        assert texts(browser, ".results .summary")[0] == "600 rollouts found"
        assert count(browser, ".hits > li") == 500

        browser.click(".more")
        browser.wait_for("document.querySelectorAll('.hits > li').length === 600")
        assert count(browser, ".more") == 0
        assert_quiet(browser)


# ---- size ----------------------------------------------------------------------------------------


def test_a_step_of_a_hundred_thousand_rollouts_stays_usable(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.write_config({"arm": "pods"})
    run.write_rollouts(1, rollouts(groups=1536, n=64, m=16, text="rollout {group}.{rollout}:"))
    run.write_rollouts(2, rollouts(groups=1, n=2_000, m=16, text="rollout {rollout}:"))
    with app_of(run.path) as server, Chromium(tmp_path / "profile", width=390) as browser:
        browser.open(server.address)
        browser.wait_for("document.querySelector('.featured')")

        show(browser, "/step/run/1")
        assert count(browser, ".prompt") == 200
        assert texts(browser, ".more") == ["show 1,336 more prompts"]
        assert count(browser, "*") < 20_000

        show(browser, "/search?text=rollout+1535.63:")
        assert texts(browser, ".hits mark") == ["rollout 1535.63:"]

        show(browser, "/group/run/2/0")
        assert count(browser, "article") == 60
        assert width_of_page(browser) <= 390
        assert_quiet(browser, f"http://127.0.0.1:{server.port}/")
