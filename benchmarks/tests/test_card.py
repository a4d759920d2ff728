"""The cases for a GPU, tried on a CPU: their plan, what each leaves behind, and the task file."""

import pkgutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl")
pytest.importorskip("peft")

from benchmarks.card import measure
from benchmarks.card.__main__ import main, run
from benchmarks.card.plan import (
    IN_ITS_PLACE,
    MEASURED_STEPS,
    SMOLLM2,
    STEPS,
    Case,
    Comparison,
    Peak,
    Training,
    TwoProcesses,
    by_process,
    foreseen_seconds,
    missing,
    plan,
    small_plan,
)
from benchmarks.card.stories import Stories
from benchmarks.own_process import CallFailedError
from benchmarks.sizes.raw_file import append, read_raw
from benchmarks.sizes.steps import TRANSFORMERS, VLLM
from podslab.comparison.comparison_config import parse_comparison
from podslab.tasks.by_name import get_task
from podslab.training.config_file import read_config
from podsrl.errors import InvalidInputError, MissingDependencyError

TASK_FILE = str(measure.STORIES.with_suffix(".py"))
TINY = Training("tiny", IN_ITS_PLACE, n=16, answer=4, m=4)
TWO = [replace(TINY, n=n) for n in (4, 8)]


class Here:
    """Calls in this process, which has imported everything already.

    Args:
        asked: The cases of each call that measures.
    """

    def __init__(self) -> None:
        self.asked: list[list[Case]] = []

    def __call__(self, name: str, *arguments: Any, seconds: float) -> Any:
        if name.endswith(":measure"):
            self.asked.append(list(arguments[0]))
        try:
            return pkgutil.resolve_name(name)(*arguments)
        except Exception as error:
            raise CallFailedError(f"{type(error).__name__}: {error}") from error


# ---- the plan


def test_a_quarter_of_an_hour_suffices_and_the_most_important_comes_first():
    cases = plan()
    assert [kind for kind, _ in groupby(cases, key=lambda case: case.kind)] == [
        "training",
        "peak",
        "comparison",
        "two processes",
    ]
    assert cases[0] == Training("SmolLM2-135M", VLLM, n=16, answer=64)
    assert len(set(cases)) == len(cases)

    foreseen = [foreseen_seconds(group) for group in by_process(cases)]
    assert min(foreseen) > 0
    assert sum(foreseen) < 14 * 60


def test_an_engine_starts_once_for_all_rollouts_of_a_model():
    groups = by_process(plan())
    by_vllm = [group for group in groups if getattr(group[0], "engine", "") == VLLM]
    assert {group[0].model for group in by_vllm} == {"SmolLM2-135M", "0.5B", "1.5B", "3B", "7B"}
    assert all([case.n for case in group] == [16, 64, 256] for group in by_vllm)


def test_more_rollouts_larger_models_and_transformers_are_foreseen_to_take_longer():
    case = Training("3B", VLLM, n=64)
    for longer in (
        replace(case, n=256),
        replace(case, model="7B"),
        replace(case, answer=1024),
        replace(case, engine=TRANSFORMERS),
    ):
        assert longer.foreseen_seconds > case.foreseen_seconds


def test_the_small_cases_are_of_the_same_kinds_and_say_that_vllm_is_not_there():
    cases = small_plan()
    kinds = [kind for kind, _ in groupby(cases, key=lambda case: case.kind)]
    assert kinds == [kind for kind, _ in groupby(plan(), key=lambda case: case.kind)]
    assert {getattr(case, "model", "tiny") for case in cases} == {"tiny"}
    assert {case.engine for case in cases if case.kind == "training"} == {
        IN_ITS_PLACE,
        TRANSFORMERS,
    }


def test_what_is_missing_is_listed_with_its_seconds(tmp_path, capsys):
    raw = tmp_path / "raw.jsonl"
    first, second, *_ = plan()
    append(raw, {"case": first.as_json(), "found": {}})
    assert main([str(raw), "--foresee"]) == 0
    said = capsys.readouterr().out
    assert second.title in said
    assert first.title not in said
    assert read_raw(raw) == [{"case": first.as_json(), "found": {}}]


# ---- going on


def test_a_run_that_was_cut_goes_on_with_what_it_lacks(tmp_path, monkeypatch):
    raw = tmp_path / "raw.jsonl"

    def append_once(raw: Path, line: dict[str, Any]) -> None:
        if raw.exists():
            raise KeyboardInterrupt
        append(raw, line)

    call = Here()
    with monkeypatch.context() as patch:
        patch.setattr(measure, "append", append_once)
        with pytest.raises(KeyboardInterrupt):
            run(TWO, raw, minutes=5, commit="abc", call=call)
    assert [line["case"]["n"] for line in read_raw(raw)] == [4]

    run(TWO, raw, minutes=5, commit="def", call=call)
    run(TWO, raw, minutes=5, commit="ghi", call=call)
    assert call.asked == [TWO, TWO[1:]]

    lines = read_raw(raw)
    assert [line["case"] for line in lines] == [case.as_json() for case in TWO]
    assert [line["where"]["commit"] for line in lines] == ["abc", "def"]
    for line in lines:
        assert line["where"]["device"] == "CPU"
        assert line["where"]["vllm"] == ""
        assert line["found"]["engine"] == "transformers, in place of vLLM"
        assert len(line["found"]["steps"]) == MEASURED_STEPS
        for step in line["found"]["steps"]:
            assert step["completions/mean_length"] == 4
            parts = [step[f"pods/seconds_{name}"] for name in ("generate", "score", "update")]
            assert sum(parts) > 0


def test_a_case_that_fails_leaves_why_and_the_rest_goes_on(tmp_path, monkeypatch):
    def not_installed() -> Path:
        raise MissingDependencyError("no weights")

    monkeypatch.setattr(measure.smollm2, "get_model", not_installed)
    raw = tmp_path / "raw.jsonl"
    no_weights = [replace(case, model=SMOLLM2) for case in TWO]
    peak = Peak("tiny", n=8, m=4, answer=8)
    call = Here()
    for _ in range(3):
        run([*no_weights, peak], raw, minutes=5, call=call)

    # A failed case is tried once more, and what has a line is not.
    assert call.asked == [no_weights, [peak], no_weights]
    first, second, third, *again = read_raw(raw)
    assert first["failed"] == "MissingDependencyError: no weights"
    assert second["failed"] == "not reached after: MissingDependencyError: no weights"
    assert third["found"]["fits"]
    assert [line["failed"] for line in again] == [first["failed"], second["failed"]]
    assert missing([*no_weights, peak], read_raw(raw)) == []


def stopping(asked: list[Any], limit: str) -> Any:
    """A call in whose place a process is stopped, and the seconds that it was given."""

    def call(name: str, *arguments: Any, seconds: float) -> Any:
        if name.endswith(":describe"):
            return {"device": "a GPU", "allocator": ""}
        asked.append((arguments[0][0].kind, seconds))
        raise TimeoutError(limit)

    return call


def test_a_case_that_hangs_has_failed_and_one_that_time_cuts_off_has_no_line(tmp_path, capsys):
    raw = tmp_path / "raw.jsonl"
    cases = [TINY, TwoProcesses()]
    asked: list[Any] = []
    run(cases, raw, minutes=60, call=stopping(asked, "stopped"))
    assert [kind for kind, _ in asked] == ["training", "two processes"]
    assert [line["failed"] for line in read_raw(raw)] == ["stopped", "stopped"]

    raw.unlink()
    run(cases, raw, minutes=2, call=stopping(asked, "stopped"))
    assert not raw.exists()
    assert "cut off: a trainer of tiny" in capsys.readouterr().out

    run(cases, raw, minutes=0, call=stopping(asked, "stopped"))
    assert len(asked) == 3
    assert "no time is left for a trainer of tiny" in capsys.readouterr().out


def test_a_comparison_leaves_what_comes_after_it_the_time_that_this_needs(tmp_path, monkeypatch):
    no_time_passes = SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr("benchmarks.card.__main__.time", no_time_passes)
    asked: list[Any] = []
    cases = [Comparison(), TwoProcesses()]
    run(cases, tmp_path / "raw.jsonl", minutes=10, call=stopping(asked, "stopped"))
    needed = foreseen_seconds([TwoProcesses()])
    assert asked[0][1] == pytest.approx(600 - needed)


def test_a_raw_file_is_of_one_device(tmp_path):
    raw = tmp_path / "raw.jsonl"
    run([TINY], raw, minutes=60, call=stopping([], "stopped"))
    with pytest.raises(InvalidInputError, match="was measured with device a GPU, now CPU"):
        run([TINY], raw, minutes=60, call=Here())


# ---- what cases do


def test_an_engine_that_sleeps_is_woken_and_given_the_weights_in_each_step(monkeypatch, tmp_path):
    from support import vllm_stand_in

    for variable in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(variable, "")  # TRL sets them for vLLM; undone after the test
        monkeypatch.delenv(variable)
    vllm_stand_in.install(monkeypatch)
    made: list[Any] = []

    class Engine(vllm_stand_in.Engine):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            made.append(self)

    monkeypatch.setattr("trl.generation.vllm_generation.LLM", Engine)
    cases = [replace(case, engine=VLLM, answer=16) for case in TWO]
    lines: list[Any] = []
    measure.train(cases, lambda *line: lines.append(line), measure.Limits(tmp_path, 60))

    (engine,) = made
    assert engine.options["load_format"] == "dummy"
    assert engine.options["enable_sleep_mode"]
    assert engine.options["max_num_seqs"] == 8  # the most rollouts of any case
    assert engine.options["compilation_config"]["cudagraph_capture_sizes"] == [4, 8]
    assert [len(call) for call in engine.calls] == [4] * STEPS + [8] * STEPS

    assert [case for case, _ in lines] == cases
    for _, found in lines:
        for step in found["steps"]:
            # The weights' memory is woken first, then that of keys and values.
            assert step["engine"]["calls"] == {"sync_weights": 1, "wake_up": 2, "sleep": 1}
            assert set(step["engine"]["seconds"]) == {"sync_weights", "wake_up", "sleep"}
            assert any("logp_difference" in name for name in step)


def test_a_comparison_whose_time_is_over_has_a_line_and_goes_on_next_time(tmp_path, monkeypatch):
    def end_at_the_first_look(spec: Any, shard: Any, watcher: Any) -> None:
        watcher.looks([])  # nothing is at work: it may end by itself
        watcher.looks(["a run"])

    monkeypatch.setattr(measure, "compare", end_at_the_first_look)
    raw = tmp_path / "raw.jsonl"
    small = Comparison(is_small=True)
    arguments = (raw, {"where": {}}, tmp_path / "raw")
    measure.measure([small], *arguments, seconds=0)
    (line,) = read_raw(raw)
    assert line["found"] == {"runs": {}, "failed_runs": [], "unfinished": True}
    assert missing([small], [line]) == [small]


def test_what_is_left_of_a_killed_command_writes_nothing_more(tmp_path, monkeypatch):
    killed = SimpleNamespace(is_alive=lambda: False)
    monkeypatch.setattr("multiprocessing.parent_process", lambda: killed)
    raw = tmp_path / "raw.jsonl"
    peak = Peak("tiny", n=4, m=4, answer=4)
    with pytest.raises(SystemExit, match="the command was killed"):
        measure.measure([peak], raw, {"where": {}}, tmp_path, seconds=60)
    assert not raw.exists()


@pytest.mark.parametrize(
    ("works", "refused"), [("nccl", []), ("gloo", ["nccl"]), ("none", ["nccl", "gloo"])]
)
def test_of_two_processes_the_line_says_which_backend_worked(works, refused, tmp_path, monkeypatch):
    def torchrun(backend: str, steps: int, seconds: float) -> dict[str, Any]:
        assert seconds == 30
        if backend != works:
            raise RuntimeError(f"no {backend} here")
        return {"same_weights": True}

    monkeypatch.setattr(measure, "_torchrun", torchrun)
    monkeypatch.setattr(measure, "_device", lambda: "cuda")
    lines: list[Any] = []

    def try_both() -> None:
        limits = measure.Limits(tmp_path, 60)
        measure.run_two_processes([TwoProcesses()], lambda *line: lines.append(line), limits)

    if works == "none":
        with pytest.raises(RuntimeError, match=r"neither worked: .*no nccl here.*no gloo here"):
            try_both()
        return
    try_both()
    assert lines[0][1] == {
        "worked": works,
        "refused": {backend: f"no {backend} here" for backend in refused},
        "same_weights": True,
    }


# ---- the questions


def replayed(story: str) -> tuple[dict[str, str], dict[str, str]]:
    """Who has each thing and where everybody is at the end of a story, read from its sentences."""
    owner_of: dict[str, str] = {}
    place_of: dict[str, str] = {}
    for sentence in story.split(". "):
        words = sentence.removesuffix(".").split()
        if words[1] in ("is", "goes"):
            place_of[words[0]] = words[-1]
        elif words[1] == "has":
            owner_of[words[-1]] = words[0]
        else:
            assert owner_of[words[3]] == words[0]  # nobody gives what another one has
            owner_of[words[3]] = words[-1]
    return owner_of, place_of


def test_answers_follow_from_the_stories_and_no_story_is_in_two_splits():
    task = get_task(TASK_FILE, train_size=200, tuning_size=30, test_size=30)
    stories: list[str] = []
    for split, size in (("train", 200), ("tuning", 30), ("test", 30)):
        rows = task.load(split)
        assert rows == task.load(split)  # of a fixed seed
        assert len(rows) == size
        stories += {row["story"] for row in rows}
        for row in rows:
            owner_of, place_of = replayed(row["story"])
            asked = [*row["answered"], [row["question"], row["answer"]]]
            assert len({question for question, _ in asked}) == len(asked)
            for question, answer in asked:
                words = question.removesuffix("?").split()
                assert answer == (owner_of[words[3]] if words[0] == "Who" else place_of[words[2]])
            assert task.grade(task.gold_completion(row), row) == (True, True)
    assert len(set(stories)) == len(stories)


@pytest.mark.parametrize(
    ("completion", "is_right", "is_one_word"),
    [
        ("garden", True, True),
        (" garden.\n", True, True),
        ("Tom is in the garden.", True, False),
        ("The garden is where Tom is", False, False),
        ("garden or kitchen", False, False),
        ("Garden", False, True),
        ("gardens", False, True),
        ("garden..", False, True),
        ("", False, False),
        (".", False, True),
    ],
)
def test_a_completion_is_right_if_it_ends_with_the_answer(completion, is_right, is_one_word):
    assert Stories().grade(completion, {"answer": "garden"}) == (is_right, is_one_word)


def test_a_prompt_is_a_conversation_that_begins_with_the_story_and_ends_with_the_question():
    row = Stories.example
    system, first, shown, last = Stories().prompt(row)
    assert system["content"] == ""
    assert first["content"] == f"{row['story']} Answer with one word. Where is Ada now?"
    assert (shown["role"], shown["content"]) == ("assistant", "garden")
    assert (last["role"], last["content"]) == ("user", row["question"])


def test_the_task_file_grades_its_own_example():
    row, right, wrong = Stories().examples()
    assert Stories().grade(right, row).answer
    assert not Stories().grade(wrong, row).answer


def test_the_plan_of_the_comparison_is_allowed(tmp_path):
    config = read_config(str(measure.STORIES))
    on_cpu = {"use_cpu": True, "bf16": False, "model_name_or_path": "tiny"}
    config["settings"] |= on_cpu
    config["output_dir"] = str(tmp_path / "stories")
    spec = parse_comparison(config, "stories")
    arms: Sequence[str] = list(spec.arms)
    assert arms == ["grpo", "grpo_ga", "pods", "max_contrast", "rejection-sampling"]
    assert spec.unit == "training_seconds"
