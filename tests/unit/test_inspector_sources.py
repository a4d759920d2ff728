"""What `pods inspect` opens: runs, dumps of other programs, files of rollouts."""

import io
import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import podsrl
from podsrl.errors import InvalidInputError
from podsrl.inspector.answers import curves_of, group_of, state_of, step_of
from podsrl.inspector.sources import Options, base, find_sources, trained_run, trl
from support.foreign_samples import copied
from support.inspected import age, index_of, write_run

ROLLOUT = {"prompt": "a", "completion": "b", "reward": 1}


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    age(path)
    return path


def group_at(index, step=1, group=0):
    return group_of(index, index.runs[0], step, group)


def column(group, name):
    return [rollout[name] for rollout in group["rollouts"]]


def test_a_jsonl_file_is_asked_what_max_variance_would_keep(tmp_path):
    rewards = [0.0, 1.0, 0.0, 1.0, 0.5, 0.0, 0.0, 1.0]
    rows = [
        {"prompt": "2+2", "completion": f"say {place}", "reward": reward, "rewards/form": 0.5}
        for place, reward in enumerate(rewards)
    ]
    path = write_lines(tmp_path / "mine.jsonl", rows)

    with index_of(path) as index:
        group = group_at(index)
        assert group["run"] == "mine.jsonl"
        # a quarter of 8 is 2, one at each end: rollout 1 (reward 1) and rollout 0 (reward 0)
        kept = {r["rollout"]: r["reward"] for r in group["rollouts"] if r["kept"]}
        assert sorted(kept.values()) == [0.0, 1.0]

        # mean 1/2, deviation sqrt(1/2) of the two
        advantages = [r["advantage"] for r in group["rollouts"] if r["kept"]]
        assert advantages == pytest.approx([0.7071, -0.7071], abs=1e-3)
        assert column(group, "rewards") == [{"form": 0.5}] * 8

    with index_of(path, keep=4) as index:
        assert sum(column(group_at(index), "kept")) == 4


@pytest.mark.parametrize("keep", [0, 1, 2.5, True])
def test_fewer_than_two_rollouts_cannot_be_asked_for(tmp_path, keep):
    path = write_lines(tmp_path / "mine.jsonl", [ROLLOUT] * 4)
    with pytest.raises(InvalidInputError, match=f"keep must be an integer >= 2.*; got {keep}"):
        podsrl.inspect(path, keep=keep)


def test_a_parquet_file_says_itself_what_was_kept_and_steps_and_groups(tmp_path):
    table = pa.table(
        {
            "step": [3, 3, 4, 4],
            "group": [7, 7, 7, 7],
            "question": ["a", "a", "b", "b"],
            "response": ["x", "y", "z", "w"],
            "score": [1.0, None, 0.0, 1.0],
            "kept": [True, False, False, True],
        }
    )
    pq.write_table(table, tmp_path / "mine.parquet")
    age(tmp_path / "mine.parquet")
    with index_of(tmp_path / "mine.parquet") as index:
        group = group_at(index, step=3)
        assert column(group, "completion") == ["x", "y"]  # without a reward last
        assert column(group, "kept") == [True, False]
        assert group_at(index, step=4)["prompt"] == "b"


def test_conversations_are_shown_as_their_last_message_and_their_turns(tmp_path):
    call = {"function": {"name": "look", "arguments": {"at": 1}}}
    said = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "look", "content": "nothing"},
        {"role": "assistant", "content": "none"},
    ]
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Look."}]
    path = write_lines(
        tmp_path / "mine.jsonl", [{"prompt": prompt, "completion": said, "reward": True}] * 2
    )
    with index_of(path) as index:
        group = group_at(index)
        assert group["prompt"] == "system: Be brief.\n\nuser: Look."
        assert column(group, "completion") == ["none", "none"]
        assert column(group, "reward") == [1.0, 1.0]
        turns = json.loads(group["rollouts"][0]["turns"])
        assert [turn["role"] for turn in turns] == ["assistant", "tool", "assistant"]


def turns_of(group):
    return json.loads(group["rollouts"][0]["turns"])


@pytest.mark.parametrize(
    "call",
    [
        {"type": "function", "function": "bash", "arguments": {"cmd": "ls"}},  # Inspect's
        json.dumps({"function": {"name": "bash", "arguments": {"cmd": "ls"}}}),  # verifiers' 0.3
        {"name": "bash", "arguments": {"cmd": "ls"}},
    ],
)
def test_calls_of_tools_are_read_as_other_programs_write_them(tmp_path, call):
    said = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "a.txt"},
        {"role": "assistant", "content": "a.txt"},
    ]
    path = write_lines(tmp_path / "mine.jsonl", [{**ROLLOUT, "completion": said}])
    with index_of(path) as index:
        [called] = turns_of(group_at(index))[0]["calls"]
        assert called == {"name": "bash", "arguments": '{"cmd": "ls"}'}


@pytest.mark.parametrize("kind", ["reasoning", "thinking"])
def test_a_part_with_reasoning_is_thinking_and_not_what_the_model_says(tmp_path, kind):
    content = [{"type": kind, kind: "I think hard."}, {"type": "text", "text": "42"}]
    said = [{"role": "assistant", "content": content}]
    with index_of(write_lines(tmp_path / "mine.jsonl", [{**ROLLOUT, "completion": said}])) as index:
        group = group_at(index)
        assert column(group, "completion") == ["42"]
        assert turns_of(group)[0]["thinking"] == "I think hard."


def test_a_file_that_no_reader_foresaw_is_named_and_the_others_are_read(tmp_path):
    """A list of turns that are none breaks the reader of TorchTitan's files."""
    known = {"group_id": 0, "rollout_id": 0, "reward": 1.0}
    write_lines(tmp_path / "a" / "rollout_samples.jsonl", [{**known, "turns": ["odd"]}])
    write_lines(tmp_path / "b" / "rollouts.jsonl", [ROLLOUT])
    with index_of(tmp_path / "a", tmp_path / "b") as index:
        odd, other = state_of(index)["runs"]
        assert "rollout_samples.jsonl can't be read" in odd["damaged"][0]
        assert (other["damaged"], other["rollouts"]) == ([], 1)


def test_half_a_surrogate_in_turns_is_a_question_mark(tmp_path):
    rows = [{**ROLLOUT, "turns": '[{"role": "assistant", "text": "\ud83d"}]'}]
    with index_of(write_lines(tmp_path / "mine.jsonl", rows)) as index:
        assert turns_of(group_at(index)) == [{"role": "assistant", "text": "?"}]


def test_a_file_of_this_moment_is_read_and_one_of_the_future_too(tmp_path):
    rows = [{**ROLLOUT, "completion": str(place)} for place in range(4)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "now.parquet")
    assert len(podsrl.rollouts(tmp_path / "now.parquet")) == 4
    os.utime(tmp_path / "now.parquet", (4_000_000_000, 4_000_000_000))
    assert len(podsrl.rollouts(tmp_path / "now.parquet")) == 4


def test_a_file_that_is_written_in_place_is_waited_for(tmp_path, monkeypatch):
    pq.write_table(pa.Table.from_pylist([ROLLOUT]), tmp_path / "live.parquet")
    age(tmp_path / "live.parquet")
    with index_of(tmp_path / "live.parquet") as index:
        monkeypatch.setattr(base, "SETTLED_SECONDS", 1e9)
        whole = (tmp_path / "live.parquet").read_bytes()
        (tmp_path / "live.parquet").write_bytes(whole[:100])
        index._read_changes()
        [run] = state_of(index)["runs"]
        assert (run["damaged"], run["rollouts"]) == ([], 1)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            {"prompt": "a", "completion": "b"},
            "rollout 1: no field 'reward' (nor score, total_reward",
        ),
        ({"prompt": "a", "reward": 1}, "rollout 1: no field 'completion'"),
        ({"prompt": "a", "completion": "b", "reward": "1"}, "must be a number or null; got '1'"),
        ({**ROLLOUT, "step": "first"}, "the step must be a whole number from 0; got 'first'"),
        ({**ROLLOUT, "step": 1.5}, "the step must be a whole number from 0; got 1.5"),
        ({**ROLLOUT, "step": -1}, "the step must be a whole number from 0; got -1"),
        ({**ROLLOUT, "step": 2**70}, "the step must be a whole number from 0; got 118"),
        ({**ROLLOUT, "step": math.nan}, "the step must be a whole number from 0; got nan"),
    ],
)
def test_a_file_that_lacks_something_is_named_with_what_it_has(tmp_path, row, says):
    path = write_lines(tmp_path / "mine.jsonl", [row])
    with index_of(path) as index:
        [run] = state_of(index)["runs"]
        assert run["logged_steps"] == 0
        assert says in run["damaged"][0]


def test_steps_may_be_counted_from_0(tmp_path):
    path = write_lines(tmp_path / "mine.jsonl", [{**ROLLOUT, "step": step} for step in (0, 1, 1)])
    with index_of(path) as index:
        assert len(group_at(index, step=0)["rollouts"]) == 1
        assert len(group_at(index, step=1)["rollouts"]) == 2
        assert group_at(index, step=1)["earlier"] == 0


def test_fields_that_mean_something_else_in_another_program_keep_no_file_from_being_read(tmp_path):
    rows = [
        {**ROLLOUT, "turns": 3},  # their number, where podsrl has what was said
        {**ROLLOUT, "completion": ["first try", "second"]},  # a list, and no conversation
        {**ROLLOUT, "tokens": 1e30},
        {**ROLLOUT, "tokens": [1, 2]},  # the tokens themselves
    ]
    path = write_lines(tmp_path / "mine.jsonl", rows)

    with index_of(path) as index:
        rollouts = sorted(group_at(index)["rollouts"], key=lambda rollout: rollout["rollout"])
        assert [rollout["turns"] for rollout in rollouts] == [None] * 4
        assert [rollout["tokens"] for rollout in rollouts] == [None] * 4
        assert rollouts[1]["completion"] == '["first try", "second"]'


def test_advantages_that_a_file_does_not_say_are_not_made_up(tmp_path):
    rows = [{**ROLLOUT, "reward": reward, "kept": True} for reward in (0.0, 1.0, math.inf)]
    with index_of(write_lines(tmp_path / "mine.jsonl", rows)) as index:
        assert column(group_at(index), "advantage") == [None] * 3
        assert column(group_at(index), "kept") == [True] * 3
        assert curves_of(index, index.runs[0])["steps"]["rows_with_pass"] == [None]


def test_an_infinite_reward_leaves_what_would_be_kept_alone(tmp_path):
    rows = [{**ROLLOUT, "reward": reward} for reward in (0.0, 1.0, math.inf)]
    with index_of(write_lines(tmp_path / "mine.jsonl", rows), keep=2) as index:
        advantage_of = {r["rollout"]: r["advantage"] for r in group_at(index)["rollouts"]}
        # mean 1/2, deviation sqrt(1/2); the infinite one is dropped
        assert advantage_of == {
            0: pytest.approx(-0.7071, abs=1e-3),
            1: pytest.approx(0.7071, abs=1e-3),
            2: None,
        }


def verl_row(question, score, **more):
    return {
        "input": f"user\n{question}?",
        "output": f"answer {score}",
        "gts": "4",
        "score": score,
        "step": 5,
        **more,
    }


def test_verls_dump_is_read_with_and_without_podsrl(tmp_path):
    """Fields as verl 0.9 writes them; with podsrl also its key of a row, and `kept`."""
    plain = [verl_row("a", s, acc=s, note="text") for s in (0.0, 1.0, 1.0, 1.0)]
    write_lines(tmp_path / "dump" / "4.jsonl", [{**row, "step": 4} for row in plain])

    marked = [
        verl_row("same", score, uid=f"uid{prompt}_{n}_0", kept=n < 2)
        for prompt in (0, 1)
        for n, score in enumerate((1.0, 0.0, 1.0))
    ]
    write_lines(tmp_path / "dump" / "12.jsonl", [{**row, "step": 12} for row in marked])

    with index_of(tmp_path / "dump") as index:
        group = group_at(index, step=4)
        assert group["answer"] == "4"
        assert column(group, "rewards") == [{"acc": 1.0}] * 3 + [{"acc": 0.0}]
        assert sum(column(group, "kept")) == 2

        step = step_of(index, index.runs[0], 12)
        assert step["earlier"] == 4
        assert step["prompts"] == 2  # told apart by their keys, as their texts are the same
        assert [g["kept"] for g in step["groups"]] == [2, 2]


def test_slimes_files_are_read_without_running_what_they_hold(tmp_path, capsys):
    torch = pytest.importorskip("torch")

    def sample(place, **more):
        return {
            "group_index": 0,
            "index": place,
            "prompt": "2+2",
            "response": f"say {place}",
            "response_length": 3,
            "label": "4",
            "reward": float(place == 0),
            "tokens": [1, 2],
            "status": "completed",
            "metadata": {},
            **more,
        }

    folder = tmp_path / "details" / "rollout_data"  # as of --dump-details
    folder.mkdir(parents=True)
    samples = [sample(place) for place in range(8)]
    torch.save({"rollout_id": 0, "samples": samples}, folder / "rollout_0.pt")
    noted = [sample(p, metadata={"pods_advantage": 0.5 - p}) for p in range(2)]
    torch.save({"rollout_id": 1, "samples": noted}, folder / "rollout_1.pt")
    torch.save({"rollout_id": 1, "samples": noted}, folder / "eval_1.pt")

    class Runs:
        def __reduce__(self):
            return (print, ("it ran",))

    torch.save({"rollout_id": 2, "samples": [Runs()]}, folder / "rollout_2.pt")
    array = np.array([Runs()], dtype=object)
    torch.save({"rollout_id": 3, "samples": [sample(0, reward=array)]}, folder / "rollout_3.pt")
    age(*folder.iterdir())

    assert [source.path for source in find_sources([folder], Options())] == [folder]
    with index_of(tmp_path / "details") as index:
        group = group_at(index, step=1)
        assert sum(column(group, "kept")) == 2
        assert column(group, "tokens") == [3] * 8

        noted_group = group_at(index, step=2)
        assert column(noted_group, "kept") == [True, True]
        assert column(noted_group, "advantage") == [0.5, -0.5]

        [run] = state_of(index)["runs"]
        assert run["last_step"] == 2
        for number, damage in enumerate(sorted(run["damaged"]), start=2):
            assert f"rollout_{number}.pt" in damage
            assert "can be read safely" in damage
        assert len(run["damaged"]) == 2
        assert "it ran" not in capsys.readouterr().out


def test_slimes_files_may_hold_numpys_numbers(tmp_path):
    torch = pytest.importorskip("torch")
    samples = [
        {
            "group_index": np.int64(0),
            "prompt": "2+2",
            "response": "4",
            "response_length": np.int32(3),
            "reward": reward,
            "rollout_log_probs": np.array([-0.5, -1.5], dtype=np.float32),
            "rollout_routed_experts": np.zeros((2, 2), np.int16),
            "status": "completed",
            "metadata": {},
        }
        for reward in (np.float32(0.5), np.float64(1.0), {"score": np.float32(0.25)})
    ]
    (tmp_path / "dump").mkdir()
    torch.save({"rollout_id": 0, "samples": samples}, tmp_path / "dump" / "0.pt")
    age(tmp_path / "dump" / "0.pt")
    with index_of(tmp_path / "dump") as index:
        group = group_at(index)
        assert column(group, "reward") == [1.0, 0.5, 0.25]
        assert column(group, "tokens") == [3] * 3
        assert column(group, "token_logprobs") == [[-0.5, -1.5]] * 3


def test_weights_beside_a_file_of_rollouts_are_no_dump_of_slimes(tmp_path):
    torch = pytest.importorskip("torch")
    write_lines(tmp_path / "rollouts.jsonl", [ROLLOUT])
    torch.save({"weight": torch.zeros(2)}, tmp_path / "model_100.pt")
    [source] = find_sources([tmp_path], Options())
    assert source.name == "rollouts.jsonl"


def test_runs_are_named_by_their_paths_below_what_was_given(tmp_path):
    for name in ("one/grpo/seed-0", "one/pods/seed-0", "two"):
        write_run(tmp_path / name)
    found = find_sources([tmp_path / "one"], Options())
    assert [source.name for source in found] == ["grpo/seed-0", "pods/seed-0"]
    found = find_sources([tmp_path / "one", tmp_path / "two"], Options())
    assert [source.name for source in found] == ["one/grpo/seed-0", "one/pods/seed-0", "two"]
    write_run(tmp_path / "other" / "two")
    same = [tmp_path / "two", tmp_path / "other" / "two"]
    assert len({source.name for source in find_sources(same, Options())}) == 2


def test_a_run_that_links_lead_to_is_opened_once_and_by_its_own_name(tmp_path):
    write_run(tmp_path / "elsewhere" / "exp-1")
    write_run(tmp_path / "runs" / "exp-2")
    (tmp_path / "runs" / "linked").symlink_to(tmp_path / "elsewhere" / "exp-1")
    (tmp_path / "runs" / "best").symlink_to("exp-2")
    (tmp_path / "runs" / "x").mkdir()
    found = find_sources([tmp_path / "runs"], Options())
    assert [source.name for source in found] == ["exp-2", "linked"]

    again = [tmp_path / "runs" / "exp-2", tmp_path / "runs" / "x" / ".." / "exp-2"]
    assert len(find_sources(again, Options())) == 1
    [source] = find_sources([tmp_path / "runs" / "best"], Options())
    assert source.name == "best"


def test_what_cannot_be_opened_is_told_with_what_can(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InvalidInputError, match="has no rollouts that can be read"):
        find_sources([tmp_path / "notes.txt"], Options())
    with pytest.raises(InvalidInputError, match=r"no run in .*verl, slime"):
        find_sources([tmp_path], Options())


def test_a_run_that_ends_while_it_is_read_is_finished_at_the_next_look(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run", steps=(1,))
    run.append_metrics({"step": 1, "reward": 0.25})
    read = Path.open

    def open_and_end(path, *how, **named):
        if path.name != "metrics.jsonl" or how != ("rb",):
            return read(path, *how, **named)
        file = read(path, *how)
        text = io.BytesIO(file.read())
        file.close()
        run.append_metrics({"step": 2, "reward": 0.75})
        run.finish("pods", 0, 2, 1.0)
        return text

    [source] = find_sources([run.path], Options())
    with monkeypatch.context() as while_reading:
        while_reading.setattr(Path, "open", open_and_end)
        assert [row["step"] for row in source.metrics()] == [1]
    assert (source.progress().state, source.progress().step) == ("training", 1)

    assert [row["step"] for row in source.metrics()] == [2]
    assert (source.progress().state, source.progress().step) == ("finished", 2)


@pytest.mark.parametrize("what_goes", ["the step's folder", "a file of the step"])
def test_a_step_that_is_thinned_out_while_it_is_listed_is_left_out(
    tmp_path, monkeypatch, what_goes
):
    run = write_run(tmp_path / "run", steps=(1, 2, 3))
    [source] = find_sources([run.path], Options())
    listed = trained_run.entries

    def list_and_thin_out(folder):
        entries = listed(folder)
        if Path(folder).name == ("rollouts" if what_goes == "the step's folder" else "step_000002"):
            run.delete_parts(2, process=0, world=1)
            run.sweep()
        return entries

    with monkeypatch.context() as while_listing:
        while_listing.setattr(trained_run, "entries", list_and_thin_out)
        steps = [file.path.parent.name for file in source.files()]
    assert steps == ["step_000001", "step_000003"]


def test_the_newest_of_checkpoints_says_how_long_the_run_is_though_one_goes_at_this_moment(
    tmp_path, monkeypatch
):
    """With the same time, as on a file system whose clock has seconds, it is the later step."""
    copied("trl", tmp_path / "run")
    for step in (2, 3, 4):
        state = tmp_path / "run" / f"checkpoint-{step}" / "trainer_state.json"
        state.parent.mkdir()
        state.write_text(json.dumps({"max_steps": 100 * step}))
        age(state.parent)

    [source] = find_sources([tmp_path / "run"], Options())
    assert source.progress().total_steps == 400

    listed = trl.entries

    def list_and_delete(folder):
        entries = listed(folder)
        shutil.rmtree(tmp_path / "run" / "checkpoint-4", ignore_errors=True)
        return entries

    monkeypatch.setattr(trl, "entries", list_and_delete)
    assert source.progress().total_steps == 300
