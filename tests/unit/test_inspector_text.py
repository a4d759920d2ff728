"""The inspector's answers for a terminal and for a program."""

import json

import pytest

import podsrl
from podsrl.cli import main
from podsrl.inspector.text import VERSION
from support.chromium import HOSTILE
from support.foreign_samples import SAMPLES, copied, write_lines
from support.inspected import write_run
from support.synthetic_rollouts import rollouts


def printed(capsys, *words):
    assert main(["inspect", *map(str, words)]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def asked(capsys, *words):
    return json.loads(printed(capsys, *words, "--json"))


def refused(capsys, *words):
    assert main(["inspect", *map(str, words)]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("name", SAMPLES)
def test_every_format_is_told_in_a_terminal_and_to_a_program(tmp_path, capsys, name):
    if name == "slime":
        pytest.importorskip("torch")
    path = SAMPLES[name](tmp_path / "sample")
    answer = asked(capsys, path)
    assert answer["version"] == VERSION
    [run] = answer["runs"]
    assert (run["damaged"], run["rollouts"] > 0) == ([], True)
    assert sum(step["rollouts"] for step in answer["steps"]) == run["rollouts"]

    text = printed(capsys, path, "--text")
    assert run["name"] in text
    assert run["reading"]["reward"] in text
    worst = asked(capsys, path, "--worst", "1")["rollouts"]
    lowest = min(one["reward"] for one in asked(capsys, path, "--worst", "99")["rollouts"])
    assert [one["reward"] for one in worst] == [lowest]
    for line in worst[0]["completion"].splitlines():
        assert line in printed(capsys, path, "--worst", "1")


def test_a_step_a_prompt_and_the_worst_rollouts_are_those_of_the_log(tmp_path, capsys):
    run = write_run(
        tmp_path / "out", steps=(1, 2, 7), groups=2, n=4, m=2, text="s {group}.{rollout}"
    )
    step = asked(capsys, run.path, "--step", "2")
    assert [(p["group"], p["rollouts"], p["kept"]) for p in step["prompts"]] == [
        (0, 4, 2),
        (1, 4, 2),
    ]
    # No more of the files is read than the question needs.
    assert (step["runs"][0]["files_read"], step["runs"][0]["files"]) == (1, 3)

    prompt = asked(capsys, run.path, "--step", "2", "--prompt", "1")["rollouts"]
    assert [one["completion"] for one in prompt] == ["s 1.0", "s 1.1", "s 1.2", "s 1.3"]
    assert [one["kept"] for one in prompt] == [True, False, False, True]

    worst = asked(capsys, run.path, "--worst", "2")["rollouts"]
    assert [(one["step"], one["group"], one["rollout"]) for one in worst] == [(7, 0, 3), (7, 1, 3)]
    assert "no rollouts of step 5" in refused(capsys, run.path, "--step", "5")
    assert "no prompt 9" in refused(capsys, run.path, "--step", "2", "--prompt", "9")


def test_the_row_of_the_dataset_is_told_with_its_prompt(tmp_path, capsys):
    run = write_run(tmp_path / "out", steps=(), groups=1)
    long = {f"column {number}": "x" * 1_000 for number in range(32)}
    rows = [{"level": 3, "solution": "42"}, long]
    columns = rollouts(groups=2, n=2, m=2, text="said {group}.{rollout}")
    data = [json.dumps(row) for row in rows for _ in range(2)]
    run.write_rollouts(1, columns | {"answer": ["42"] * 4, "data": data})

    found = asked(capsys, run.path, "--prompt", "0", "--prompt", "1")["rollouts"]
    assert [one["data"] for one in found] == [rows[0], rows[0], long, long]
    assert asked(capsys, run.path, "--worst", "1")["rollouts"][0]["data"] == rows[0]
    assert asked(capsys, run.path, "--search", "0.1")["rollouts"][0]["data"] == rows[0]

    text = printed(capsys, run.path, "--prompt", "0")
    assert "  right answer: 42\n  level: 3\n" in text
    assert "solution" not in text  # it is the right answer


def test_words_and_patterns_are_found_newest_first(tmp_path, capsys):
    run = write_run(tmp_path / "out", steps=range(1, 31), groups=1, n=4, text="x {rollout}")
    run.write_rollouts(4, rollouts(groups=1, n=4, text="a Needle{rollout}"))
    found = asked(capsys, run.path, "--search", "needle2")
    assert [(one["step"], one["rollout"]) for one in found["rollouts"]] == [(4, 2)]
    assert found["steps_searched"] == 30

    found = asked(capsys, run.path, "--pattern", r"^x [12]$", "--limit", "3")
    places = [(one["step"], one["rollout"]) for one in found["rollouts"]]
    assert places == [(30, 1), (30, 2), (29, 1)]
    assert (found["more"], found["steps_searched"]) == (True, 8)
    bounded = asked(capsys, run.path, "--pattern", "needle", "--step", "5", "9")
    assert bounded["rollouts"] == []
    assert bounded["steps_searched"] == 5  # from 5 to 9


def test_a_pattern_takes_no_longer_than_its_text_and_one_that_cannot_be_is_refused(
    tmp_path, capsys
):
    """A pattern that takes other engines ages: two to the power of the text's length."""
    run = write_run(tmp_path / "out", groups=1, n=2, text="a" * 50_000 + "!")
    found = asked(capsys, run.path, "--pattern", "(a+)+$")
    assert found["rollouts"] == []
    message = refused(capsys, run.path, "--pattern", r"(a)\1")
    assert "is none that can be searched for" in message
    assert "missing" in refused(capsys, run.path, "--pattern", "(a")


def test_what_a_model_wrote_has_no_power_over_a_terminal(tmp_path, capsys):
    text = "\x1b]0;owned\x07\x1b[2J\u202eevil " + HOSTILE
    run = write_run(tmp_path / "out", groups=1, n=2, text=text, prompt=text)
    for words in (["--worst", "1"], ["--step", "1"], ["--search", "evil"], ["--text"]):
        shown = printed(capsys, run.path, *words)
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert "␛[2J⟨U+202E⟩evil" in printed(capsys, run.path, "--worst", "1")
    assert asked(capsys, run.path, "--worst", "1")["rollouts"][0]["completion"] == text


def test_a_field_and_a_number_go_to_the_same_option(tmp_path, capsys):
    rows = [
        {"q": "1+1?", "a": str(place), "s": place, "iteration": step}
        for step in (3, 4)
        for place in range(2)
    ]
    path = write_lines(tmp_path / "mine.jsonl", rows)
    fields = ["--prompt", "q", "--completion", "a", "--reward", "s", "--step", "iteration"]
    assert [s["step"] for s in asked(capsys, path, *fields)["steps"]] == [3, 4]
    found = asked(capsys, path, *fields, "--step", "4", "--prompt", "0")["rollouts"]
    assert [(one["step"], one["completion"]) for one in found] == [(4, "1"), (4, "0")]
    assert "one field at most" in refused(capsys, path, "--step", "a", "b")
    assert "no field 'b'" in refused(
        capsys, copied("trl", tmp_path / "trl"), "--reward", "b", "--json"
    )


def test_a_check_of_ones_own_is_a_column(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "def length(rollout):\n    return len(rollout['completion'])\n\n"
        "def fails(rollout):\n    return rollout['nothing']\n"
    )
    run = write_run(tmp_path / "out", groups=1, n=4, text="{rollout}" * 3)
    check = f"{tmp_path}/mine.py:length"
    found = asked(capsys, run.path, "--worst", "2", "--check", check)["rollouts"]
    assert [one["check"] for one in found] == [3.0, 3.0]
    assert "no function 'none'" in refused(capsys, run.path, "--check", f"{tmp_path}/mine.py:none")
    found = asked(capsys, run.path, "--worst", "2", "--check", f"{tmp_path}/mine.py:fails")
    assert [one["check"] for one in found["rollouts"]] == [None, None]


def test_a_data_frame_has_the_rollouts_of_all_runs(tmp_path):
    pytest.importorskip("pandas")
    run = write_run(tmp_path / "out", steps=(1, 2))
    copied("trl", tmp_path / "trl")
    frame = podsrl.rollouts(run.path, tmp_path / "trl", steps=[2])
    assert frame.groupby("run").size().to_dict() == {"out": 8, "trl": 8}
    assert set(frame["step"]) == {2}
    assert frame["rewards/right"].notna().sum() == 8

    kept = podsrl.rollouts(run.path, kept=True)
    assert len(kept) == 8
    assert kept["kept"].all()
    own = podsrl.rollouts(tmp_path / "trl", reward="brief", keep=3, rule="max_reward")
    assert own["kept"].sum() == 4 * 3


def test_a_program_gets_the_turns_of_a_long_conversation(tmp_path, capsys):
    turn = {"role": "tool", "name": "ls", "text": "x" * 1_990}
    columns = rollouts(groups=1, n=2)
    columns["turns"] = [json.dumps([turn] * number) for number in (20, 600)]
    run = write_run(tmp_path / "out", steps=())
    run.write_rollouts(1, columns)
    whole, cut = asked(capsys, run.path, "--step", "1", "--prompt", "0")["rollouts"]
    assert (whole["turns"], whole["turns_length"]) == ([turn] * 20, None)
    assert cut["turns_length"] == len(columns["turns"][1])
    assert 450 < len(cut["turns"]) < 600
    assert cut["turns"] == [turn] * len(cut["turns"])
