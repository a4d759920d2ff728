"""`pods select`: saved rollouts, or a file of the user's own, down-sampled."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from podsrl.cli import main
from podsrl.rollout_log.run_folder import RunFolder
from support.synthetic_rollouts import rollouts


def fails(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def write_rollouts(path: Path, rewards: dict[str, list[Any]]) -> list[str]:
    lines = [
        json.dumps({"prompt": prompt, "reward": reward, "text": f"{prompt}{i}"}, indent=None)
        for prompt, values in rewards.items()
        for i, reward in enumerate(values)
    ]
    path.write_text("\n".join(lines) + "\n")
    return lines


def test_select_keeps_the_lines_that_a_rule_chooses(capsys, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    lines = write_rollouts(path, {"a": [0, 0, 1, 0.5, None], "b": [3, 1, 2], "c": [7]})
    assert main(["select", str(path), "--keep", "2"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [lines[i] for i in (0, 2, 5, 6, 8)]
    assert "kept 5 of 9 rollouts in 3 groups" in printed.err

    out = tmp_path / "kept.jsonl"
    flags = ["--keep", "2", "--rule", "max_reward", "--output", str(out)]
    assert main(["select", str(path), *flags]) == 0
    assert out.read_text().splitlines() == [lines[i] for i in (2, 3, 5, 7, 8)]

    assert "exists" in fails(["select", str(path), *flags], capsys)
    assert main(["select", str(path), *flags[:-1], str(tmp_path / "new" / "kept.jsonl")]) == 0
    assert (tmp_path / "new" / "kept.jsonl").read_bytes() == out.read_bytes()


def test_select_reads_parquet_or_a_runs_folder_and_writes_parquet(capsys, tmp_path):
    run = RunFolder(tmp_path / "run")
    for step in (1, 2):
        run.write_rollouts(step, rollouts(groups=3, n=8, m=4))

    tables = [run.rollouts(step) for step in (1, 2)]
    kept = [t.filter(t["kept"]) for t in tables if t is not None]  # those of the largest variance

    for where, expected in ((run.path, pa.concat_tables(kept)), (run.rollout_folder(2), kept[1])):
        out = tmp_path / f"{expected.num_rows}.parquet"
        assert main(["select", str(where), "--keep", "4", "--output", str(out)]) == 0
        assert pq.read_table(out).equals(expected)
    assert "kept 12 of 24 rollouts in 3 groups" in capsys.readouterr().err
    assert "--output" in fails(["select", str(run.path), "--keep", "4"], capsys)

    run.rollout_parts(1)[0].write_bytes(b"PAR1 no")
    flags = ["--keep", "4", "--output", str(tmp_path / "x.parquet")]
    assert "rank_0_of_1.parquet is damaged" in fails(["select", str(run.path), *flags], capsys)
    assert not (tmp_path / "x.parquet").exists()


def test_a_rule_across_groups_keeps_so_many_on_average(capsys, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    lines = write_rollouts(
        path, {"same": [1, 1], "equal": [0, 0], "differ": [0, 1], "more": [0, 0.5, 1, None]}
    )
    assert main(["select", str(path), "--keep", "1", "--rule", "max_contrast"]) == 0
    printed = capsys.readouterr()
    # a group without contrast teaches nothing: the ends of the two others
    assert printed.out.splitlines() == [lines[i] for i in (4, 5, 6, 8)]
    assert "kept 4 of 10 rollouts in 4 groups" in printed.err
    assert main(["select", str(path), "--keep", "20", "--rule", "max_contrast"]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_the_best_one_of_each_group_is_kept(capsys, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    lines = write_rollouts(path, {"a": [0, 1, 0], "b": [0.5, 0, None]})
    assert main(["select", str(path), "--keep", "1", "--rule", "max_reward"]) == 0
    assert capsys.readouterr().out.splitlines() == [lines[i] for i in (1, 3)]


def test_files_whose_rewards_are_whole_numbers_and_fractions_go_together(capsys, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, rewards in (("a", [0, 1]), ("b", [0.5, 1.0]), ("c", ["x", "y"])):
        table = pa.table({"prompt": [name, name], "reward": rewards})
        pq.write_table(table, folder / f"{name}.parquet")
    flags = ["select", str(folder), "--keep", "2", "--output", str(tmp_path / "out.parquet")]
    assert "c.parquet is damaged, or unlike the others" in fails(flags, capsys)
    (folder / "c.parquet").unlink()
    assert main(flags) == 0
    assert pq.read_table(tmp_path / "out.parquet")["reward"].to_pylist() == [0.0, 1.0, 0.5, 1.0]


def test_select_names_what_is_wrong_in_its_file(capsys, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    command = ["select", str(path), "--keep", "2"]
    write_rollouts(path, {"a": [0, "good"]})
    assert "rollout 2: the reward must be a number" in fails(command, capsys)
    write_rollouts(path, {"a": [0, 1]})
    assert "unknown rule" in fails([*command, "--rule", "x"], capsys)
    no_question = fails([*command, "--group", "question"], capsys)
    assert "no field 'question'; it has 'prompt', " in no_question
    no_score = fails([*command, "--reward", "score"], capsys)
    assert "no field 'score'; it has 'prompt', " in no_score
    path.write_text('{"prompt": "a", "reward": 1}\n{broken\n')
    assert "line 2" in fails(command, capsys)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--keep", "0", "--keep=0; allowed: 2 <= m <= 3"),
        ("--keep", "1", "--keep=1; allowed: 2 <= m <= 3"),  # would keep the lowest reward
        ("--keep", "some", "argument --keep: invalid int value: 'some'"),
        ("--seed", "-1", "--seed=-1; allowed: an integer >= 0"),
    ],
)
def test_select_refuses_numbers_out_of_range(option, value, said, capsys, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    write_rollouts(path, {"a": [0, 1, 2]})
    assert said in fails(["select", str(path), "--keep", "2", option, value], capsys)


def test_an_output_of_another_kind_than_what_is_read_is_refused(capsys, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    write_rollouts(path, {"a": [0, 1, 2]})
    for name in ("kept.parquet", "kept.csv", "kept"):
        command = ["select", str(path), "--keep", "2", "--output", str(tmp_path / name)]
        assert f"{name} must end in .jsonl" in fails(command, capsys)

    run = RunFolder(tmp_path / "run")
    run.write_rollouts(1, rollouts(groups=1, n=4, m=2))
    command = ["select", str(run.path), "--keep", "2", "--output", str(tmp_path / "kept.jsonl")]
    assert "kept.jsonl must end in .parquet" in fails(command, capsys)
    assert not list(tmp_path.glob("kept*"))


def test_lines_are_written_byte_for_byte(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    out = tmp_path / "kept.jsonl"
    row = {"prompt": "größe", "reward": 0.10, "text": "数 \\u00e9 \U0001f600", "cut": "\ud83d"}
    other = {"prompt": "größe", "reward": 1}
    # as json.dumps writes it, with a code for each letter beyond ASCII; and as it is read
    path.write_text(json.dumps(row) + "\n" + json.dumps(other, ensure_ascii=False) + "\n", "utf-8")
    assert main(["select", str(path), "--keep", "2", "--output", str(out)]) == 0
    assert out.read_bytes() == path.read_bytes()

    # also where the terminal's encoding has no such letters
    command = [sys.executable, "-m", "podsrl.cli", "select", str(path), "--keep", "2"]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=ascii_only, capture_output=True, check=True)
    assert done.stdout == out.read_bytes()


def test_a_rule_by_path_is_named_as_it_was_given(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/rules.py").write_text(
        "def raises(rewards_P_N, m, seed):\n    return 1 / 0\n\n\n"
        "def wrong(rewards_P_N, m, seed):\n    return [[0]]\n\n\ndef other(a):\n    pass\n"
    )
    Path("broken.py").write_text("def (:\n")
    write_rollouts(Path("rollouts.jsonl"), {"a": [0, 1, 2]})

    refusals = {
        "./sub/rules.py:raises": "./sub/rules.py, line 2: rule './sub/rules.py:raises' failed",
        "sub/../sub/rules.py:wrong": "rule 'sub/../sub/rules.py:wrong' must return integers",
        "sub/rules.py:other": "rule 'sub/rules.py:other' must take (rewards_P_N, m, seed)",
        "sub/rules.py:none": "rule 'sub/rules.py:none': sub/rules.py has no function 'none'",
        "sub/none.py:any": "no file sub/none.py",
        "./broken.py:any": "./broken.py, line 1: can't be imported: SyntaxError",
    }
    for rule, said in refusals.items():
        message = fails(["select", "rollouts.jsonl", "--keep", "2", "--rule", rule], capsys)
        assert message.startswith(f"pods select: {said}")
        assert str(tmp_path) not in message


def test_fields_can_be_named_as_for_inspect_and_steps_are_told_apart(capsys, tmp_path):
    path = tmp_path / "mine.jsonl"
    rows = [
        {"q": "same", "right": right, "form": 1 - right, "global_step": step, "text": str(place)}
        for step in (1, 2)
        for place, right in enumerate((0.0, 1.0, 0.2))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"q": "half')
    flags = ["--prompt", "q", "--reward", "right=1,form=0.5", "--rule", "max_reward"]
    assert main(["select", str(path), "--keep", "1", *flags]) == 0
    printed = capsys.readouterr()
    assert [json.loads(line)["text"] for line in printed.out.splitlines()] == ["1", "1"]
    assert "line 7 is half-written and was skipped" in printed.err
    assert "kept 2 of 6 rollouts in 2 groups" in printed.err

    asked = fails(["select", str(path), "--keep", "1"], capsys)
    assert "no field 'reward'" in asked
    assert "name it with --reward" in asked or "--reward FIELD" in asked


@pytest.mark.parametrize(
    ("rewards", "said"),
    [
        ({"a": [1, 1, 1], "b": [0, 0, 0]}, "the rewards of each group are equal"),
        ({"a": [True, True], "b": [True, True]}, "the rewards of each group are equal"),
        ({"a": [1, None, 1]}, "the rewards of each group are equal"),
        ({"a": [None, None], "b": [None]}, "no rollout has a reward"),
        ({"a": [0.5]}, "the rewards of each group are equal"),
    ],
)
def test_where_no_rewards_differ_it_is_told(rewards, said, capsys, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    write_rollouts(path, rewards)
    assert main(["select", str(path), "--keep", "2", "--output", str(tmp_path / "k.jsonl")]) == 0
    assert f"note: {said}, so the choice is arbitrary" in capsys.readouterr().err


def test_where_one_group_has_two_rewards_nothing_is_told(capsys, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    write_rollouts(path, {"a": [1, 1, 1], "b": [0, 1, 0]})
    assert main(["select", str(path), "--keep", "2", "--output", str(tmp_path / "k.jsonl")]) == 0
    assert "note:" not in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[", '[{"a": 1}]', '\n [{"a": 1},\n{"a": 2}]', "[]", "\ufeff[1]"])
def test_one_json_list_is_told_from_lines(text, capsys, tmp_path):
    path = tmp_path / "rollouts.json"
    path.write_text(text, encoding="utf-8")
    message = fails(["select", str(path), "--keep", "2"], capsys)
    assert "is one JSON list, and JSONL has a rollout on each line" in message


def test_select_groups_by_prompt_what_verl_and_kto_write(capsys, tmp_path):
    files = {
        "verl": [
            {"input": p, "output": "o", "score": i % 2, "uid": f"{p}_{i}_0"}
            for p in "ab"
            for i in range(4)
        ],
        "kto": [
            {"prompt": p, "completion": "c", "label": i % 2 == 0} for p in "ab" for i in range(4)
        ],
    }
    for name, rows in files.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        reward = ["--reward", "label"] if name == "kto" else []
        assert main(["select", str(path), "--keep", "2", *reward]) == 0
        assert "kept 4 of 8 rollouts in 2 groups" in capsys.readouterr().err


def test_select_doubts_groups_of_one_rollout_where_prompts_come_again(capsys, tmp_path):
    path = tmp_path / "split.jsonl"
    rows = [{"prompt": "a", "reward": i % 2, "uid": f"row {i}"} for i in range(4)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["select", str(path), "--keep", "2"]) == 0
    assert "each rollout is a group of its own" in capsys.readouterr().err
