"""Steps at the paper's sizes: the same script with small shapes, and the page by hand."""

import json
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("trl")
pytest.importorskip("peft")

from benchmarks.sizes.__main__ import main, run
from benchmarks.sizes.page import (
    AUTHORS_STEPS,
    costs_of_generating,
    costs_of_updating,
    read_raw,
    speed_up_here,
)
from benchmarks.sizes.plan import ARMS, GRPO, GRPO_GA, PODS, Case, plan, small_plan
from benchmarks.sizes.shapes import SHAPES, make_model, make_prompts, make_tokenizer


def line(arm: Any, generate: float, update: float, **case: Any) -> dict[str, Any]:
    return {
        "case": Case("3B", arm, **case).as_json(),
        "fits": True,
        "seconds": {"generate": generate, "score": 0.0, "select": 0.0, "update": update},
        "peak_bytes": {},
    }


def test_small_shapes_are_measured_once_each_and_shown(tmp_path):
    raw = tmp_path / "raw.jsonl"
    cases = [Case("tiny", arm, answer=4) for arm in (GRPO, PODS)]
    run(cases[:1], raw, minutes=5, prompt_tokens=4)
    run(cases, raw, minutes=5, prompt_tokens=4)

    lines = read_raw(raw)
    assert [one["case"]["arm"]["name"] for one in lines] == ["GRPO", "PODS"]  # none of them twice
    for one in lines:
        assert set(one["seconds"]) == {"generate", "score", "select", "update"}
        assert one["completion_tokens"] == 4  # exactly as many as were asked for

    assert main(["--page", str(tmp_path), str(raw)]) == 0
    page = (tmp_path / "sizes.md").read_text()
    assert "| tiny | PODS | 64 → 16 | 4 | adapters | on |" in page
    assert (tmp_path / "sizes.png").stat().st_size > 10_000


def test_no_case_begins_when_time_is_over(tmp_path, capsys):
    raw = tmp_path / "raw.jsonl"
    run([Case("tiny", GRPO, answer=4)], raw, minutes=-1, prompt_tokens=4)
    assert not raw.exists()
    assert "time is over" in capsys.readouterr().out


def test_what_does_not_fit_is_a_line_of_its_own(tmp_path, monkeypatch):
    import torch

    def out_of_memory(*args: Any) -> None:
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr("benchmarks.sizes.measure.make_model", out_of_memory)
    raw = tmp_path / "raw.jsonl"
    run([Case("tiny", GRPO, answer=4)], raw, minutes=5, prompt_tokens=4)
    assert json.loads(raw.read_text())["fits"] is False


def test_a_rollout_costs_the_slope_of_seconds_over_rollouts():
    # Generating: 5 s and 0.1 s per rollout. Updating: 1 s and 0.5 s per row.
    lines = [line(GRPO, 6.6, 9.0), line(PODS, 11.4, 9.0), line(GRPO_GA, 11.4, 33.0)]
    lines.append(line(PODS, 99.0, 99.0, lora=False))  # of another kind, so it is left out
    assert costs_of_generating(lines, "3B") == pytest.approx((5.0, 0.1))
    assert costs_of_updating(lines, "3B") == pytest.approx((1.0, 0.5))


def test_the_authors_speed_up_scales_with_the_ratio_of_a_step():
    # There a step of PODS takes 2868.3 / 2143 = 1.338 times as long as one of GRPO. Where it takes
    # twice as long, 2.0 becomes 2.0 x 1.338 / 2.
    lines = [line(GRPO, 5.0, 5.0), line(PODS, 15.0, 5.0)]
    there = AUTHORS_STEPS["GRPO"] / AUTHORS_STEPS["PODS"]
    assert speed_up_here(lines) == pytest.approx(2.0 * there / 2)
    assert speed_up_here(lines[:1]) is None


def test_prompts_have_as_many_tokens_as_asked_for_and_the_model_knows_all():
    shape = SHAPES["tiny"]
    tokenizer = make_tokenizer(shape)
    model = make_model(shape, "cpu", __import__("torch").float32)
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


def test_arms_train_on_equally_many_rows_but_for_gradient_accumulation():
    assert {arm.name: (arm.rollouts, arm.rows) for arm in ARMS} == {
        "GRPO": (16, 16),
        "GRPO-GA": (64, 64),
        "PODS": (64, 16),
        "max_contrast": (64, 16),
    }
    assert replace(PODS, n=128).rollouts == 128
