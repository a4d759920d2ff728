"""Rollouts of every program, from its own files or by its schema: `support/foreign_samples.py`."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from podsrl.errors import InvalidInputError
from podsrl.inspector.answers import group_of, state_of, step_of
from podsrl.inspector.sources import Options, find_sources
from support.foreign_samples import SAMPLES, copied, ms_swift, verl_rows, write_lines
from support.inspected import age, index_of

ROLLOUT = {"prompt": "a", "completion": "b", "reward": 1}


def sizes(index, step):
    """How many rollouts each prompt of a step has."""
    return [group["rollouts"] for group in step_of(index, index.runs[0], step)["groups"]]


def column(index, step, name, group=0):
    rollouts = group_of(index, index.runs[0], step, group)["rollouts"]
    return [rollout[name] for rollout in sorted(rollouts, key=lambda one: one["rollout"])]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_format_is_read_without_damage_and_says_what_it_took(tmp_path, name):
    if name == "slime":
        pytest.importorskip("torch")
    path = SAMPLES[name](tmp_path / "sample")
    with index_of(path) as index:
        for run in state_of(index)["runs"]:
            assert run["damaged"] == []
            assert run["rollouts"] > 0
            assert {"prompt", "completion", "reward", "group", "step"} <= set(run["reading"])
            group = group_of(index, index.run_named(run["name"]), run["last_step"], 0)
            assert group["prompt"]
            assert all(rollout["completion"] for rollout in group["rollouts"])
            assert {rollout["reward"] for rollout in group["rollouts"]} != {None}


def test_trls_tables_have_the_sum_of_their_functions_and_trls_own_advantages(tmp_path):
    """Of the real GRPOTrainer: two steps, each of two prompts with four rollouts."""
    folder = copied("trl", tmp_path / "out")
    for path in (folder, folder / "completions"):
        with index_of(path) as index:
            [run] = state_of(index)["runs"]
            assert (run["first_step"], run["last_step"], run["rollouts"]) == (1, 2, 16)
            assert run["functions"] == ["brief", "right"]
            assert run["reading"]["reward"] == "`right` + `brief`, each with weight 1"
            assert run["would_keep"].startswith("max_variance would keep a quarter")
            assert sizes(index, 2) == [4, 4]

            # TRL's advantage of every rollout, also of those that would be dropped.
            advantages = [a for group in (0, 1) for a in column(index, 2, "advantage", group)]
            assert None not in advantages
            parts = column(index, 2, "rewards")
            rewards = [part["right"] + part["brief"] for part in parts]
            assert column(index, 2, "reward") == pytest.approx(rewards)
            assert column(index, 2, "tokens") == [None] * 4  # TRL does not log lengths

    with index_of(folder / "completions" / "completions_00002.parquet") as index:
        assert state_of(index)["runs"][0]["first_step"] == 2


def test_a_table_of_an_evaluation_is_no_step_of_training(tmp_path):
    tables = copied("trl", tmp_path / "out") / "completions"
    shutil.copy(tables / "completions_00002.parquet", tables / "completions_00002_eval.parquet")
    age(tables / "completions_00002_eval.parquet")
    with index_of(tmp_path / "out") as index:
        assert sizes(index, 2) == [4, 4]


def test_weights_of_trls_functions_can_be_said(tmp_path):
    with index_of(copied("trl", tmp_path / "out"), reward="right,brief=0.5") as index:
        parts = column(index, 2, "rewards")
        rewards = [part["right"] + 0.5 * part["brief"] for part in parts]
        assert column(index, 2, "reward") == pytest.approx(rewards)
        [run] = state_of(index)["runs"]
        assert run["reading"]["reward"] == "`right,brief=0.5` (as you said)"


def test_advantages_that_do_not_follow_the_reward_are_told(tmp_path):
    with index_of(copied("trl", tmp_path / "out")) as index:
        assert state_of(index)["runs"][0]["doubts"] == []
    with index_of(tmp_path / "out", reward="brief=-1") as index:
        [doubt] = state_of(index)["runs"][0]["doubts"]
        assert "the advantages do not follow the reward" in doubt


def test_other_weights_than_those_of_the_advantages_are_told(tmp_path):
    """With TRL's reward_weights=[1, 0.2] its table has the functions alone, without weights."""
    rows = []
    for step in (1, 2):
        parts = [(1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0)]
        totals = np.array([right + 0.2 * form for right, form in parts])
        advantages = (totals - totals.mean()) / totals.std(ddof=1)
        for (right, form), advantage in zip(parts, advantages, strict=True):
            rows.append(
                {"step": step, "prompt": "a", "completion": "b", "right": right, "form": form}
                | {"advantage": advantage}
            )
    tables = tmp_path / "out" / "completions"
    tables.mkdir(parents=True)
    for step in (1, 2):
        of_step = pa.Table.from_pylist([row for row in rows if row["step"] == step])
        pq.write_table(of_step, tables / f"completions_{step:05d}.parquet")
        age(tables / f"completions_{step:05d}.parquet")

    with index_of(tmp_path / "out") as index:
        [doubt] = state_of(index)["runs"][0]["doubts"]
        assert "of 1 of 1 prompts the advantages do not follow the reward" in doubt
    with index_of(tmp_path / "out", reward="right=1,form=0.2") as index:
        assert state_of(index)["runs"][0]["doubts"] == []


def test_a_run_of_trl_is_finished_when_its_last_step_has_a_table(tmp_path):
    folder = copied("trl", tmp_path / "out")
    for steps, state in ((3, "files"), (2, "finished")):
        (folder / "checkpoint-2").mkdir(exist_ok=True)
        (folder / "checkpoint-2" / "trainer_state.json").write_text(f'{{"max_steps": {steps}}}')
        with index_of(folder) as index:
            assert state_of(index)["runs"][0]["state"] == state


def test_what_prime_rl_trains_on_is_kept(tmp_path):
    folder = copied("prime_rl", tmp_path / "run")
    with index_of(folder) as index:
        [run] = state_of(index)["runs"]
        assert run["format"] == "prime-rl's rollouts"
        assert run["would_keep"] is None
        groups = step_of(index, index.runs[0], 2)["groups"]
        assert {group["group"]: group["kept"] for group in groups} == {0: 4, 1: 0}
        # right weighs 1 and form 0.2
        assert column(index, 1, "reward") == pytest.approx([0.2, 1.2, 0.2, 1.2])
        assert column(index, 1, "tokens") == [3] * 4
        assert column(index, 1, "token_logprobs")[0] == pytest.approx([-0.1, -1.5, -0.02])
        assert column(index, 1, "advantage") == [-0.5, 0.5, -0.5, 0.5]

        # A step that is not finished yet has nothing effective.
        (folder / "rollouts/step_2/train/effective/traces.jsonl").unlink()
        index.refresh()
        assert index.runs[0].source.files()[1].size > 0
    with index_of(folder) as index:  # a new one, since a file that was read just now rests
        groups = step_of(index, index.runs[0], 2)["groups"]
        assert [group["kept"] for group in groups] == [0, 0]


def test_a_group_of_an_evaluation_is_a_sample_over_its_epochs(tmp_path):
    for name in ("inspect .eval", "inspect .json"):
        with index_of(SAMPLES[name](tmp_path / name.replace(" ", ""))) as index:
            assert sizes(index, 1) == [4, 4]
            for number in (0, 1):
                group = group_of(index, index.runs[0], 1, number)
                for rollout in group["rollouts"]:
                    assert rollout["reward"] == float(rollout["completion"] == group["answer"])
            assert column(index, 1, "tokens") == [2] * 4


def test_a_run_of_a_trackio_project_is_a_source(tmp_path):
    path = SAMPLES["trackio"](tmp_path / "store")
    for opened in (path, path.parent):
        with index_of(opened) as index:
            [run] = state_of(index)["runs"]
            assert run["name"].endswith("run-a")
            assert sizes(index, 0) == sizes(index, 1) == [4, 4]
            assert column(index, 1, "advantage") == [-0.5, 0.5, -0.5, 0.5]
            assert run["functions"] == ["right"]


def test_ms_swifts_columns_become_rollouts(tmp_path):
    with index_of(ms_swift(tmp_path / "out")) as index:
        [run] = state_of(index)["runs"]
        assert run["functions"] == ["Accuracy", "Format"]  # and neither entropy nor advantages
        assert sizes(index, 1) == [2, 2]
        assert column(index, 2, "reward", 0) == [2.0, 1.0]
        assert column(index, 2, "reward", 1) == [
            1.0,
            0.0,
        ]  # the function that gave None is left out
        assert column(index, 2, "advantage", 0) == [0.7, -0.7]
        assert group_of(index, index.runs[0], 2, 0)["answer"] == "2"


def test_nemo_rls_files_of_training_are_steps(tmp_path):
    with index_of(SAMPLES["nemo-rl"](tmp_path / "logs")) as index:
        [run] = state_of(index)["runs"]
        assert (run["first_step"], run["last_step"], run["rollouts"]) == (1, 2, 16)
        assert column(index, 2, "completion") == [f"It is {place}." for place in range(4)]
        assert column(index, 2, "tokens") == [3] * 4
        assert column(index, 2, "token_logprobs")[0] == pytest.approx([-0.1, -2.5, -0.3])
        assert column(index, 2, "advantage") == [-0.5, 0.5, -0.5, 0.5]


def test_torchtitans_rollouts_have_the_version_of_their_policy_as_step(tmp_path):
    with index_of(SAMPLES["torchtitan"](tmp_path / "dump")) as index:
        [run] = state_of(index)["runs"]
        assert (run["first_step"], run["last_step"]) == (0, 1)
        assert run["rollouts"] == 8  # those of validations are left out
        assert sizes(index, 1) == [2, 2]


def test_rollouts_of_several_steps_are_told_apart_whatever_the_field_is_called(tmp_path):
    for place, name in enumerate(("global_step", "gen_step", "train_step")):
        rows = [{**ROLLOUT, "reward": r, name: step} for step in (5, 6) for r in (0, 1)]
        with index_of(write_lines(tmp_path / f"{place}.jsonl", rows)) as index:
            assert sizes(index, 5) == sizes(index, 6) == [2]
            assert state_of(index)["runs"][0]["reading"]["step"] == f"`{name}`"
    with index_of(SAMPLES["messages"](tmp_path)) as index:
        assert sizes(index, 3) == sizes(index, 4) == [2, 2]
        assert group_of(index, index.runs[0], 4, 1)["prompt"] == "system: Be brief.\n\nuser: 1+1?"


def test_one_file_of_verls_dump_has_the_groups_of_its_keys(tmp_path):
    rows = verl_rows(1)
    for place, row in enumerate(rows):
        row |= {"uid": f"uid of {row['gts']}_{place}_0", "kept": place % 2 == 0}
    with index_of(write_lines(tmp_path / "dump" / "1.jsonl", rows)) as index:
        assert sizes(index, 1) == [4, 4]
    with index_of(tmp_path / "dump") as index:
        assert sizes(index, 1) == [4, 4]


@pytest.mark.parametrize("reward", ["label", "answer"])
def test_what_judges_a_rollout_tells_no_groups_apart(tmp_path, reward):
    """KTO's files have a label that is true or false."""
    rows = [
        {"prompt": prompt, "completion": f"c{place}", reward: place % 2 == 0}
        for prompt in "ab"
        for place in range(4)
    ]
    with index_of(write_lines(tmp_path / "kto.jsonl", rows), reward=reward) as index:
        assert sizes(index, 1) == [4, 4]
    scored = [{**row, "label": row[reward], "reward": 1.0} for row in rows]
    if reward == "label":
        with index_of(write_lines(tmp_path / "scored.jsonl", scored)) as index:
            assert sizes(index, 1) == [4, 4]


def test_groups_of_one_rollout_are_doubted_where_prompts_come_again(tmp_path):
    rows = [{**ROLLOUT, "uid": f"row {place}"} for place in range(4)]
    with index_of(write_lines(tmp_path / "split.jsonl", rows)) as index:
        [doubt] = state_of(index)["runs"][0]["doubts"]
        assert "each rollout is a group of its own" in doubt
    for place, row in enumerate(rows):
        row["step"] = place  # a prompt once in each step is no doubt
    with index_of(write_lines(tmp_path / "steps.jsonl", rows)) as index:
        assert state_of(index)["runs"][0]["doubts"] == []


def test_a_file_of_two_runs_has_the_groups_of_each(tmp_path):
    """As a search over several runs is downloaded."""
    rows = [
        {**ROLLOUT, "prompt": f"of {run}", "run": run, "step": 1, "group": 0, "rollout": place}
        for run in "ab"
        for place in range(4)
    ]
    with index_of(write_lines(tmp_path / "found.jsonl", rows)) as index:
        assert sizes(index, 1) == [4, 4]
        assert state_of(index)["runs"][0]["reading"]["group"] == "`run` and `group`"


def test_fields_that_are_empty_give_way_to_filled_ones(tmp_path):
    def prompts(rows):
        with index_of(write_lines(tmp_path / "mine.jsonl", rows)) as index:
            assert None not in column(index, 1, "reward")
            return [group["prompt"] for group in step_of(index, index.runs[0], 1)["groups"]]

    filled = {"output": "4", "reward": None, "score": 1.0}
    empty = [{"instruction": text, "input": "", **filled} for text in "ab"]
    assert prompts(empty) == ["a", "b"]
    alpaca = [{"instruction": "Add.", "input": text, **filled} for text in ("1+1", "")]
    assert prompts(alpaca) == ["Add.\n\n1+1", "Add."]


def test_a_reward_function_that_the_first_rows_lack_is_of_the_reward(tmp_path):
    for of_row in (lambda name: {"rewards": {name: 1.0}}, lambda name: {f"rewards/{name}": 1.0}):
        rows = [
            {"prompt": name, "completion": "b", **of_row(name)}
            for name in ("math", "code")
            for _ in range(250)
        ]
        with index_of(write_lines(tmp_path / "tasks.jsonl", rows)) as index:
            assert sizes(index, 1) == [250, 250]
            assert set(column(index, 1, "reward", 1)) == {1.0}
            [part] = {tuple(parts.values()) for parts in column(index, 1, "rewards", 1)}
            assert 1.0 in part


def test_yes_and_no_may_be_1_and_0_and_a_file_says_what_was_cut_off(tmp_path):
    rows = [{**ROLLOUT, "kept": place, "cut_off": place == 1} for place in (0, 1)]
    with index_of(write_lines(tmp_path / "mine.jsonl", rows)) as index:
        assert column(index, 1, "kept") == [False, True]
        assert column(index, 1, "cut_off") == [False, True]
        assert state_of(index)["runs"][0]["would_keep"] is None


def test_a_table_of_ones_own_is_none_of_trls(tmp_path):
    rows = [
        {"step": 1, "prompt": "a", "completion": "b", "score": 1.0, "tokens": 100 + place}
        for place in range(4)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "own.parquet")
    age(tmp_path / "own.parquet")
    with index_of(tmp_path / "own.parquet") as index:
        assert column(index, 1, "reward") == [1.0] * 4
        assert column(index, 1, "tokens") == [100, 101, 102, 103]


def test_a_folder_of_inspects_logs_is_opened_whichever_their_kind(tmp_path):
    (tmp_path / "logs").mkdir()
    SAMPLES["inspect .json"](tmp_path / "a").rename(tmp_path / "logs" / "a.json")
    SAMPLES["inspect .eval"](tmp_path / "b").rename(tmp_path / "logs" / "b.eval")
    (tmp_path / "logs" / "package.json").write_text('{"name": "eval", "version": "1", "eval": 1}')
    found = find_sources([tmp_path / "logs"], Options())
    assert [source.name for source in found] == ["a.json", "b.eval"]


def test_groups_of_files_of_one_step_keep_their_numbers_when_another_file_comes(tmp_path):
    """Files are read last one first; labels and addresses are of numbers of groups."""

    def of_rank(rank):
        rows = [{**ROLLOUT, "prompt": f"of {rank}", "step": 1} for _ in range(2)]
        write_lines(tmp_path / "ranks" / f"{rank}.jsonl", rows)

    def numbers(index):
        groups = step_of(index, index.runs[0], 1)["groups"]
        return {group["prompt"]: group["group"] for group in groups}

    for rank in (0, 1):
        of_rank(rank)
    with index_of(tmp_path / "ranks") as index:
        before = numbers(index)
        assert before["of 0"] == 0
        of_rank(2)
        index.refresh()
        assert numbers(index).items() > before.items()
        after = numbers(index)
    with index_of(tmp_path / "ranks") as index:
        assert numbers(index) == after


def test_two_questions_of_one_text_are_two_groups_where_they_lie_apart(tmp_path):
    """verl's dump without podsrl has nothing but the order and the right answer."""
    rows = verl_rows(1, questions=("a", "b", "a"))
    for row in rows:
        row["gts"] = "4"
    write_lines(tmp_path / "blocks" / "1.jsonl", rows)
    with index_of(tmp_path / "blocks") as index:
        assert sizes(index, 1) == [4, 4, 4]
        assert state_of(index)["runs"][0]["doubts"] == []


def test_groups_of_other_sizes_stay_whole(tmp_path):
    rows = verl_rows(1, questions=("a", "b", "c"), n=2) + verl_rows(1, questions=("d",), n=3)
    write_lines(tmp_path / "uneven" / "1.jsonl", rows)
    with index_of(tmp_path / "uneven") as index:
        assert sorted(sizes(index, 1)) == [2, 2, 2, 3]
        assert state_of(index)["runs"][0]["doubts"] == []


def test_two_questions_of_one_text_are_two_groups_where_their_answers_differ(tmp_path):
    rows = verl_rows(1, questions=("a", "b", "c"))
    for row in rows:
        row["input"] = "same?"
    write_lines(tmp_path / "dump" / "1.jsonl", rows[::5] + rows[1::5] + rows[2::5] + rows[3::5])
    with index_of(tmp_path / "dump") as index:
        assert len(sizes(index, 1)) == 3


def test_two_questions_of_one_text_are_asked_about_where_they_are_mixed(tmp_path):
    rows = verl_rows(1, questions=("a", "b", "c", "a"))
    for row in rows:
        row["gts"] = "4"
    mixed = [rows[(5 * place) % 16] for place in range(16)]
    for row, uid in zip(mixed, "pqrs" * 4, strict=True):
        row["my_uid"] = uid
    write_lines(tmp_path / "dump" / "1.jsonl", mixed)
    with index_of(tmp_path / "dump") as index:
        assert sorted(sizes(index, 1)) == [4, 4, 8]
        [doubt] = state_of(index)["runs"][0]["doubts"]
        assert "8 rollouts have the prompt" in doubt
        assert "2 questions of one text" in doubt
        assert "--group FIELD" in doubt
    with index_of(tmp_path / "dump", group="my_uid") as index:
        assert sizes(index, 1) == [4, 4, 4, 4]
        assert state_of(index)["runs"][0]["doubts"] == []


def test_numbered_files_with_fields_of_their_own_are_asked_about(tmp_path):
    """They are none of verl's, and nothing is made up of them."""
    for step in (1, 2):
        rows = [
            {"my_question": "q", "my_answer": f"a{place}", "my_score": float(place)}
            for place in range(4)
        ]
        write_lines(tmp_path / "dump" / f"{step}.jsonl", rows)
    with index_of(tmp_path / "dump") as index:
        [run] = state_of(index)["runs"]
        assert run["rollouts"] == 0
        assert "--prompt my_question --completion my_answer --reward my_score" in run["damaged"][0]

    said = {"prompt": "my_question", "completion": "my_answer", "reward": "my_score"}
    with index_of(tmp_path / "dump", **said) as index:
        [run] = state_of(index)["runs"]
        assert sizes(index, 1) == sizes(index, 2) == [4]
        assert run["reading"]["step"] == "the number in the file's name"
        assert run["reading"]["reward"] == "`my_score` (as you said)"


@pytest.mark.parametrize("name", ["ms-swift", "messages", "verifiers", "torchtitan", "prime-rl"])
def test_the_half_written_last_line_of_a_live_file_is_waited_for(tmp_path, name):
    path = SAMPLES[name](tmp_path / "sample")
    files = [path] if path.is_file() else sorted(path.rglob("*.jsonl"))
    with index_of(path) as index:
        [whole] = state_of(index)["runs"]

    for file in files:
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(lines) + lines[-1][: len(lines[-1]) // 2])
    with index_of(path) as index:
        [live] = state_of(index)["runs"]
        assert live["damaged"] == []
        assert live["rollouts"] == whole["rollouts"]

    for file in files:  # and now the line is whole
        text = file.read_bytes()
        last = text.splitlines(keepends=True)[-2]
        file.write_bytes(text[: text.rfind(b"\n") + 1] + last)
    with index_of(path) as index:
        assert state_of(index)["runs"][0]["rollouts"] > whole["rollouts"]


def test_files_of_a_folder_do_not_run_into_each_other(tmp_path):
    """Numbered ones are steps, or say their own; others are a source each."""
    for name in ("1", "2"):
        rows = [{**ROLLOUT, "prompt": name, "reward": r, "step": 5} for r in (0, 1)]
        write_lines(tmp_path / "numbered" / f"{name}.jsonl", rows)
        write_lines(tmp_path / "named" / f"part-{name}.jsonl", rows)
    with index_of(tmp_path / "numbered") as index:
        assert sizes(index, 5) == [2, 2]
        prompts = {g["prompt"] for g in step_of(index, index.runs[0], 5)["groups"]}
        assert prompts == {"1", "2"}
    with index_of(tmp_path / "named") as index:
        assert [run["name"] for run in state_of(index)["runs"]] == ["part-1.jsonl", "part-2.jsonl"]


def test_a_line_that_is_nested_too_deep_is_damage(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "a", "completion": ' + "[" * 9_000 + "]" * 9_000 + "}\n")
    age(path)
    with index_of(path) as index:
        assert "nested too deep" in state_of(index)["runs"][0]["damaged"][0]


def test_a_damaged_line_within_a_file_is_damage(tmp_path):
    path = write_lines(tmp_path / "mine.jsonl", [ROLLOUT] * 3)
    path.write_text(path.read_text().replace("}\n", "\n", 1))
    age(path)
    with index_of(path) as index:
        assert "line 1 is damaged" in state_of(index)["runs"][0]["damaged"][0]


def test_what_pods_would_have_kept_is_for_a_chosen_rule_and_m(tmp_path):
    rows = [
        {**ROLLOUT, "prompt": prompt, "completion": str(place), "reward": reward}
        for prompt, rewards in (("a", (0, 0, 1, 1)), ("b", (0.5, 0.5, 0.5, 0.5)))
        for place, reward in enumerate(rewards)
    ]
    path = write_lines(tmp_path / "mine.jsonl", rows)
    with index_of(path, keep=2) as index:
        assert column(index, 1, "kept") == [True, False, True, False]
        assert sum(column(index, 1, "kept", 1)) == 2
    with index_of(path, keep=2, rule="max_reward") as index:
        assert column(index, 1, "kept") == [False, False, True, True]
        assert state_of(index)["runs"][0]["would_keep"] == "max_reward would keep 2 of each prompt"
    with index_of(path, keep=2, rule="max_contrast") as index:
        # A prompt whose rewards are equal teaches nothing, so its rows go to the other one.
        assert column(index, 1, "kept") == [True] * 4
        assert column(index, 1, "kept", 1) == [False] * 4


def test_a_tree_of_runs_of_several_programs_is_opened_whole(tmp_path):
    copied("trl", tmp_path / "runs" / "grpo")
    copied("prime_rl", tmp_path / "runs" / "more" / "prime")
    SAMPLES["verl"](tmp_path / "runs" / "verl")
    found = find_sources([tmp_path / "runs"], Options())
    assert [source.name for source in found] == ["grpo", "more/prime", "verl"]


def test_a_checkpoint_is_no_dump_of_slimes(tmp_path):
    folder = tmp_path / "out" / "checkpoint-3"
    folder.mkdir(parents=True)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state_0.pt", "trainer_state.json"):
        (folder / name).write_text("{}")
    with pytest.raises(InvalidInputError, match=r"is a checkpoint, .* give the run's folder"):
        find_sources([folder], Options())


def test_an_empty_folder_is_waited_for_and_one_that_is_not_there_refused(tmp_path):
    (tmp_path / "out").mkdir()
    with index_of(tmp_path / "out") as index:
        assert state_of(index)["runs"][0]["state"] == "waiting"
        copied("trl", tmp_path / "new")
        (tmp_path / "new" / "completions").rename(tmp_path / "out" / "completions")
        index.refresh()
        names = [run["format"] for run in state_of(index)["runs"] if run["rollouts"]]
        assert names == ["TRL's table of completions"]
    (tmp_path / "trl" / "completions").mkdir(parents=True)  # as TRL makes it before it trains
    (tmp_path / "trl" / "README.md").write_text("x")
    with index_of(tmp_path / "trl") as index:
        assert state_of(index)["runs"][0]["state"] == "waiting"
    with pytest.raises(InvalidInputError, match=r"there is no .*oot; did you mean .*out\?"):
        find_sources([tmp_path / "oot"], Options())


def test_images_of_messages_are_kept_and_nothing_else_that_looks_like_one(tmp_path):
    pixel = "data:image/png;base64,iVBORw0KGgo="
    content = [
        {"type": "image_url", "image_url": {"url": pixel}},
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,PHN2Zz4="}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "text", "text": "What is it?"},
    ]
    row = {**ROLLOUT, "prompt": [{"role": "user", "content": content}]}
    with index_of(write_lines(tmp_path / "mine.jsonl", [row])) as index:
        [images] = column(index, 1, "images")
        assert json.loads(images) == [pixel]
