"""The app of `pods inspect` in real headless Chromium: every view, its keys, and hostile texts."""

import json
import os
from pathlib import Path

import pytest

from podsrl.cli import main
from podsrl.rollout_log.run_folder import RunFolder
from support.chromium import BINARY, HOSTILE, Chromium, assert_quiet, texts
from support.inspected import app_of, write_run
from support.synthetic_rollouts import rollouts

pytestmark = [
    pytest.mark.slow,
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


def sums():
    """Two prompts of a chat; of each, half of the rollouts are right, and two of them kept."""
    columns = rollouts(groups=2, n=8, m=2)
    right = [place % 8 < 4 for place in range(16)]
    prompts = [CHAT.replace("{sum}", s) for s in ("48 + 27 + 19", "7314 + 226")]
    return columns | {
        "prompt": [prompts[place // 8] for place in range(16)],
        "completion": [
            f"The sum is {94 if ok else 104}, I am sure.<|im_end|>"
            for place, ok in enumerate(right)
        ],
        "answer": ["94"] * 8 + ["7540"] * 8,
        "reward": [float(ok) for ok in right],
        "rewards/correctness": [float(ok) for ok in right],
        "rewards/judge": [None] * 16,
        "kept": [place % 8 in (0, 5) for place in range(16)],
        "advantage": [{0: 0.7, 5: -0.7}.get(place % 8) for place in range(16)],
        "tokens": [12] * 15 + [64],
    }


def turn(role, text="", *calls, **more):
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
    games = [look, None, hostile, [*look, turn("assistant", "said 3")]]
    return columns | {"turns": [None if game is None else json.dumps(game) for game in games]}


def hostile():
    """Texts that no page should trust, each as prompt, answer, completion and function's name."""
    columns = rollouts(groups=2, n=4, m=2)
    said = [HOSTILE, ANSI, TURNED, LINE]
    return columns | {
        "prompt": [HOSTILE] * 4 + [TURNED + ANSI] * 4,
        "answer": [HOSTILE] * 8,
        "completion": said * 2,
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
    for step, columns in ((12, sums()), (13, games()), (14, hostile())):
        run.write_rollouts(step, columns)
    for step in range(1, 15):
        seconds = {f"pods/seconds_{p}": 1.0 for p in ("generate", "score", "select", "update")}
        times = {"pods/training_seconds": 4.0 * step, "reward": step / 20, "entropy": 1 / step}
        run.append_metrics({"step": step, **times, **seconds})
    with app_of(run.path) as server:
        yield server


@pytest.fixture(scope="module")
def opened(app, tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        browser.open(app.address)
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
    at = "" if group is None else f"/{group}"
    return f"/{view}/{RUN.replace(' ', '%20').replace('&', '%26').replace('<', '%3C')}/{step}{at}"


def show(browser, where):
    """Follow a link to a view, and wait until it is drawn."""
    browser.run("document.getElementById('view').replaceChildren()")
    browser.run(f"location.hash = '#{where or '/'}'; dispatchEvent(new HashChangeEvent('x'))")
    browser.run(
        "new Promise((r) => { const w = () => document.querySelector('#view > *') ? r()"
        " : setTimeout(w, 20); show().then(w); })"
    )


def hash_of(browser):
    return browser.run("decodeURIComponent(location.hash)")


def test_the_run_has_its_curves_and_begins_with_a_prompt_that_teaches(browser):
    titles = texts(browser, "figcaption")
    assert [title.split(" ")[0] for title in titles] == [
        *("Reward", "Contrast", "Prompts", "Rows", "Length", "Seconds", "Entropy")
    ]
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
    looks = browser.run("[...document.querySelectorAll('.prompt .dots i')].map(e => e.className)")
    right = ["above kept", *["above dropped"] * 3]
    wrong = ["below dropped", "below kept", *["below dropped"] * 2]
    assert looks[:8] == [*right, *wrong]
    colours = "['backgroundColor', 'borderColor'].map((c) => getComputedStyle(e)[c])"
    filled, hollow = browser.run(
        f"[0, 1].map((i) => document.querySelectorAll('.dots i')[i]).map((e) => {colours})"
    )
    assert filled[0] == filled[1] == hollow[1]  # a dropped one has the same colour, as a ring
    assert hollow[0] == "rgba(0, 0, 0, 0)"
    assert "2 prompts · 16 rollouts · 4 kept" in texts(browser, ".summary")[0]

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
    assert texts(browser, ".group > .summary")[0].startswith(
        "2 of 8 rollouts kept · mean reward 0.5"
    )

    browser.click("#differences")
    browser.wait_for("!document.querySelector('article mark')")
    browser.click("#differences")
    browser.wait_for("document.querySelector('article mark')")
    show(browser, address("group", 5, 1))
    browser.choose("kept", "0")
    browser.wait_for("document.querySelectorAll('article').length === 4")
    assert set(texts(browser, "article .mark")) == {"dropped"}
    browser.choose("kept", "")
    browser.wait_for("document.querySelectorAll('article').length === 6")
    assert texts(browser, ".elsewhere a") == ["step 1: 0.5"]
    show(browser, address("group", 12, 1))
    assert texts(browser, ".facts .warn") == ["cut off"]  # the last one has all 64 tokens


def test_turns_with_tools_are_folded_and_open(browser):
    show(browser, address("group", 13, 0))
    kinds = "article:first-child .turns > *"
    assert browser.run(f"[...document.querySelectorAll('{kinds}')].map((e) => e.className)") == [
        *("thinks", "calls", "returns")
    ]
    assert texts(browser, f"{kinds} .who") == [
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
    assert texts(browser, ".hits .text") == [f"first 1.{i}" for i in (0, 5)] * 2
    assert texts(browser, ".hits mark") == ["first 1."] * 4
    assert hash_of(browser) == "#/search?text=first+1.&kept=1"
    assert "steps 14 to 1 just now, 0 steps left" in texts(browser, ".on")[0]
    browser.click(".hits a")
    browser.wait_for("document.querySelector('.cards')")
    assert hash_of(browser) == f"#/group/{RUN}/5/1"

    show(browser, "/search?reward_min=1&function=correctness&tokens_max=12&last_step=12")
    assert texts(browser, ".results .summary")[0].startswith("14 rollouts found")  # 3, 3 and 8
    assert browser.run("document.getElementById('function').value") == "correctness"
    file = browser.run(
        "fetch(document.querySelector('.downloads a').href).then((answer) => answer.text())"
    )
    assert len(file.splitlines()) > 13
    show(browser, "/search?text=nothing+like+it")
    assert "Nothing found." in texts(browser, ".on")[0]


def test_the_keyboard_goes_through_steps_and_prompts(browser):
    show(browser, address("step", 5))
    for key, place in (
        ("ArrowRight", "step/{}/12"),
        ("ArrowLeft", "step/{}/5"),
        ("n", "group/{}/5/0"),
        ("n", "group/{}/5/1"),
        ("p", "group/{}/5/0"),
        ("ArrowLeft", "group/{}/1/0"),
        ("u", "step/{}/1"),
        ("r", ""),
        ("/", "search"),
    ):
        browser.press(key)
        wanted = f"#/{place.format(RUN)}"
        browser.wait_for(f"decodeURIComponent(location.hash) === {json.dumps(wanted)}")
        browser.wait_for("document.querySelector('#view').children.length")
        browser.run("new Promise((r) => setTimeout(r, 150))")
    browser.wait_for("document.activeElement.id === 'text'")
    browser.press("n")  # now a letter
    assert browser.run("document.getElementById('text').value") == "n"


def test_what_models_wrote_is_shown_as_text_and_never_runs(browser):
    added = "img, script, svg, main b > *, iframe"
    for where in (
        address("step", 14),
        address("group", 14, 0),
        address("group", 14, 1),
        address("group", 13, 0),
        "/search?first_step=14",
        f"/search?text={'<script>'}",
    ):
        show(browser, where)
        assert browser.run(f"document.querySelectorAll('main :is({added})').length") == 0, where
        assert browser.run("window.ran") is None
    show(browser, address("group", 14, 0))
    shown = texts(browser, "article .text")
    assert shown[0] == HOSTILE
    assert shown[1] == "␛[31mred␛[0m"  # a terminal's codes are seen
    assert shown[2] == "safe ⟨U+202E⟩evil⟨U+202C⟩"  # and so is what turns the direction
    assert len(shown[3]) == 20_000
    assert HOSTILE in texts(browser, ".parts")[0]


def test_a_megabyte_of_one_line_is_cut_and_can_be_had_whole(browser):
    show(browser, address("group", 14, 0))
    browser.wait_for("document.querySelector('article:nth-child(4) .unfold')")
    assert browser.run("document.querySelector('article:nth-child(4)').clientHeight") < 700
    browser.click("article:nth-child(4) .unfold")
    browser.wait_for(
        "document.querySelector('article:nth-child(4) .text').textContent.length > 1e5"
    )
    length = "document.querySelector('article:nth-child(4) .text').textContent.length"
    assert browser.run(length) == 1_000_000
    assert browser.run("document.documentElement.scrollWidth") <= 1200


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1280, "light")])
def test_every_view_fits_phones_and_desks_light_and_dark(browser, tmp_path, width, theme):
    """The screenshots are for looking at: PODSRL_SCREENSHOTS=FOLDER keeps them."""
    shots = Path(os.environ.get("PODSRL_SCREENSHOTS") or tmp_path)
    browser.look_as(width, theme=theme)
    for name, where in (
        ("run", ""),
        ("step", address("step", 12)),
        ("group", address("group", 12, 0)),
        ("turns", address("group", 13, 0)),
        ("hostile", address("group", 14, 0)),
        ("search", "/search?text=first"),
    ):
        show(browser, where)
        if name == "run":
            browser.wait_for("document.querySelectorAll('figure canvas').length > 5")
        browser.run("new Promise((r) => setTimeout(r, 100))")
        browser.screenshot(shots / f"{name}-{width}-{theme}.png")
        assert browser.run("document.documentElement.scrollWidth") <= width, name
        for nothing in ("null", "undefined", "NaN"):
            assert nothing not in browser.run("document.querySelector('main').innerText"), name
        small = (
            "[...document.querySelectorAll('main *')].filter((e) => e.children.length === 0 &&"
            " e.textContent.trim() && !e.closest('.u-wrap, option'))"
            ".map((e) => parseFloat(getComputedStyle(e).fontSize))"
        )
        assert min(browser.run(small)) >= 12, name
        paper = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, paper[4:-1].split(","))) < 3 * 64) == (theme == "dark")


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
        assert browser.run("window.ran") is None
        browser.run("new Promise((r) => setTimeout(r, 200))")
        refused = [event["entry"]["text"] for event in browser.of_kind("Log.entryAdded")]
        assert any("script-src" in text for text in refused)
        assert any("img-src" in text for text in refused)


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


def test_a_server_that_ends_is_missed_and_its_return_noticed(tmp_path):
    run = write_run(tmp_path / "run")
    with Chromium(tmp_path / "profile") as browser:
        with app_of(run.path) as server:
            browser.open(server.address)
            browser.wait_for("document.querySelector('.featured')")
        browser.wait_for("document.getElementById('bar').textContent.includes('does not answer')")


@pytest.fixture(scope="module")
def exported(app, tmp_path_factory):
    page = tmp_path_factory.mktemp("exported") / "page.html"
    [run] = app.dataset.runs
    assert main(["inspect", str(run.source.path), "--export", str(page)]) == 0
    return page


def test_the_exported_page_has_every_view_without_a_server(exported, tmp_path):
    with Chromium(tmp_path / "profile", width=390) as browser:
        browser.open(exported)
        browser.wait_for("document.querySelectorAll('figure canvas').length > 5")
        assert "step 14" in texts(browser, ".featured .small")[0]
        show(browser, address("step", 12))
        assert texts(browser, ".prompt .facts") == ["50 % pass · 2 of 8 kept"] * 2
        browser.click(".prompt")
        browser.wait_for("document.querySelector('.cards')")
        assert texts(browser, "article mark") == ["94", "104"]
        browser.press("ArrowRight")
        browser.wait_for("document.querySelector('.turns')")
        show(browser, address("group", 14, 0))
        assert texts(browser, "article .text")[0] == HOSTILE
        browser.click("article:nth-child(4) .unfold")
        browser.wait_for("document.querySelector('.note')")
        show(browser, "/search?text=first+1.&kept=1")
        assert texts(browser, ".hits .text") == [f"first 1.{i}" for i in (0, 5)] * 2
        show(browser, address("step", 99))
        assert texts(browser, ".note") == [f"step 99 of {RUN} is not on this page"]
        assert browser.run("document.documentElement.scrollWidth") <= 390
        assert_quiet(browser)


def test_a_step_of_a_hundred_thousand_rollouts_stays_usable(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.write_config({"arm": "pods"})
    run.write_rollouts(1, rollouts(groups=1536, n=64, m=16, text="rollout {group}.{rollout}:"))
    run.write_rollouts(2, rollouts(groups=1, n=2_000, m=16, text="rollout {rollout}:"))
    with app_of(run.path) as server, Chromium(tmp_path / "profile", width=390) as browser:
        browser.open(server.address)
        browser.wait_for("document.querySelector('.featured')")
        show(browser, "/step/run/1")
        assert browser.run("document.querySelectorAll('.prompt').length") == 200
        assert texts(browser, ".more") == ["show 1,336 more prompts"]
        assert browser.run("document.querySelectorAll('*').length") < 20_000
        show(browser, "/search?text=rollout+1535.63:")
        assert texts(browser, ".hits mark") == ["rollout 1535.63:"]
        show(browser, "/group/run/2/0")
        assert browser.run("document.querySelectorAll('article').length") == 60
        assert browser.run("document.documentElement.scrollWidth") <= 390
        assert_quiet(browser, f"http://127.0.0.1:{server.port}/")
