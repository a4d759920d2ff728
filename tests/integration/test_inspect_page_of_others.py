"""The app in real Chromium, on what other programs wrote, and what people do with rollouts."""

import json
import os
import shutil
from pathlib import Path

import pytest

from podsrl.cli import main
from podsrl.inspector.notes import read_notes
from podsrl.rollout_log.run_folder import RunFolder
from support.chromium import BINARY, HOSTILE, Chromium, assert_quiet, texts
from support.foreign_samples import SAMPLES, copied, verl_rows, write_lines
from support.inspected import answer, app_of, ask, write_run
from support.synthetic_rollouts import rollouts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("unhurried"),
    pytest.mark.skipif(BINARY is None, reason="no chromium on this machine"),
]

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGA"
    "hKmMIQAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(chromium):
    chromium.look_as(1280)
    return chromium


def opened(browser, server, where=""):
    """The app at one of its views."""
    browser.open("about:blank")  # which ends what the last page asked for
    browser.run("0")
    browser.events.clear()
    browser.open(f"{server.address}#{where}")
    browser.wait_for("document.querySelector('#view > *')")


def shot(browser, name, tmp_path):
    """PODSRL_SCREENSHOTS=FOLDER keeps them."""
    folder = Path(os.environ.get("PODSRL_SCREENSHOTS") or tmp_path)
    browser.run("new Promise((r) => setTimeout(r, 150))")
    browser.screenshot(folder / f"{name}.png")
    assert browser.run("document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize("name", SAMPLES)
def test_every_format_is_shown_with_its_texts_and_how_it_was_read(browser, tmp_path, name):
    if name == "slime":
        pytest.importorskip("torch")
    with app_of(SAMPLES[name](tmp_path / "sample")) as server:
        [run] = ask(server, "state")["runs"]
        opened(browser, server, "/")
        browser.wait_for("document.querySelector('.featured')")
        notes = " ".join(texts(browser, ".about"))
        assert run["reading"]["reward"] in notes
        assert ("does not say what was kept" in notes) == bool(run["would_keep"])
        shot(browser, f"format-{name.replace(' ', '')}", tmp_path)

        browser.click(".featured a")
        browser.wait_for("document.querySelector('.cards .text')")
        assert all(texts(browser, ".cards .text"))
        marks = " ".join(texts(browser, "article .mark"))
        assert ("would be" in marks) == bool(run["would_keep"])
        shown = browser.run("document.querySelector('main').innerText")
        assert not [w for w in ("null", "undefined", "NaN") if w in shown]
        assert_quiet(browser, f"http://127.0.0.1:{server.port}/")


def test_a_file_that_cannot_be_read_is_told_at_once(browser, tmp_path, capsys):
    path = write_lines(tmp_path / "mine.jsonl", [{"my_question": "a", "my_score": 1}])
    with app_of(path) as server:
        opened(browser, server)
        browser.wait_for("document.querySelector('.empty')")
        assert "Nothing could be read" in texts(browser, ".empty")[0]
        assert "--prompt my_question" in " ".join(texts(browser, ".note"))
        assert "nothing could be read" in texts(browser, "#bar")[0]
    assert main(["inspect", str(path), "--text"]) == 2
    assert "--prompt my_question" in capsys.readouterr().err


def test_a_bar_of_the_histogram_leads_to_its_rollouts(browser, tmp_path):
    run = write_run(tmp_path / "out", steps=(1, 2), groups=2, n=5, m=2)
    with app_of(run.path) as server:
        opened(browser, server, "/")
        browser.wait_for("document.querySelector('.bar')")
        assert texts(browser, ".bar small:last-child") == ["0", "0.25", "0.5", "0.75", "1"]
        assert texts(browser, ".bar small:first-child") == ["4"] * 5

        browser.choose("histogram-from", "2")
        browser.wait_for("document.querySelector('.bar small').textContent === '2'")
        browser.choose("histogram-function", "correctness")
        browser.wait_for("document.querySelector('.bar').href.includes('function=correctness')")
        shot(browser, "histogram", tmp_path)
        browser.click(".bar:nth-child(2)")
        browser.wait_for("document.querySelectorAll('.hits > li').length === 2")
        assert texts(browser, ".hits .text") == ["0.3", "1.3"]


def test_many_values_share_twenty_bars(tmp_path):
    columns = rollouts(groups=1, n=100)
    columns["reward"] = [place / 99 for place in range(100)]
    run = write_run(tmp_path / "out", steps=())
    run.write_rollouts(1, {**columns, "reward": [*columns["reward"][:-1], None]})
    with app_of(run.path) as server:
        found = ask(server, "histogram", run="out")
        assert len(found["bins"]) == 20
        assert sum(bin_["kept"] + bin_["dropped"] for bin_ in found["bins"]) == 99
        assert found["without"] == 1
        for before, after in zip(found["bins"], found["bins"][1:], strict=False):
            assert before["high"] < after["low"]


def test_two_runs_stand_side_by_side_on_the_same_prompt(browser, tmp_path):
    write_run(tmp_path / "runs" / "a", steps=(1, 3), groups=3, text="a {group}.{rollout}")
    columns = rollouts(groups=2, text="b {group}.{rollout}")
    columns["reward"][:4] = [0.0] * 4
    other = write_run(tmp_path / "runs" / "b", steps=())
    other.write_rollouts(7, columns)
    with app_of(tmp_path / "runs") as server:
        opened(browser, server, "/compare")
        browser.wait_for("document.querySelector('.pairs > li')")
        assert "2 prompts in both" in texts(browser, ".summary")[0]
        assert texts(browser, ".pairs .facts b") == ["-0.5", "0"]  # those that differ most first
        assert texts(browser, ".pairs .text")[0] == "prompt 0"
        shot(browser, "compare", tmp_path)

        browser.click(".pairs a")
        browser.wait_for("document.querySelectorAll('.columns section').length === 2")
        headings = texts(browser, ".columns h2")
        assert headings == ["a, step 3", "b, step 7"]
        left = texts(browser, ".columns section:first-child .text")
        right = texts(browser, ".columns section:last-child .text")
        assert sorted(left) == [f"a 0.{place}" for place in range(4)]
        assert sorted(right) == [f"b 0.{place}" for place in range(4)]
        shot(browser, "pair", tmp_path)
        assert_quiet(browser, f"http://127.0.0.1:{server.port}/")


def test_a_pattern_finds_what_it_matches_and_marks_it(browser, tmp_path):
    run = write_run(tmp_path / "out", groups=1, n=4, text=r"so \boxed{{rollout}7}")
    with app_of(run.path) as server:
        opened(browser, server, "/search")
        browser.run(r"document.getElementById('pattern').value = 'boxed.[12]7'")
        browser.click(".filters .primary")
        browser.wait_for("document.querySelectorAll('.hits > li').length === 2")
        assert texts(browser, ".hits mark") == ["boxed{17", "boxed{27"]
        browser.run(r"document.getElementById('pattern').value = '(a'")
        browser.click(".filters .primary")
        browser.wait_for("document.querySelector('#view .note')")
        assert "is none that can be searched for" in texts(browser, "#view .note")[0]


def test_a_label_and_a_note_are_kept_beside_the_run_found_and_exported(browser, tmp_path):
    run = write_run(tmp_path / "out", groups=1, n=4)
    with app_of(run.path) as server:
        opened(browser, server, "/group/out/1/0")
        browser.wait_for("document.querySelector('.notes button')")
        browser.click("article:nth-child(2) .notes button")
        browser.run(
            "(() => { const f = document.querySelector('.note-form');"
            f" f.querySelector('input').value = {json.dumps('hack <b>')};"
            f" f.querySelector('textarea').value = {json.dumps(HOSTILE)};"
            " f.requestSubmit(); })()"
        )
        browser.wait_for("document.querySelector('.notes .label')")
        assert texts(browser, ".notes .label") == ["hack <b>"]
        assert texts(browser, ".notes .said") == [HOSTILE]
        shot(browser, "label", tmp_path)

        [(place, mark)] = read_notes(run.path / "podsrl-notes.jsonl").items()
        assert (place, mark.label, mark.note) == ((1, 0, 1), "hack <b>", HOSTILE)

        opened(browser, server, "/search?label=hack+%3Cb%3E")
        browser.wait_for("document.querySelectorAll('.hits > li').length === 1")
        _, _, table = answer(server, "/api/download?format=csv&label=*")
        assert b"hack <b>" in table
        assert_quiet(browser, f"http://127.0.0.1:{server.port}/")

    page = tmp_path / "page.html"
    assert main(["inspect", str(run.path), "--export", str(page)]) == 0
    browser.open("about:blank")
    browser.run("0")
    browser.events.clear()
    browser.open(f"{page.resolve().as_uri()}#/group/out/1/0")
    browser.wait_for("document.querySelector('.notes .label')")
    assert texts(browser, ".notes .label") == ["hack <b>"]
    assert texts(browser, ".notes button") == []
    assert_quiet(browser)


def test_rule_and_m_are_chosen_in_the_app(browser, tmp_path):
    with app_of(SAMPLES["verl"](tmp_path / "dump")) as server:
        opened(browser, server, "/")
        browser.wait_for("document.querySelector('.controls form.rule')")
        assert "would keep a quarter" in " ".join(texts(browser, ".about summary"))
        shot(browser, "choice", tmp_path)

        choose(browser, "rule", "max_reward")
        browser.wait_for("document.querySelector('.about').textContent.includes('max_reward')")
        choose(browser, "keep", "3")
        browser.wait_for("document.querySelector('.about').textContent.includes('would keep 3')")
        assert "3 of 4 rollouts would be kept" in texts(browser, ".featured .small")[0]

        assert_quiet(browser, f"http://127.0.0.1:{server.port}/")

        choose(browser, "keep", "1")
        browser.wait_for("document.querySelector('form.rule .note')")
        assert "must be an integer >= 2" in texts(browser, "form.rule .note")[0]

        assert answer(server, "/api/choose?rule=max_reward")[0] == 405
        assert answer(server, "/api/choose?rule=max_reward", {}, method="POST")[0] == 403
        status, _, body = answer(server, "/api/choose?rule=best", method="POST")
        assert (status, "unknown rule" in body.decode()) == (404, True)

    with app_of(SAMPLES["prime-rl"](tmp_path / "prime")) as server:  # which says what was kept
        opened(browser, server, "/")
        browser.wait_for("document.querySelector('.featured')")
        assert texts(browser, "form.rule") == []


def test_many_seeds_have_one_curve_for_each_method(browser, tmp_path):
    for arm in ("grpo", "pods"):
        for seed in range(4):
            write_run(
                tmp_path / "runs" / f"{arm}-{seed}", steps=(1, 2), config={"arm": arm, "seed": seed}
            )
    with app_of(tmp_path / "runs") as server:
        opened(browser, server, "/")
        browser.wait_for("document.querySelector('figure canvas')")
        means = ["grpo (mean of 4)", "pods (mean of 4)"]
        assert [text.strip() for text in texts(browser, ".controls .legend span")] == means
        # The steps, and two lines of each method.
        drawn = "[...drawnCharts][0]?.plot.series.length"
        assert browser.run(drawn) == 1 + 2 * 2
        rewards = browser.run("[...drawnCharts][0].plot.data[1]")
        of_runs = [
            ask(server, "curves", run=f"grpo-{seed}")["steps"]["reward"] for seed in range(4)
        ]
        assert rewards == [sum(of_step) / 4 for of_step in zip(*of_runs, strict=True)]

        choose(browser, "curves", "run")
        browser.wait_for(f"{drawn} === 1 + 2 * 8")
        assert texts(browser, ".controls .legend") == []
        assert_quiet(browser, f"http://127.0.0.1:{server.port}/")


def choose(browser, name, value):
    browser.run(
        f"(() => {{ const f = document.getElementById('{name}'); f.value = '{value}';"
        " f.dispatchEvent(new Event('change', { bubbles: true })); })()"
    )


def test_the_tokens_of_a_rollout_are_shaded_where_the_log_has_them(browser, tmp_path):
    run = RunFolder(tmp_path / "out")
    run.write_config({"arm": "pods", "seed": 0})
    columns = rollouts(groups=1, n=2, text="one two")
    of_tokens = {
        "token_logprobs": [-0.1, -3.0],
        "token_entropies": [0.5, 1.5],
        "token_ends": [3, 7],
    }
    run.write_rollouts(1, {**columns, **{name: [of] * 2 for name, of in of_tokens.items()}})
    with app_of(run.path) as server:
        opened(browser, server, "/group/out/1/0")
        browser.wait_for("document.querySelector('.tokens summary')")
        assert texts(browser, ".tokens summary")[0].endswith("mean entropy 1")
        browser.click(".tokens summary")
        browser.wait_for("document.querySelector('.tokens span')")
        assert texts(browser, ".tokens span") == ["one", " two"]
        title = browser.run("document.querySelectorAll('.tokens span')[1].title")
        assert title == "token 1: probability 4.98 %, entropy 1.5"  # e to the -3
        shot(browser, "tokens", tmp_path)
        assert_quiet(browser, f"http://127.0.0.1:{server.port}/")


def test_tokens_and_texts_are_counted_in_characters_as_the_log_counts_them(browser, tmp_path):
    """An emoji is one character of the log, and two units of a string in a browser."""
    run = RunFolder(tmp_path / "out")
    run.write_config({"arm": "pods", "seed": 0})
    pieces = ["🎉", " so", " \N{MATHEMATICAL ITALIC SMALL X}", " =", " 2"]
    ends = [len("".join(pieces[: place + 1])) for place in range(len(pieces))]
    columns = rollouts(groups=1, n=2, text="".join(pieces))
    columns |= {"token_ends": [ends] * 2, "token_logprobs": [[-0.1] * len(pieces)] * 2}
    columns["completion"][1] = "🎉" * 20_001
    run.write_rollouts(1, columns)
    with app_of(run.path) as server:
        opened(browser, server, "/group/out/1/0")
        browser.click(".tokens summary")
        browser.wait_for("document.querySelector('.tokens span')")
        assert texts(browser, ".tokens span") == pieces

        browser.click("article:nth-child(2) .unfold")  # as the page has all but one character
        length = "[...document.querySelectorAll('article .text')[2].textContent].length"
        browser.wait_for(f"{length} === 20_001")


def test_marks_at_the_end_of_a_completion_are_left_out_however_long_it_is(browser, tmp_path):
    run = write_run(tmp_path / "out")
    with app_of(run.path) as server:
        opened(browser, server)
        for text, shown in (
            ("It is 4.<|im_end|>\n", "It is 4."),
            ("It is 4. <|eot_id|> </s>\n[/INST]  ", "It is 4."),
            ("It is <b>4\n", "It is <b>4\n"),
            ("<|im_end|><|im_end|>", ""),
            ("", ""),
        ):
            assert browser.run(f"withoutEnd({json.dumps(text)})") == shown

        # Looking at each line's end anew from every line would take hours.
        long = "'x' + '\\n'.repeat(2e6) + 'end'"
        ended = browser.send(
            "Runtime.evaluate", expression=f"withoutEnd({long}) === {long}", timeout=60_000
        )
        assert ended["result"].get("value") is True


def test_a_card_leads_to_the_rollout_of_its_own_column(browser, tmp_path):
    for name in "ab":
        write_run(tmp_path / "runs" / name, groups=1, n=4, text=name + " {rollout}")
    with app_of(tmp_path / "runs") as server:
        opened(browser, server, "/pair/a/1/0/b/1/0")
        for column, other in (("first", "last"), ("last", "first")):
            browser.click(f".columns section:{column}-child .compared a")
            browser.wait_for(f"document.querySelector('section:{column}-child .found')")
            assert texts(browser, f"section:{other}-child .found") == []
            browser.run("document.querySelectorAll('.found').forEach((e) => e.className = '')")


def test_a_long_conversation_is_shown_with_as_many_turns_as_a_page_takes(browser, tmp_path):
    call = {"role": "assistant", "text": "step", "calls": [{"name": "ls", "arguments": "{}"}]}
    result = {"role": "tool", "name": "ls", "text": "x" * 1_990}
    last = {"role": "assistant", "text": "done"}
    columns = rollouts(groups=1, n=3, text="done")
    conversations = [
        [*[call, result] * 11, last],
        [*[call, result] * 600, last],
        [{"role": "assistant", "text": "y" * 1_100_000}, last],
    ]
    columns["turns"] = [json.dumps(turns) for turns in conversations]
    run = write_run(tmp_path / "out", steps=())
    run.write_rollouts(1, columns)
    with app_of(run.path) as server:
        opened(browser, server, "/group/out/1/0")
        shown = [f"article:nth-child({place}) .turns > .says" for place in (1, 2, 3)]
        assert len(texts(browser, shown[0])) == 11 + 1
        assert 450 < len(texts(browser, shown[1])) < 600
        assert texts(browser, shown[2]) == []

        [some, none] = texts(browser, "article > .note")
        turns = browser.run("document.querySelectorAll('article:nth-child(2) .turns > *').length")
        length = f"{len(columns['turns'][1]):,}"
        assert f"has {length} characters: the page holds the first" in some
        assert turns > 900
        assert "none of its turns" in none
        last_messages = texts(browser, "article > div > .folded > .text")
        assert last_messages == ["done", "done"]  # of those that were cut


def test_new_data_leaves_what_a_reader_is_at(browser, tmp_path):
    folder = SAMPLES["verl"](tmp_path / "dump")
    with app_of(folder) as server:
        opened(browser, server, "/")
        browser.click(".about summary")
        browser.run("(window.typed = document.getElementById('keep')).focus()")
        browser.press("3")
        for step in (3, 4):  # what the third changes is drawn before the fourth is asked for
            write_lines(folder / f"{step}.jsonl", verl_rows(step))
            browser.wait_for(f"document.getElementById('bar').textContent.includes('step {step} ')")
        assert browser.run(
            "typed.isConnected && document.activeElement === typed && typed.value === '3'"
        )
        assert "of step 2 of" in texts(browser, ".featured .small")[0]
        assert browser.run("document.querySelector('.about').open")

        browser.run("typed.value = ''; typed.blur()")
        browser.wait_for(
            "document.querySelector('.featured .small').textContent.includes('step 4')"
        )
        assert not browser.run("typed.isConnected")
        assert browser.run("document.querySelector('.about').open")


def test_the_bar_says_that_a_run_has_finished_though_nothing_else_is_new(browser, tmp_path):
    run = write_run(tmp_path / "out", config={"max_steps": 1})
    run.append_metrics({"step": 1, "reward": 0.5, "pods/training_seconds": 1.0})
    with app_of(run.path) as server:
        opened(browser, server, "/")
        assert "finished" not in texts(browser, "#bar")[0]
        run.finish("pods", 0, 1, 1.0)
        browser.wait_for("document.getElementById('bar').textContent.includes('finished')")
        assert_quiet(browser, f"http://127.0.0.1:{server.port}/")


def test_a_newest_step_that_is_thinned_out_leads_to_the_next_one(browser, tmp_path):
    run = write_run(tmp_path / "out", steps=(1, 2))
    with app_of(run.path) as server:
        opened(browser, server, "/step/out/2")
        shutil.rmtree(run.rollout_folder(2))
        run.write_rollouts(5, rollouts())
        browser.wait_for("document.getElementById('later').getAttribute('href') === '#/step/out/5'")
        assert texts(browser, "#bar .warn") == []


def test_a_note_needs_the_token_and_a_request_of_its_own_kind(tmp_path):
    run = write_run(tmp_path / "out", groups=1, n=4)
    words = "run=out&step=1&group=0&rollout=0&label=x"
    with app_of(run.path) as server:
        assert answer(server, f"/api/mark?{words}")[0] == 405  # a link or an image asks so
        assert answer(server, f"/api/mark?{words}", {}, method="POST")[0] == 403
        assert not (run.path / "podsrl-notes.jsonl").exists()
        status, _, body = answer(server, f"/api/mark?{words}9&rollout=77", method="POST")
        assert (status, "no rollout 77" in body.decode()) == (404, True)
        assert answer(server, f"/api/mark?{words}", method="POST")[0] == 200
        run.path.joinpath("podsrl-notes.jsonl").chmod(0o644)
        assert ask(server, "group", run="out", step=1, group=0)["rollouts"][0]["label"] == "x"
        status, _, body = answer(server, f"/api/mark?{words}{'y' * 90}", method="POST")
        assert (status, "at most 60 characters" in body.decode()) == (404, True)


def test_images_are_shown_and_nothing_that_only_looks_like_one(browser, tmp_path):
    content = [
        {"type": "image_url", "image_url": {"url": PIXEL}},
        {"type": "text", "text": HOSTILE},
    ]
    rows = [
        {
            "prompt": [{"role": "user", "content": content}],
            "completion": f"say {place}",
            "reward": place,
            "images": ["javascript:window.ran=9", "http://127.0.0.1:9/x.png", HOSTILE],
        }
        for place in range(2)
    ]
    with app_of(write_lines(tmp_path / "mine.jsonl", rows)) as server:
        opened(browser, server, "/group/mine.jsonl/1/0")
        browser.wait_for("document.querySelectorAll('.images img').length === 2")
        sources = browser.run("[...document.querySelectorAll('img')].map((e) => e.src)")
        assert sources == [PIXEL] * 2
        browser.wait_for("document.querySelector('.images img').naturalWidth === 1")
        shot(browser, "images", tmp_path)
        assert_quiet(browser, f"http://127.0.0.1:{server.port}/")


def test_log_probabilities_shade_the_tokens_that_the_log_has(browser, tmp_path):
    columns = rollouts(groups=1, n=2, text="It is <b>4.")
    columns |= {
        "token_ends": [[2, 5, 8, 10], [2, 5, 8, 10]],
        "token_logprobs": [[-0.1, -0.1, -4.0, -0.1]] * 2,
        "token_entropies": [[0.5, 0.25, 1.5, 0.5]] * 2,
    }
    run = write_run(tmp_path / "out", steps=())
    run.write_rollouts(1, columns)
    with app_of(run.path) as server:
        opened(browser, server, "/group/out/1/0")
        browser.wait_for("document.querySelector('.tokens')")
        assert "4 tokens: perplexity 2.93" in texts(browser, ".tokens summary")[0]  # e ^ (4.3 / 4)
        browser.click(".tokens summary")
        browser.wait_for("document.querySelector('.tokens span')")
        assert texts(browser, ".tokens span")[:4] == ["It", " is", " <b", ">4"]
        title = browser.run("document.querySelectorAll('.tokens span')[2].title")
        assert title == "token 2: probability 1.83 %, entropy 1.5"
        shot(browser, "tokens", tmp_path)

    with app_of(copied("verifiers", tmp_path / "traces")) as server:  # without the tokens' places
        opened(browser, server, "/group/traces/1/0")
        browser.wait_for("document.querySelector('.tokens')")
        browser.click(".tokens summary")
        browser.wait_for("document.querySelectorAll('.tokens .strip span').length === 3")


def test_a_check_of_ones_own_is_shown_with_its_progress_and_filtered_by(browser, tmp_path):
    check = tmp_path / "mine.py"
    check.write_text(
        "def last_digit(rollout):\n"
        "    if rollout['rollout'] == 3:\n        raise KeyError('three')\n"
        "    return int(rollout['completion'][-1])\n"
    )
    run = write_run(tmp_path / "out", steps=(1, 2), groups=1, n=4)
    with app_of(run.path, check=f"{check}:last_digit") as server:
        opened(browser, server, "/group/out/2/0")
        browser.wait_for("document.querySelector('.check-value')")
        assert texts(browser, ".check-value") == ["check 0", "check 1", "check 2"]
        opened(browser, server, "/")
        browser.wait_for("document.querySelector('.note')")
        said = " ".join(texts(browser, ".note"))
        assert "8 of 8 rollouts; it failed for 2" in said
        assert "line 3" in said
        assert "KeyError" in said
        opened(browser, server, "/search?check_min=2")
        browser.wait_for("document.querySelectorAll('.hits > li').length === 2")
        assert texts(browser, ".hits .text") == ["0.2", "0.2"]


def test_seeds_of_a_method_share_a_colour_and_methods_do_not(browser, tmp_path):
    for method in ("grpo", "pods", *"cdefgh"):
        for seed in (0, 1):
            config = {"arm": method, "seed": seed}
            write_run(tmp_path / "runs" / f"{method}-{seed}", config=config, groups=1)
    with app_of(tmp_path / "runs") as server:
        opened(browser, server, "/")
        browser.wait_for("document.querySelectorAll('.swatch').length === 16")
        colours = browser.run("state.runs.map((run, place) => colourOf(place))")
        assert len(set(colours)) == 16
        names = [run["name"] for run in ask(server, "state")["runs"]]
        of_name = dict(zip(names, colours, strict=True))
        for method in ("grpo", "pods", *"cdefgh"):
            assert of_name[f"{method}-0"] in of_name[f"{method}-1"]  # a shade of the same
        shot(browser, "runs", tmp_path)


def test_eight_notes_of_one_kind_are_one(browser, tmp_path):
    for number in range(8):
        run = write_run(tmp_path / "damaged" / f"run-{number}", steps=(1, 2))
        [part] = run.rollout_parts(2)
        part.write_bytes(b"PAR1 no")
        copied("trl", tmp_path / "runs" / f"run-{number}")
    with app_of(tmp_path / "damaged") as server:
        opened(browser, server, "/")
        browser.wait_for("document.querySelector('.bar')")
        [damage] = texts(browser, "#view > .run > .note summary")
        assert damage.endswith("and 7 more like it")

    with app_of(tmp_path / "runs") as server:
        opened(browser, server, "/")
        browser.wait_for("document.querySelector('.bar')")
        assert len(texts(browser, ".about")) == 1
        assert texts(browser, ".note") == []


def test_the_settings_of_a_run_can_be_read(browser, tmp_path):
    config = {"learning_rate": 1e-5, "hub_token": "secret", "output_dir": "/home/me/out"}
    run = write_run(tmp_path / "out", config=config)
    with app_of(run.path) as server:
        opened(browser, server, "/")
        browser.wait_for("document.querySelector('.settings')")
        browser.click(".settings summary")
        browser.wait_for("document.querySelector('.settings dl')")
        names = texts(browser, ".settings dt")
        assert "learning_rate" in names
        assert "output_dir" in names
        assert "hub_token" not in names

    page = tmp_path / "page.html"  # which may be sent to others
    assert main(["inspect", str(run.path), "--export", str(page)]) == 0
    text = page.read_text()
    assert "learning_rate" in text
    assert "secret" not in text
    assert "/home/me" not in text
    assert str(tmp_path) not in text


def test_the_row_of_the_dataset_stands_under_its_prompt(browser, tmp_path):
    run = write_run(tmp_path / "out", steps=())
    columns = rollouts(groups=2, n=4, m=2)
    row = {"level": 3, "source": "olympiad", "solution": "42", "is_hard": True}
    run.write_rollouts(
        1, columns | {"answer": ["42"] * 8, "data": [json.dumps(row)] * 4 + [None] * 4}
    )
    page = tmp_path / "page.html"
    assert main(["inspect", str(run.path), "--export", str(page)]) == 0
    with app_of(run.path) as server:
        for where in (server.address, page):
            browser.open(where)
            browser.wait_for("document.querySelector('#view > *')")
            browser.run("location.hash = '#/group/out/1/0'")
            browser.wait_for("document.querySelector('.of-row')")
            # The right answer stands above it already.
            assert texts(browser, ".of-row dt") == ["level", "source", "is_hard"]
            assert texts(browser, ".of-row dd") == ["3", "olympiad", "true"]

            browser.run("location.hash = '#/group/out/1/1'")
            browser.wait_for("document.querySelector('#question').textContent === 'prompt 1'")
            assert texts(browser, ".of-row dt") == []


def test_a_prompt_that_nothing_scored_has_no_pass_rate(browser, tmp_path):
    run = write_run(tmp_path / "out", steps=())
    columns = rollouts(groups=2, n=2, m=2)
    run.write_rollouts(1, columns | {"reward": [None, None, 1.0, 0.0]})
    with app_of(run.path) as server:
        browser.open(server.address)
        browser.wait_for("document.querySelector('#view > *')")
        browser.run("location.hash = '#/step/out/1'")
        browser.wait_for("document.querySelector('.prompt .facts')")
        assert texts(browser, ".prompt .facts b") == ["no reward", "50 % pass"]


def test_the_reward_of_evaluations_is_a_curve_and_an_axis_says_each_number_once(browser, tmp_path):
    run = write_run(tmp_path / "out", steps=(1, 2, 3))
    for step in (1, 2, 3):
        run.append_metrics({"step": step, "pods/training_seconds": float(step), "entropy": 4.57})
    run.append_metrics({"step": 3, "eval_reward": 0.5})
    with app_of(run.path) as server:
        opened(browser, server)
        browser.wait_for("document.querySelectorAll('figure canvas').length > 5")
        assert "of evaluations" in texts(browser, "figure .legend")[0]
        for values in ("[4.571, 4.5715, 4.572]", "[0, 0.5, 1]", "[1234567, 1234568]"):
            said = browser.run(f"ticks({values})")
            assert len(set(said)) == len(said), said
