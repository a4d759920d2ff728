"""`pods inspect` as a process: its address, who may read there, and the page it exports."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest

from podsrl.cli import main
from podsrl.inspector import app as inspector_app
from podsrl.rules import RULES
from support.foreign_samples import verl
from support.inspected import age, answer, app_of, ask, write_run

pytestmark = pytest.mark.slow


@contextmanager
def command(*words, environment=None, before=()):
    """The real command, and the lines that it prints."""
    process = subprocess.Popen(
        [*before, sys.executable, "-m", "podsrl.cli", "inspect", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # As from a terminal: tests that run after nohup would give it what they ignore.
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def server_at(address):
    """The server of another process, by the address that it prints."""
    found = re.search(r":(\d+)/\?token=(\S+)", address)
    return SimpleNamespace(port=int(found[1]), token=found[2])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("inspect") / "out", steps=(1, 2, 3)).path


@pytest.fixture(scope="module")
def app(run):
    with app_of(run) as server:
        yield server


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_command_prints_an_address_and_ends_when_it_is_told_to(run, tmp_path, ended_by):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with command(run, "--port", "0", environment=environment) as process:
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", address)
        hint = process.stdout.readline()
        port = re.search(r":(\d+)/", address)[1]
        assert f"ssh -L {port}:127.0.0.1:{port}" in hint
        process.send_signal(ended_by)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        assert list(tmp_path.iterdir()) == []  # neither the index nor copies are left


def test_a_command_after_nohup_outlives_its_terminal(run):
    with command(run, "--port", "0", before=["nohup"]) as process:
        server = server_at(process.stdout.readline())
        process.send_signal(signal.SIGHUP)
        assert ask(server, "state")["runs"][0]["name"] == "out"
        assert process.poll() is None


#: Runs the command, and lets another thread take its interrupt once the main thread has waited for
#: half a second, so that the wait itself is not interrupted. A signal that comes after the
#: interpreter's last look for one, and before the wait begins, leaves it in the same state.
UNNOTICED = """
import signal, sys, threading, time

def take_the_interrupt(main_thread):
    seen_waiting = 0
    while seen_waiting < 10:
        inner = sys._current_frames()[main_thread].f_code.co_name
        seen_waiting = seen_waiting + 1 if inner == "serve" else 0
        time.sleep(0.05)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    threading.Event().wait()

from podsrl.cli import main
main_thread = threading.get_ident()
threading.Thread(target=take_the_interrupt, args=[main_thread], daemon=True).start()
sys.exit(main(["inspect", sys.argv[1], "--port", "0"]))
"""


def test_an_interrupt_that_does_not_wake_the_wait_ends_it_too(run):
    words = [sys.executable, "-c", UNNOTICED, str(run)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_taken_port_is_refused_where_it_was_asked_for(run, app, capsys):
    assert main(["inspect", str(run), "--port", str(app.port)]) == 2
    assert f"can't listen at 127.0.0.1:{app.port}" in capsys.readouterr().err
    assert main(["inspect", str(run), "--host", "not.a.host.invalid"]) == 2
    assert "choose another --port or --host" in capsys.readouterr().err


def test_fewer_than_two_rollouts_to_keep_are_refused_in_one_sentence(run, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["inspect", str(run), "--keep", "1", "--export", str(page)]) == 2
    says = "--keep must be an integer >= 2, as one kept rollout has no other to compare with; got 1"
    assert says in capsys.readouterr().err
    assert not page.exists()


def test_listening_for_other_machines_comes_with_a_warning(run):
    with command(run, "--port", "0", "--host", "0.0.0.0") as process:
        assert "?token=" in process.stdout.readline()
        assert "everybody who can reach 0.0.0.0" in process.stderr.readline()


def test_without_the_token_nothing_is_told(app):
    for headers, token in (({}, ""), ({}, "?token=wrong"), ({"x-token": "wrong"}, "")):
        for path in ("/", "/api/state", "/api/download"):
            status, _, body = answer(app, path + token, headers)
            assert status == 403
            assert b"the token is missing or wrong" in body
    assert answer(app, f"/?token={app.token}", {})[0] == 200


def test_a_request_under_another_hosts_name_is_refused(app):
    """As after DNS rebinding: a page of a stranger's site, whose name now means this machine."""
    token = {"x-token": app.token}
    for host in ("evil.example", f"evil.example:{app.port}", "127.0.0.1.evil.example", ""):
        status, _, body = answer(app, "/api/state", {**token, "host": host})
        assert status == 403, host
        assert b"does not go by the name" in body
    for host in (f"localhost:{app.port}", "LOCALHOST", "127.0.0.1:9000", "[::1]:9000", "[::1]"):
        assert answer(app, "/api/state", {**token, "host": host})[0] == 200, host


RULE = """
from pathlib import Path

Path(__file__).with_name("ran").touch()

def first(rewards_P_N, m, seed):
    return [list(range(m)) for rewards_N in rewards_P_N]
"""


def test_a_request_runs_no_code_of_a_file(tmp_path):
    (tmp_path / "any.py").write_text(RULE)
    with app_of(verl(tmp_path / "dump")) as app:
        for rule in (f"{tmp_path}/any.py:first", "json:loads", "max_reward(k=1)"):
            words = urlencode({"rule": rule})
            status, _, body = answer(app, f"/api/choose?{words}", method="POST")
            assert status == 404
            assert "unknown rule" in json.loads(body)["error"]
        assert not (tmp_path / "ran").exists()
        assert ask(app, "state")["choice"]["rules"] == list(RULES)


def test_the_rule_of_the_start_can_be_chosen_again(tmp_path):
    (tmp_path / "mine.py").write_text(RULE)
    own = f"{tmp_path}/mine.py:first"
    with command(verl(tmp_path / "dump"), "--port", "0", "--rule", own) as process:
        server = server_at(process.stdout.readline())
        while ask(server, "state")["choice"] is None:
            time.sleep(0.1)
        for rule in ("max_reward", own):
            words = urlencode({"rule": rule})
            status, _, body = answer(server, f"/api/choose?{words}", method="POST")
            assert status == 200
            chosen = json.loads(body)["choice"]
            assert chosen == {"rule": rule, "keep": None, "rules": [*RULES, own]}


def test_a_host_that_was_given_with_capitals_is_ours_as_browsers_send_it(run, monkeypatch):
    listen = inspector_app._listen
    monkeypatch.setattr(inspector_app, "_listen", lambda host, port: listen("127.0.0.1", port))

    with app_of(run, host="MyMachine") as app:
        assert app.address.startswith(f"http://MyMachine:{app.port}/")
        headers = {"x-token": app.token, "host": f"mymachine:{app.port}"}
        assert answer(app, "/api/state", headers)[0] == 200


def test_a_browser_is_told_to_run_our_scripts_alone_and_in_no_frame(app, run):
    _, headers, _ = answer(app, f"/?token={app.token}", {})
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == (
        "nosniff",
        "no-referrer",
    )
    with app_of(run, in_frame=True) as framed:  # as in a notebook
        _, headers, _ = answer(framed, f"/?token={framed.token}", {})
        assert "frame-ancestors *" in headers["content-security-policy"]


def test_what_is_asked_wrongly_is_told_in_one_sentence(app):
    for path, says in (
        ("/api/step?step=99", "no rollouts of step 99 in out"),
        ("/api/step?step=x", "step must be an integer; got 'x'"),
        ("/api/curves?run=other", "no run 'other'; there are out"),
        ("/api/search?reward_min=x", "reward_min must be a number; got 'x'"),
        ("/api/search?kept=maybe", "kept must be 0 or 1; got 'maybe'"),
        ("/api/search?before=x", "before='x' is no place in these results"),
        ("/api/download?format=doc", "format must be csv or parquet; got 'doc'"),
        ("/api/download?reward_min=7", "nothing was found that could be downloaded"),
    ):
        status, _, body = answer(app, path)
        assert (status, json.loads(body)) == (404, {"error": says})
    assert answer(app, "/static/../app.py")[0] == 404
    assert answer(app, "/static/%2e%2e/app.py")[0] == 404


def test_results_are_downloaded_under_a_name(app):
    status, headers, body = answer(app, "/api/download?format=csv&kept=0&step_min=2")
    assert status == 200
    assert 'filename="rollouts.csv"' in headers["content-disposition"]
    assert len(body.splitlines()) == 1 + 2 * 4  # two dropped of each of two prompts, in two steps


def test_several_readers_are_answered_at_once(app):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as readers:
        answers = list(readers.map(lambda step: ask(app, "step", step=step), [1, 2, 3] * 8))
    assert [answer["step"] for answer in answers] == [1, 2, 3] * 8


def test_a_run_without_rollouts_is_waited_for_and_a_folder_without_runs_refused(tmp_path, capsys):
    write_run(tmp_path / "soon", steps=())
    with app_of(tmp_path / "soon") as server:
        assert ask(server, "state")["runs"][0]["logged_steps"] == 0
        assert ask(server, "featured") == {"group": None}
    assert main(["inspect", str(tmp_path / "nothing")]) == 2
    assert "there is no" in capsys.readouterr().err
    page = tmp_path / "page.html"
    assert main(["inspect", str(tmp_path / "soon"), "--export", str(page)]) == 2
    assert "no rollouts to export" in capsys.readouterr().err
    assert not page.exists()


def packed_steps(page):
    index = re.search(r'id="packed">(.*?)</script>', page.read_text())[1]
    index = json.loads(index)
    return [entry["step"] for entry in index["steps"]], index["state"]["note"]


def test_the_exported_page_holds_what_was_named(tmp_path, capsys):
    run = write_run(tmp_path / "out", steps=range(1, 12)).path
    page = tmp_path / "page.html"
    assert main(["inspect", str(run), "--export", str(page)]) == 0
    assert capsys.readouterr().out == f"wrote {page} (open it in a browser)\n"
    assert packed_steps(page) == (list(range(1, 12)), "")

    words = ["--step", "3", "7", "--prompt", "1"]
    assert main(["inspect", str(run), "--export", str(page), *words]) == 0
    steps, note = packed_steps(page)
    assert steps == [3, 7]
    assert note.startswith("This page holds 8 of 88 rollouts, in 2 of 11 logged steps: the steps")
    assert main(["inspect", str(run), "--export", str(page), "--step", "99"]) == 2
    assert main(["inspect", str(run), "--export", str(page), "--json"]) == 2
    assert "--export writes a page" in capsys.readouterr().err


def test_a_path_after_the_steps_is_said_to_stand_first(run, capsys):
    assert main(["inspect", "--step", "1", str(run)]) == 2
    assert "PATH is missing. Give it first" in capsys.readouterr().err


def test_the_exported_page_stays_below_its_bound(tmp_path):
    """Random text, which does not compress below what base64 adds."""
    import secrets

    from podsrl.inspector.export import export_page
    from support.inspected import index_of
    from support.synthetic_rollouts import rollouts

    run = write_run(tmp_path / "out", steps=())
    for step in range(1, 9):
        columns = rollouts(groups=4, n=8, m=2)
        columns["completion"] = [secrets.token_hex(4_000) for _ in columns["completion"]]
        run.write_rollouts(step, columns)

    with index_of(run.path) as index:
        page = export_page(index, largest=1_000_000)
        assert 500_000 < len(page) < 1_000_000

        path = tmp_path / "page.html"
        path.write_text(page)
        steps, note = packed_steps(path)
        assert {1, 8} <= set(steps) < set(range(1, 9))
        assert "evenly spaced steps" in note


def test_an_export_says_how_far_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("podsrl.cli.inspect._TELL_SECONDS", 0.0)
    for seed in range(3):
        write_run(tmp_path / "runs" / f"seed-{seed}", steps=range(1, 5))
    page = tmp_path / "page.html"
    assert main(["inspect", str(tmp_path / "runs"), "--export", str(page)]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[:3] == ["read 4 of 12 files", "read 8 of 12 files", "read 12 of 12 files"]
    assert told[3].startswith("packed 1 steps, room for ")
    assert told[-1].startswith("packed 12 steps")


def test_a_file_that_cannot_be_read_is_told_beside_the_address(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"my_question": "a", "my_score": 1}\n')
    age(path)
    with command(path, "--port", "0") as process:
        assert "warning: " in (line := process.stderr.readline())
        assert "--prompt my_question" in line
        assert "?token=" in process.stdout.readline()


def test_a_run_whose_newest_file_is_damaged_is_told_beside_the_address(tmp_path):
    run = write_run(tmp_path / "run", steps=(1, 2))
    [part] = run.rollout_parts(2)
    part.write_bytes(b"junk" * 100)
    with command(run.path, "--port", "0") as process:
        assert f"warning: {part} is damaged" in process.stderr.readline()
        assert "?token=" in process.stdout.readline()


def test_an_empty_folder_waits_for_a_run(tmp_path):
    (tmp_path / "out").mkdir()
    with command(tmp_path / "out", "--port", "0") as process:
        assert "?token=" in process.stdout.readline()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--step", "x"], "--step x names a field of a file. out is a run of podsrl"),
        (["--step", "-1"], "or give a number: --step 3"),
        (["--text", "--prompt", "first"], "or give a number: --prompt 3"),
        (["--reward", "score"], "--reward score names a field of a file"),
    ],
)
def test_the_name_of_a_field_is_refused_where_fields_have_fixed_names(run, capsys, words, says):
    assert main(["inspect", str(run), *words]) == 2
    assert says in capsys.readouterr().err


def test_a_field_that_no_file_has_is_refused_before_an_app_opens(tmp_path, capsys):
    path = tmp_path / "one.jsonl"
    path.write_text('{"prompt": "a", "completion": "b", "reward": 1}\n')
    assert main(["inspect", str(path), "--step", "x"]) == 2
    assert (
        f"{path}: no field 'x'; it has 'prompt', 'completion', 'reward'" in capsys.readouterr().err
    )


def test_what_is_not_installed_is_named_with_the_command(run):
    code = (
        "import sys; sys.modules['duckdb'] = None; from podsrl.cli import main;"
        " sys.exit(main(['inspect', sys.argv[1]]))"
    )
    done = subprocess.run([sys.executable, "-c", code, run], capture_output=True, text=True)
    assert done.returncode == 2
    assert "needs duckdb, which is not installed: pip install 'duckdb" in done.stderr


def test_select_needs_nothing_of_the_app(tmp_path):
    (tmp_path / "one.jsonl").write_text('{"prompt": "a", "reward": 1}\n')
    code = (
        "import sys; from podsrl.cli import main; main(['select', 'one.jsonl', '--keep', '2']);"
        " print(sys.modules.keys() & {'duckdb', 'starlette', 'uvicorn', 'pyarrow'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout.endswith("set()\n"), done.stderr


def test_a_notebook_shows_the_app_in_a_frame(run):
    import podsrl

    shown = podsrl.inspect(run, height=321)
    try:
        assert f'<iframe src="{shown.address}" width="100%" height="321"' in shown._repr_html_()
        assert repr(shown) == f"the rollouts of {run}: {shown.address}"
    finally:
        shown.close()
