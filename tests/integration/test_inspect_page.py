"""`pods inspect`: its page in real headless Chromium, opened from a file."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from podsrl.cli import main
from podsrl.rollout_log.run_folder import RunFolder
from support.chromium import BINARY, HOSTILE, ITEMS, Chromium, assert_quiet, texts
from support.synthetic_rollouts import rollouts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BINARY is None, reason="no chromium on this machine"),
]


def write_page(folder, *flags, **columns_of_step):
    """The page of a run; each keyword step_K gives the rollouts of a step."""
    for name, columns in columns_of_step.items():
        RunFolder(folder).write_rollouts(int(name.removeprefix("step_")), columns)
    assert main(["inspect", str(folder), *flags]) == 0
    return folder / "rollouts.html"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_page(
        tmp_path_factory.mktemp("page") / "<b>run & <title>",
        step_1=rollouts(groups=3, n=6, m=2, text="first {group}.{rollout}"),
        step_5=rollouts(groups=3, n=6, m=2, text="fifth {group}.{rollout}"),
        step_9=rollouts(groups=1, n=2, m=2, text=HOSTILE, prompt=HOSTILE),
        step_12=sums(),
        step_13=games(),
    )


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
        turn("assistant", HOSTILE, (HOSTILE, HOSTILE), ("look", "{}"), thinking=HOSTILE),
        turn("tool", HOSTILE, name=HOSTILE),
        turn(HOSTILE, HOSTILE),
        turn("tool", "W" * 3000, name="look"),
    ]
    games = [look, None, hostile, [*look, turn("assistant", "said 3")]]
    return columns | {"turns": [None if game is None else json.dumps(game) for game in games]}


def sums():
    """Two prompts, whose rollouts say one right and one wrong thing; two of the right are kept."""
    columns = rollouts(groups=2, n=8, m=2, prompt="Add. What is {group}?")
    right = [place % 8 < 4 for place in range(16)]
    prompts = ["Add. What is 48 + 27 + 19?"] * 8 + ["Add. What is 7314 + 226?"] * 8
    return columns | {
        "prompt": prompts,
        "completion": ["94" if ok else "104" for ok in right],
        "answer": ["94"] * 8 + ["7540"] * 8,
        "reward": [float(ok) for ok in right],
        "rewards/correctness": [float(ok) for ok in right],
        "kept": [place % 8 < 2 for place in range(16)],
        "tokens": [12] * 16,
    }


@pytest.fixture
def browser(page, tmp_path):
    with Chromium(tmp_path) as opened:
        opened.open(page)
        opened.wait_for(f"{ITEMS}.length > 0")
        yield opened


def show(browser, step, items):
    """Choose a step of the page by its number, which has as many items."""
    browser.choose("step", f"{[1, 5, 9, 12, 13].index(step)}")
    browser.wait_for(f"document.getElementById('step-name').textContent === '{step}'")
    browser.wait_for(f"{ITEMS}.length === {items}")


def test_run_step_and_prompt_are_chosen_and_all_rollouts_shown_by_reward(browser):
    assert texts(browser, "#run option") == ["<b>run & <title>"]
    assert texts(browser, "#list .text") == [f"first 0.{i}" for i in range(6)]
    assert texts(browser, "#list .facts b") == ["1", "0.8", "0.6", "0.4", "0.2", "0"]
    kept = ["kept", "dropped", "dropped", "dropped", "dropped", "kept"]
    assert texts(browser, "#list .mark") == kept
    assert browser.run("document.querySelectorAll('#strip i.kept').length") == 2
    assert "15 tokens" in texts(browser, "#list .facts")[-1]

    browser.run("document.getElementById('later').click()")
    browser.wait_for("document.querySelector('#list .text').textContent === 'fifth 0.0'")
    browser.choose("prompt", "2")
    assert texts(browser, "#list .text") == [f"fifth 2.{i}" for i in range(6)]
    assert texts(browser, "#question") == ["prompt 2"]
    assert texts(browser, "#step-name") == ["5"]
    assert_quiet(browser)


def test_a_prompt_that_came_again_shows_its_rewards_over_the_steps(browser):
    assert texts(browser, "#past span") == ["mean reward over 2 steps: 0.5 at 1, 0.5 at 5"]
    points = "document.querySelector('#past polyline').getAttribute('points').split(' ').length"
    assert browser.run(points) == 2
    assert browser.run("!document.getElementById('past').hidden")
    show(browser, 9, items=2)
    browser.wait_for("document.getElementById('past').hidden")
    browser.choose("prompt", "all")
    assert_quiet(browser)


def test_rollouts_are_filtered_by_text_and_by_being_kept_and_put_in_order(browser):
    browser.choose("prompt", "all")
    browser.choose("search", "FIRST 1.")
    assert sorted(texts(browser, "#list .text")) == [f"first 1.{i}" for i in range(6)]
    browser.choose("kept", "1")
    assert texts(browser, "#list .text") == ["first 1.0", "first 1.5"]
    browser.choose("order", "low")
    assert texts(browser, "#list .text") == ["first 1.5", "first 1.0"]
    browser.choose("order", "long")
    assert texts(browser, "#list .text") == ["first 1.5", "first 1.0"]  # 15 and 10 tokens
    assert texts(browser, "#count")[0].startswith("2 of 18 rollouts · 6 kept · mean reward 0.5")
    browser.choose("search", "nothing like it")
    assert texts(browser, "#list .text") == []
    assert_quiet(browser)


def test_what_models_wrote_is_shown_as_text_and_never_runs(browser):
    show(browser, 9, items=2)
    assert texts(browser, "#list .text") == [HOSTILE, HOSTILE]  # of different rewards
    assert texts(browser, "#question") == [HOSTILE]
    assert (
        browser.run("document.querySelectorAll('#list img, #list script, #list svg').length") == 0
    )
    assert_quiet(browser)


def test_squares_show_what_is_above_the_mean_and_filled_what_was_kept(browser):
    looks = browser.run("[...document.querySelectorAll('#strip i')].map((e) => e.className)")
    # rewards 1, 0.8, ..., 0 of a mean of 0.5; both ends are kept
    assert looks == ["above kept", *["above dropped"] * 2, *["below dropped"] * 2, "below kept"]
    colours = "['backgroundColor', 'borderColor'].map((c) => getComputedStyle(e)[c])"
    filled, hollow = browser.run(
        f"[0, 1].map((i) => document.querySelectorAll('#strip i')[i]).map((e) => {colours})"
    )
    assert filled[0] == filled[1] == hollow[1]  # a dropped one has the same colour, as a ring
    assert hollow[0] == "rgba(0, 0, 0, 0)"
    assert "reward at or above its prompt's mean" in texts(browser, ".key")[0]


def test_identical_rollouts_stand_once_with_their_number(browser):
    show(browser, 12, items=2)
    assert texts(browser, "#list .mark") == ["4 identical, 2 kept", "4 identical, dropped"]
    assert browser.run("document.querySelectorAll('#strip i').length") == 8
    assert texts(browser, "#gold b") == ["94"]
    assert browser.run("!document.getElementById('gold').hidden")
    assert "correctness 1" in texts(browser, "#list .facts")[0]
    assert texts(browser, "#prompt option")[0] == "0.5 · 48 + 27 + 19"
    assert_quiet(browser)


def test_turns_are_told_apart_and_found_by_tool_and_by_text(browser):
    hidden = "document.getElementById('tool').parentElement.hidden"
    assert browser.run(hidden)
    show(browser, 13, items=4)
    assert not browser.run(hidden)
    first = "#list > li:first-child .turns > *"
    assert browser.run(f"[...document.querySelectorAll('{first}')].map((e) => e.className)") == [
        "thinks",
        "calls",
        "returns",
    ]
    assert texts(browser, f"{first} span") == [
        "the model thinks",
        "calls look",
        "look returned, first 13 of 5,000,000 characters",
    ]
    assert texts(browser, f"{first} pre") == ["Where is it?", '{"where": "left"}', "nothing there"]
    assert "1 tool call" in texts(browser, "#list > li:first-child .facts")[0]
    options = texts(browser, "#tool option")
    assert options[:3] == ["any tool or none", "no tool", "look (3)"]
    assert len(options) == 4  # and the hostile one
    rollout_of = "#list .facts span:last-child"
    for tool, found in [("none", ["1"]), ("0", ["0", "2", "3"]), ("1", ["2"]), ("", list("0123"))]:
        browser.choose("tool", tool)
        assert texts(browser, rollout_of) == [f"rollout {number}" for number in found]
    for words, found in [("LEFT", ["0", "3"]), ("said 1", ["1"]), ("nothing there", ["0", "3"])]:
        browser.choose("search", words)
        assert texts(browser, rollout_of) == [f"rollout {number}" for number in found]
    browser.choose("search", "")
    browser.choose("tool", "none")
    browser.choose("step", "0")  # where no tool is called, nothing is left out
    browser.wait_for(f"{ITEMS}.length === 6")
    assert_quiet(browser)


def test_what_tools_are_called_with_and_return_is_shown_as_text_and_never_runs(browser):
    show(browser, 13, items=4)
    browser.choose("tool", "1")
    shown = texts(browser, "#list .turns pre")
    assert shown == [HOSTILE, HOSTILE, HOSTILE, "{}", HOSTILE, HOSTILE, "W" * 3000]
    assert texts(browser, "#list .turns span")[2:6] == [
        f"calls {HOSTILE}",
        "calls look",
        f"{HOSTILE} returned",
        HOSTILE,
    ]
    added = "img, script, svg:not(#past > svg), a, b > *"
    assert browser.run(f"document.querySelectorAll('#rollouts :is({added})').length") == 0
    assert_quiet(browser)


@pytest.mark.parametrize("width", [390, 1280])
def test_turns_fit_phones_and_desks(page, tmp_path, width):
    shots = Path(os.environ.get("PODSRL_SCREENSHOTS") or tmp_path)
    with Chromium(tmp_path / "profile", width=width, height=1100) as browser:
        browser.open(page)
        browser.wait_for(f"{ITEMS}.length > 0")
        show(browser, 13, items=4)
        browser.run("document.getElementById('rollouts').scrollIntoView({behavior: 'instant'})")
        browser.screenshot(shots / f"turns-{width}.png")
        assert browser.run("document.documentElement.scrollWidth") <= width
        narrow = "[...document.querySelectorAll('.turns pre')].map((e) => e.clientWidth)"
        assert min(browser.run(narrow)) > min(0.75 * width, 600)  # a long name takes no room
        long = "#list > li:nth-child(3)"  # is folded, and unfolds
        heights = f"document.querySelector('{long} .turns').clientHeight"
        before = browser.run(heights)
        browser.run(f"document.querySelector('{long} .unfold').click()")
        assert browser.run(heights) > 1.2 * before
        assert_quiet(browser)


def test_names_of_runs_are_text_wherever_they_stand(browser):
    assert texts(browser, "title") == ["<b>run & <title>"]
    assert texts(browser, "h1") == ["<b>run & <title>"]
    assert browser.run("document.querySelectorAll('header b').length") == 0


def test_a_script_that_is_not_ours_would_be_refused(browser):
    """So the content security policy is in force, and the test above would notice."""
    browser.run(
        "(() => { const s = document.createElement('script');"
        " s.textContent = 'window.ran = 5'; document.body.append(s);"
        " document.body.insertAdjacentHTML('beforeend', '<img src=\"http://127.0.0.1:9/x\">'); })()"
    )
    assert browser.run("window.ran") is None
    refused = [event["entry"]["text"] for event in browser.of_kind("Log.entryAdded")]
    assert any("script-src" in text for text in refused)
    assert any("img-src" in text for text in refused)


def solutions(count):
    """Texts as long as solutions of GSM8K, about 350 characters, that compress as text does."""
    random = np.random.default_rng(0)
    letters = random.choice(list("etaoinshrdlucmfw"), size=(3000, 6))
    words = ["".join(row[: 2 + number % 5]) for number, row in enumerate(letters)]
    lines = [" ".join(row) for row in random.choice(words, size=(8000, 14))]
    return [" = ".join(chosen) for chosen in random.choice(lines, size=(count, 5))]


def test_a_hundred_thousand_rollouts_stay_usable(tmp_path):
    """98,304 rollouts in one step, the hardest case, and 40 in each of 43 others."""
    text = "rollout {group}.{rollout}: "
    steps = {f"step_{i}": rollouts(groups=5, n=8, m=2, text=text) for i in range(2, 45)}
    steps["step_1"] = large = rollouts(groups=1536, n=64, m=16, text=text)
    large["completion"] = [
        number + solution
        for number, solution in zip(large["completion"], solutions(1536 * 64), strict=True)
    ]
    page = write_page(tmp_path / "run", "--rollouts", "200000", **steps)
    assert page.stat().st_size < 25e6  # for 35 MB of text
    with Chromium(tmp_path / "profile", width=360, height=800) as browser:
        browser.open(page)
        browser.wait_for(f"{ITEMS}.length === 40")  # of 64: the rest is drawn when scrolled to
        browser.choose("prompt", "all")
        browser.wait_for("document.getElementById('count').textContent.startsWith('98,304')")
        assert browser.run(f"{ITEMS}.length") < 200
        browser.choose("search", "rollout 1535.63:")
        assert browser.run(f"{ITEMS}.length") == 1
        browser.choose("search", "")
        # items get their height when they come into view, so one jump doesn't get to the end
        browser.wait_for(f"document.getElementById('more').scrollIntoView(), {ITEMS}.length >= 80")
        assert browser.run("document.querySelectorAll('*').length") < 20_000
        assert browser.run("document.documentElement.scrollWidth") <= 360
        browser.choose("step", "43")
        browser.wait_for("document.getElementById('count').textContent.startsWith('40 ')")
        assert_quiet(browser)


def test_the_page_opens_on_a_prompt_with_kept_rollouts_and_names_missing_rewards(tmp_path):
    """Prompt 0 kept nothing, as under a rule across prompts; one function gave one rollout none."""
    columns = rollouts(groups=2, n=4, m=2)
    columns["kept"] = [False] * 4 + columns["kept"][4:]
    columns["rewards/judge"] = [None] * 8
    columns["reward"] = [0.5] * 4 + [3.0, 2.0, 1.0, 0.0]
    path = write_page(tmp_path, step_1=columns)
    with Chromium(tmp_path / "profile") as browser:
        browser.open(path)
        browser.wait_for(f"{ITEMS}.length === 4")
        assert browser.run("document.getElementById('prompt').value") == "1"
        facts = texts(browser, "#list .facts")
        assert all("judge gave none" in one for one in facts)
        browser.choose("prompt", "0")  # all equal: neither above nor below
        looks = browser.run("[...document.querySelectorAll('#strip i')].map((e) => e.className)")
        assert looks == ["dropped"] * 4
        assert_quiet(browser)
