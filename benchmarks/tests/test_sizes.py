"""Steps at the paper's sizes: the same script with small shapes, and the page by hand."""

import json
import pkgutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl")
pytest.importorskip("peft")

import torch
from transformers import AutoConfig

from benchmarks.own_process import CallFailedError, in_own_process
from benchmarks.sizes import vllm_generation
from benchmarks.sizes.__main__ import main, run
from benchmarks.sizes.models import make_model, make_prompts, make_tokenizer
from benchmarks.sizes.page import AUTHORS_STEPS, page_text, scaled_to_here, write_page
from benchmarks.sizes.plan import (
    ACROSS,
    ARMS,
    GRPO,
    GRPO_GA,
    PODS,
    Case,
    missing,
    plan,
    small_plan,
)
from benchmarks.sizes.raw_file import append, read_raw
from benchmarks.sizes.shapes import SHAPES
from benchmarks.sizes.steps import TRANSFORMERS, VLLM, Measured, line_through
from benchmarks.sizes.where import describe
from podsrl.errors import InvalidInputError
from podsrl.trl.clock import PhaseClock

WHERE = {
    "device": "a GPU",
    "memory_bytes": 80 * 2**30,
    "allocator": "",
    "processor": "a processor",
    "cores": 16,
    "commit": "abc",
    **dict.fromkeys(("torch", "transformers", "trl", "peft"), "1"),
}

WHERE_OF_VLLM = {"device": "a GPU", **dict.fromkeys(("torch", "transformers", "vllm"), "1")}


def here(name: str, *arguments: Any, seconds: float) -> Any:
    """Calls in this process, which has imported everything already."""
    return pkgutil.resolve_name(name)(*arguments)


def line(arm: Any, generate: float, update: float, **case: Any) -> dict[str, Any]:
    return {
        "case": Case("3B", arm, **case).as_json(),
        "prompt_tokens": 150,
        "fits": True,
        "seconds": {"generate": generate, "score": 0.0, "select": 0.0, "update": update},
        "peak_bytes": {},
        "took_seconds": 10.0,
        "where": WHERE,
    }


def line_of_vllm(prompts: int, n: int, seconds: float) -> dict[str, Any]:
    return {
        "shape": "3B",
        "prompts": prompts,
        "n": n,
        "answer": 512,
        "seconds": seconds,
        "where": WHERE_OF_VLLM,
    }


def page(lines: Any, by_vllm: Any = ()) -> str:
    return page_text(Measured(lines, by_vllm), Path("raw.jsonl"))


def line_of_update(rows: int, update: float) -> dict[str, Any]:
    alone = line(replace(GRPO, n=rows, m=rows), 0.0, update, generates=False)
    return {**alone, "seconds": {"update": update}}


def calls(found_of: Any) -> tuple[Any, list[Case]]:
    """A stand-in for the processes that measure, and the cases that it was asked for."""
    asked: list[Case] = []

    def call(name: str, *arguments: Any, seconds: float) -> Any:
        if name.endswith(":describe"):
            return {name: value for name, value in WHERE.items() if name != "commit"}
        asked.append(arguments[0])
        return found_of(arguments[0])

    return call, asked


def fits(case: Case) -> dict[str, Any]:
    return {"fits": True, "seconds": {"generate": 1.0, "update": 1.0}, "peak_bytes": {}}


def test_small_shapes_are_measured_once_each_and_shown(tmp_path):
    raw = tmp_path / "raw.jsonl"
    cases = [Case("tiny", arm, answer=4) for arm in (GRPO, PODS)]
    run(cases[:1], raw, minutes=5, prompt_tokens=4, call=here)
    run(cases, raw, minutes=5, prompt_tokens=4, call=here)

    lines = read_raw(raw)
    assert [one["case"]["arm"]["name"] for one in lines] == ["GRPO", "PODS"]  # none of them twice
    for one in lines:
        assert set(one["seconds"]) == {"generate", "score", "select", "update"}
        assert one["completion_tokens"] == 4  # exactly as many as were asked for

    assert main(["--page", str(tmp_path), str(raw)]) == 0
    page = (tmp_path / "sizes.md").read_text()
    assert "| tiny | PODS | 64 → 16 | 4 | adapters | on |" in page
    assert "prompts have 4 tokens" in page
    assert (tmp_path / "sizes.png").stat().st_size > 10_000


def test_the_step_that_warms_up_generates_a_few_tokens_and_updates_on_all(monkeypatch):
    from benchmarks.sizes import measure

    made = make_model(SHAPES["tiny"], "cpu", torch.float32)
    widths = []
    made.model.layers[0].register_forward_pre_hook(
        lambda module, arguments: widths.append(arguments[0].shape[1])
    )
    monkeypatch.setattr(measure, "make_model", lambda *given: made)
    found = measure.measure(Case("tiny", GRPO, answer=40, checkpointing=False), prompt_tokens=4)

    # A generation reads the prompt, and then one token at a time; an update reads 4 + 40 tokens.
    warm_up = [4, *[1] * 15, 44]
    measured = [4, *[1] * 39, 44]
    assert widths == warm_up + measured
    assert found["completion_tokens"] == 40


def test_an_update_alone_is_of_whole_completions_and_says_nothing_of_generating():
    from benchmarks.sizes import measure

    case = Case("tiny", replace(GRPO, n=4, m=4), answer=24, generates=False)
    found = measure.measure(case, prompt_tokens=4)
    assert set(found["seconds"]) == {"update"}
    assert found["completion_tokens"] == 24


def test_no_case_begins_when_time_is_over(tmp_path, capsys):
    raw = tmp_path / "raw.jsonl"
    call, asked = calls(fits)
    run([Case("tiny", GRPO, answer=4)], raw, minutes=-1, prompt_tokens=4, call=call)
    assert not asked
    assert not raw.exists()
    assert "no time is left for tiny GRPO 16 -> 16, 4 tokens" in capsys.readouterr().out


def test_a_shorter_case_is_measured_where_a_longer_one_has_no_time_left(tmp_path):
    long = Case("7B", PODS, answer=2048)
    short = Case("0.5B", GRPO, generates=False)
    assert long.foreseen_seconds > 60 > short.foreseen_seconds

    call, asked = calls(fits)
    run([long, short], tmp_path / "raw.jsonl", minutes=1, prompt_tokens=4, call=call)
    assert asked == [short]


def test_a_case_that_time_cuts_off_is_measured_next_time_and_one_that_hangs_has_failed(
    tmp_path, capsys
):
    raw = tmp_path / "raw.jsonl"
    cases = [Case("3B", arm) for arm in (GRPO, PODS, ACROSS)]

    def found_of(case: Case) -> dict[str, Any]:
        if case.arm == PODS:
            raise TimeoutError("stopped")
        return fits(case)

    call, asked = calls(found_of)
    run(cases, raw, minutes=1.5, prompt_tokens=4, call=call)
    assert asked == cases[:2]  # nothing after it
    assert missing(cases, read_raw(raw)) == cases[1:]
    assert "cut off: 3B PODS" in capsys.readouterr().out

    # With hours left it is not time that is over: it hangs, and the others go on.
    call, asked = calls(found_of)
    run(cases, raw, minutes=60, prompt_tokens=4, call=call)
    assert asked == cases[1:]
    assert read_raw(raw)[1]["failed"] == "stopped"


def test_a_case_that_fails_is_noted_and_tried_again_and_the_others_go_on(tmp_path):
    raw = tmp_path / "raw.jsonl"
    cases = [Case("3B", arm) for arm in (GRPO, PODS)]

    def found_of(case: Case) -> dict[str, Any]:
        if case.arm == GRPO:
            raise CallFailedError("CUDA error: an illegal memory access was encountered")
        return fits(case)

    call, asked = calls(found_of)
    run(cases, raw, minutes=9, prompt_tokens=4, call=call)
    run(cases, raw, minutes=9, prompt_tokens=4, call=call)
    assert asked == [cases[0], cases[1], cases[0]]

    failed = read_raw(raw)[0]
    assert failed["fits"] is None
    assert "failed: CUDA error: an illegal memory access" in page([failed, line(PODS, 1, 1)])


def test_where_all_cases_fail_the_time_is_spared(tmp_path, capsys):
    def found_of(case: Case) -> dict[str, Any]:
        raise CallFailedError("ImportError: no module")

    call, asked = calls(found_of)
    run(plan(), tmp_path / "raw.jsonl", minutes=9, prompt_tokens=4, call=call)
    assert len(asked) == 3
    assert "3 cases failed one after the other" in capsys.readouterr().out


def test_what_does_not_fit_is_a_line_of_its_own(tmp_path, monkeypatch):
    def out_of_memory(*args: Any) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.\nMore")

    monkeypatch.setattr("benchmarks.sizes.measure.make_model", out_of_memory)
    raw = tmp_path / "raw.jsonl"
    run([Case("tiny", GRPO, answer=4)], raw, minutes=5, prompt_tokens=4, call=here)
    found = json.loads(raw.read_text())
    assert found["fits"] is False
    assert found["phase"] == "model"
    assert found["why"] == "CUDA out of memory. Tried to allocate 9 GiB."


def test_what_needs_more_memory_than_what_did_not_fit_is_not_tried(tmp_path):
    rows = [Case("3B", replace(GRPO, n=m, m=m), generates=False) for m in (64, 128, 256)]
    others = [Case("7B", replace(GRPO, n=256, m=256), generates=False), Case("3B", GRPO)]

    def found_of(case: Case) -> dict[str, Any]:
        if case == rows[1]:
            return {"fits": False, "phase": "update", "why": "", "peak_bytes": {}}
        return fits(case)

    call, asked = calls(found_of)
    run([*rows, *others], tmp_path / "raw.jsonl", minutes=999, prompt_tokens=4, call=call)
    assert asked == [*rows[:2], *others]


def test_errors_of_libraries_can_say_that_memory_is_full_too():
    from benchmarks.sizes.measure import is_out_of_memory

    assert is_out_of_memory(RuntimeError("Triton Error [CUDA]: out of memory"))
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"))
    assert not is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))


def test_a_raw_file_is_of_one_device(tmp_path):
    raw = tmp_path / "raw.jsonl"
    append(raw, {**line(GRPO, 1.0, 1.0), "where": {**WHERE, "device": "another GPU"}})
    call, asked = calls(fits)
    with pytest.raises(InvalidInputError, match="device another GPU, now a GPU"):
        run([Case("3B", PODS)], raw, minutes=9, prompt_tokens=4, call=call)
    assert not asked


def test_the_hardware_and_the_versions_are_noted():
    found = describe(("torch", "trl"))
    assert found["torch"] == torch.__version__
    assert set(found) == {
        *("device", "memory_bytes", "allocator", "processor", "cores"),
        *("torch", "trl"),
    }


def test_a_line_that_was_cut_off_is_none_and_the_next_one_takes_its_place(tmp_path):
    raw = tmp_path / "raw.jsonl"
    append(raw, {"line": 1})
    with raw.open("a") as file:
        file.write('{"line": 2, "seco')  # killed while it wrote
    assert read_raw(raw) == [{"line": 1}]

    append(raw, {"line": 3})
    assert read_raw(raw) == [{"line": 1}, {"line": 3}]


class FakeMemory:
    """A device whose memory a test sets."""

    def __init__(self) -> None:
        self.bytes = 0
        self.most = 0

    def hold(self, number: int) -> None:
        self.bytes = number
        self.most = max(self.most, number)

    def held(self) -> int:
        return self.bytes

    def peak(self) -> int:
        return self.most

    def reserved(self) -> int:
        return self.most + 1

    def forget_peak(self) -> None:
        self.most = self.bytes


def test_each_phase_has_its_own_peak_and_what_it_began_with():
    from benchmarks.sizes.measure import MemoryByPhase

    device = FakeMemory()
    memory = MemoryByPhase(device)
    clock = PhaseClock()
    device.hold(10)  # the model
    with memory.watching(clock):
        with clock.phase("generate"):
            device.hold(70)  # the cache
            device.hold(12)  # which is given back, but for 2
        device.hold(40)  # the update
        device.hold(12)

    found = memory.as_json()
    assert found["held_bytes"] == {"generate": 10, "update": 12}
    assert found["peak_bytes"] == {"model": 10, "generate": 70, "update": 40}
    assert found["reserved_bytes"] == 71


def test_memory_that_runs_out_in_a_phase_is_said_to_be_of_that_phase():
    from benchmarks.sizes.measure import MemoryByPhase

    memory = MemoryByPhase(FakeMemory())
    clock = PhaseClock()
    with pytest.raises(RuntimeError), memory.watching(clock), clock.phase("generate"):
        raise RuntimeError
    assert memory.phase == "generate"


def test_a_process_of_its_own_gives_its_result_its_error_or_its_end():
    assert in_own_process("math:sqrt", 9.0, seconds=60) == 3.0
    with pytest.raises(CallFailedError, match="ValueError: "):
        in_own_process("math:sqrt", -1.0, seconds=60)
    with pytest.raises(CallFailedError, match="ended with 7"):
        in_own_process("os:_exit", 7, seconds=60)
    with pytest.raises(TimeoutError):
        in_own_process("time:sleep", 60, seconds=1)


def test_a_rollout_costs_the_slope_of_seconds_over_rollouts():
    # Generating: 5 s and 0.1 s per rollout. Updating: 1 s for a pass and 0.5 s per row; 64 rows in
    # four passes take 4 + 32 s.
    lines = [line(GRPO, 6.6, 9.0), line(PODS, 11.4, 9.0), line(GRPO_GA, 11.4, 36.0)]
    lines += [line_of_update(8, 5.0), line_of_update(64, 33.0)]
    lines.append(line(PODS, 99.0, 99.0, lora=False))  # of another kind, so it is left out
    lines.append(line(PODS, 99.0, 99.0, continuous=True))
    lines.append(line(PODS, 99.0, 99.0, answer=64))  # of a length that few have
    measured = Measured(lines)
    generating = measured.generating("3B", TRANSFORMERS)
    assert generating == {16: [6.6], 64: [11.4, 11.4]}
    assert line_through(generating) == pytest.approx((5.0, 0.1))
    assert line_through(measured.updating("3B")) == pytest.approx((1.0, 0.5))

    text = page(lines)
    assert (
        "| 3B | rollouts, transformers (g) | 5.00 s | 0.1000 s | 16 to 64: 0.1000 s | 0.20 |"
        in text
    )
    assert "8 to 16: 0.5000 s; 16 to 64: 0.5000 s | 1.00 |" in text


def test_a_slope_has_the_range_of_what_was_measured_more_than_once():
    lines = [line(GRPO, 4.0, 1.0), line(PODS, 28.0, 1.0), line(ACROSS, 52.0, 1.0)]
    text = page([*lines, line_of_update(8, 0.6)])
    # Through 4 and the median of 28 and 52; between them (28 - 4) / 48 to (52 - 4) / 48.
    assert "| 0.7500 s | 16 to 64: 0.5000 to 1.0000 s |" in text


def test_the_authors_speed_up_scales_with_the_ratio_of_a_step():
    # There a step of PODS takes 2868.3 / 2143 = 1.338 times as long as one of GRPO. Where it takes
    # twice as long, 2.0 becomes 2.0 x 1.338 / 2.
    there = AUTHORS_STEPS["GRPO"] / AUTHORS_STEPS["PODS"]
    assert scaled_to_here(pods=20.0, grpo=10.0) == pytest.approx(there / 2)

    text = page([line(GRPO, 5.0, 5.0), line(PODS, 15.0, 5.0)])
    assert "2.00 times as fast to GRPO's level (1.00 to 2.50; median of runs 1.25)" in text
    assert "**1.3** (0.7 to 1.7; median of runs 0.8) with transformers" in text
    assert "What follows" not in page([line(GRPO, 5.0, 5.0)])


def test_a_step_is_its_generation_and_its_update_whichever_arm_they_were_measured_for():
    # The update of GRPO-GA was measured alone, in four micro-batches; that of 16 rows three times.
    lines = [line(GRPO, 50.0, 2.0), line(PODS, 60.0, 4.0), line_of_update(16, 3.0)]
    accumulated = line(GRPO_GA, 0.0, 12.0, generates=False)
    lines.append({**accumulated, "seconds": {"update": 12.0}})
    by_vllm = [line_of_vllm(1, 16, 2.0), line_of_vllm(1, 64, 5.0)]
    measured = Measured(lines, by_vllm)

    assert measured.step("3B", GRPO, VLLM) == (2.0, 3.0)
    assert measured.step("3B", PODS, VLLM) == (5.0, 3.0)
    assert measured.step("3B", GRPO_GA, VLLM) == (5.0, 12.0)
    assert measured.step("3B", ACROSS, VLLM) is None  # 16 prompts were not generated
    assert measured.step("7B", GRPO, VLLM) is None

    # For transformers each rollout is a row of its own, whatever prompt it is of.
    assert measured.step("3B", GRPO_GA, TRANSFORMERS) == (60.0, 12.0)
    assert measured.step("3B", ACROSS, TRANSFORMERS) == (60.0, 3.0)

    # A rollout of vLLM costs 3 s / 48, and there is 1 s that any number of them costs.
    assert line_through(measured.generating("3B", VLLM)) == pytest.approx((1.0, 0.0625))

    text = page(lines, by_vllm)
    assert "| 3B | PODS | 64 → 16 | 5.00 s | 3.00 s | **8.00 s** | 1.60 |" in text
    assert "5.0 s for GRPO (16 rollouts, 16 rows), 8.0 s for PODS" in text
    # A whole step of GRPO-GA was not measured, and none is put together of parts.
    assert "Where transformers generates" not in text
    whole = page([*lines[:3], line(GRPO_GA, 65.0, 12.0)], by_vllm)
    assert "they took 52.0, 64.0 and 77.0 s" in whole
    assert "| 3B | 1 x 64 | 5.00 s | 6,554 |" in text  # 64 x 512 tokens in 5 s
    assert "* generation by vLLM: 1.5B, 7B, 0.5B" in text
    assert "raw-vllm.jsonl" in text


def test_a_page_is_of_one_device(tmp_path):
    raw = tmp_path / "raw.jsonl"
    append(raw, line(GRPO, 5.0, 5.0))
    other = line_of_vllm(1, 16, 2.0)
    append(tmp_path / "raw-vllm.jsonl", {**other, "where": {"device": "another", "vllm": "1"}})
    with pytest.raises(InvalidInputError, match="different devices: a GPU, another"):
        write_page(raw, tmp_path)


def calls_of_vllm(found_of: Any) -> tuple[Any, list[tuple[str, int]]]:
    """A stand-in for the processes, and the sizes that it was asked for with their batches."""
    asked: list[tuple[str, int]] = []

    def call(name: str, *arguments: Any, seconds: float) -> Any:
        if name.endswith(":describe"):
            return WHERE_OF_VLLM
        shape, batches, raw, noted = arguments
        asked.append((shape, len(batches)))
        for one in found_of(shape, batches):
            append(raw, {**one, **noted})
        return None

    return call, asked


def test_what_vllm_takes_is_measured_once_for_each_batch_and_a_failure_ends_its_size(
    tmp_path, capsys
):
    def found_of(shape: str, batches: Any) -> Any:
        if shape == "1.5B":
            raise CallFailedError("ValueError: no memory")
        return [{**line_of_vllm(*batch, 2.0), "shape": shape} for batch in batches[:3]]

    raw = tmp_path / "raw.jsonl"
    call, asked = calls_of_vllm(found_of)
    assert vllm_generation.main([str(raw), "--commit", "abc"], call) == 0
    assert asked == [("3B", 4), ("1.5B", 4), ("7B", 4), ("0.5B", 4)]
    assert "1.5B: ValueError: no memory" in capsys.readouterr().out
    found = read_raw(tmp_path / "raw-vllm.jsonl")
    assert [one["shape"] for one in found] == [*["3B"] * 3, *["7B"] * 3, *["0.5B"] * 3]
    assert {one["commit"] for one in found} == {"abc"}

    asked.clear()
    vllm_generation.main([str(raw)], call)  # what has a result is not measured again
    assert asked == [("3B", 1), ("1.5B", 4), ("7B", 1), ("0.5B", 1)]
    asked.clear()
    vllm_generation.main([str(raw), "--minutes", "0"], call)
    assert not asked
    assert "no time is left for 1.5B" in capsys.readouterr().out


class FakeEngine:
    """An engine that answers at once, and for more than one prompt not at all."""

    def __init__(self, **options: Any) -> None:
        pass

    def generate(self, requests: list[Any], asked: Any, use_tqdm: bool) -> list[Any]:
        if len(requests) > 1:
            raise RuntimeError("no memory")
        rollout = SimpleNamespace(token_ids=[0] * asked.max_tokens)
        return [SimpleNamespace(outputs=[rollout] * asked.n)]


def test_a_batch_is_in_the_file_though_a_later_one_of_its_size_never_ends(
    tmp_path, monkeypatch, capsys
):
    fake = SimpleNamespace(LLM=FakeEngine, SamplingParams=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "vllm", fake)
    monkeypatch.setattr(vllm_generation, "_SHAPES", ("3B",))

    def call(name: str, *arguments: Any, seconds: float) -> Any:
        if name.endswith(":describe"):
            return WHERE_OF_VLLM
        try:
            return here(name, *arguments, seconds=seconds)
        except RuntimeError as error:
            raise CallFailedError(str(error)) from error

    assert vllm_generation.main([str(tmp_path / "raw.jsonl")], call) == 0
    assert "3B: no memory" in capsys.readouterr().out
    found = [
        (one["prompts"], one["n"], one["repetition"], one["lengths"])
        for one in read_raw(tmp_path / "raw-vllm.jsonl")
    ]
    assert found == [(1, n, again, [512]) for n in (16, 64, 256) for again in range(3)]


@pytest.mark.parametrize("name", ["device", "vllm"])
def test_a_raw_file_of_vllm_is_of_one_device_and_one_version(name, tmp_path, capsys):
    before = line_of_vllm(1, 16, 2.0)
    append(tmp_path / "raw-vllm.jsonl", {**before, "where": {**WHERE_OF_VLLM, name: "another"}})
    call, asked = calls_of_vllm(lambda shape, batches: [])
    assert vllm_generation.main([str(tmp_path / "raw.jsonl")], call) == 2
    assert f"was measured with {name} another, now" in capsys.readouterr().err
    assert not asked


def test_an_engine_makes_the_model_of_the_same_shape(tmp_path):
    vllm_generation.write_configuration("1.5B", tmp_path)
    read = AutoConfig.from_pretrained(tmp_path)
    shape = SHAPES["1.5B"]
    assert read.architectures == ["Qwen2ForCausalLM"]
    assert (read.hidden_size, read.num_hidden_layers) == (shape.hidden, shape.layers)
    assert (read.vocab_size, read.tie_word_embeddings) == (shape.vocabulary, shape.ties)
    assert read.dtype == torch.bfloat16


def test_a_later_call_foresees_by_the_pace_of_those_before_it(tmp_path):
    # On a device that is ten times as slow as foreseen, nothing begins that can't end in time.
    raw = tmp_path / "raw.jsonl"
    case = Case("3B", PODS)
    before = line(GRPO, 1.0, 1.0)
    append(raw, {**before, "took_seconds": 10 * Case("3B", GRPO).foreseen_seconds})

    call, asked = calls(fits)
    minutes = 2 * case.foreseen_seconds / 60
    run([case], raw, minutes=minutes, prompt_tokens=4, call=call)
    assert not asked
    run([case], raw, minutes=12 * minutes, prompt_tokens=4, call=call)
    assert asked == [case]


def test_the_page_says_what_fits_by_a_line_through_peaks():
    # 10 GiB and half a GiB per row: 80 GiB hold 140 rows.
    lines = [line(GRPO, 5.0, 5.0), line_of_update(32, 9.0)]
    lines[0] |= {"peak_bytes": {"update": 18 * 2**30}, "reserved_bytes": 18.9 * 2**30}
    lines[1] |= {"peak_bytes": {"update": 26 * 2**30}, "reserved_bytes": 28.6 * 2**30}
    text = page(lines)
    assert "| 3B | 16 | - | 32 | about 140 |" in text
    assert "No limit was reached" in text
    assert "The allocator kept 5 to 10 % more." in text


def test_the_page_says_the_range_of_what_was_measured_more_than_once():
    lines = [line(GRPO, 5.0, 5.0), line(GRPO, 6.0, 5.5, repetition=1), line_of_update(16, 4.5)]
    text = page(lines)
    assert "3B, generating 16 rollouts: 5.00 to 6.00 s in 2 steps" in text
    assert "3B, updating on 16 rows: 4.50 to 5.50 s in 3 steps." in text
    assert "more than once" not in page(lines[:1])


def test_a_batch_that_vllm_repeats_is_a_spread_of_repetitions_and_not_by_prompts():
    lines = [line(GRPO, 5.0, 5.0)]
    repeated = [line_of_vllm(1, 16, seconds) for seconds in (2.0, 2.3, 2.1)]
    text = page(lines, repeated)
    assert (
        "* **How exact it is**: The same batch again: 3B, 1 x 16: 2.00 to 2.30 s in 3 rep" in text
    )
    assert "by how many prompts they have" not in text

    # The median of 1 x 16 is 2.1 s, beside 2.5 s of 4 x 4.
    text = page(lines, [*repeated, line_of_vllm(4, 4, 2.5)])
    assert "in 3 repetitions. 16 rollouts of 3B took 2.10 to 2.50 s, by how many prompts" in text

    text = page(lines, [repeated[0], line_of_vllm(4, 4, 2.5)])
    assert "* **How exact it is**: 16 rollouts of 3B took 2.00 to 2.50 s, by how many" in text
    assert "How exact it is" not in page(lines, repeated[:1])


def test_the_page_says_what_recommend_foresees_and_what_was_measured():
    # From 16 rollouts in 8 s it foresees that 64 take 8 to 32 s; they took 12.
    text = page([line(GRPO, 8.0, 16.0), line(PODS, 12.0, 16.0)])
    assert "| 3B | transformers | 0.50 | 24.0 to 48.0 s | 28.0 s |" in text


def test_what_was_not_tried_has_its_reason():
    rows = {"n": 128, "m": 128}
    full = {**line(replace(GRPO, **rows), 0.0, 0.0, generates=False), "fits": False}
    text = page([line(GRPO, 5.0, 5.0), {**full, "phase": "update"}])
    assert "* 3B, only the update, with these numbers of rows: 8, 32, 64\n" in text
    assert "a smaller one did not fit: 3B GRPO 256 -> 256, 512 tokens, the update alone; 3B" in text
    assert "No limit was reached" not in text


def test_there_is_no_page_of_nothing(tmp_path, capsys):
    assert main(["--page", str(tmp_path), str(tmp_path / "raw.jsonl")]) == 2
    assert "holds no measurement" in capsys.readouterr().err


def test_what_is_missing_is_foreseen_with_its_time(tmp_path, capsys):
    raw = tmp_path / "raw.jsonl"
    append(raw, line(GRPO, 1.0, 1.0))
    assert main(["--foresee", str(raw)]) == 0
    foreseen = capsys.readouterr().out
    assert "min  3B PODS 64 -> 16, 512 tokens" in foreseen
    assert "min  3B GRPO 16 -> 16, 512 tokens\n" not in foreseen


def test_prompts_have_as_many_tokens_as_asked_for_and_the_model_knows_all():
    shape = SHAPES["tiny"]
    tokenizer = make_tokenizer(shape)
    model = make_model(shape, "cpu", torch.float32)
    assert len(tokenizer) == model.config.vocab_size == shape.vocabulary
    for row in make_prompts(3, tokens=17):
        assert len(tokenizer(row["prompt"])["input_ids"]) == 17


@pytest.mark.parametrize("cases", [plan, small_plan])
def test_no_case_is_planned_twice_and_every_size_has_all_arms(cases):
    planned = list(cases())
    assert len({json.dumps(case.as_json()) for case in planned}) == len(planned)
    for shape in {case.shape for case in planned}:
        names = [case.arm for case in planned if case.shape == shape]
        assert all(arm in names for arm in ARMS)


@pytest.mark.parametrize("cases", [plan, small_plan])
def test_at_every_size_both_costs_have_a_fixed_part_that_can_be_told_from_the_rest(cases):
    planned = [case for case in cases() if case.lora and case.checkpointing]
    for shape in {case.shape for case in planned}:
        of_shape = [case for case in planned if case.shape == shape]
        rollouts = {case.arm.rollouts for case in of_shape if case.generates}
        rows = {case.arm.rows for case in of_shape if case.arm.micro_batches == 1}
        assert len(rollouts) >= 2
        assert len(rows) >= 3


def test_arms_train_on_equally_many_rows_but_for_gradient_accumulation():
    assert {arm.name: (arm.rollouts, arm.rows) for arm in ARMS} == {
        "GRPO": (16, 16),
        "GRPO-GA": (64, 64),
        "PODS": (64, 16),
        "max_contrast": (64, 16),
    }
    assert replace(PODS, n=128).rollouts == 128
