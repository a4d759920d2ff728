"""The formula of a step's memory, what was measured, and the page of it."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.speed.memory import (
    TOKENS_AT_ONCE,
    Formula,
    Measured,
    all_settings,
    errors,
    formulas,
    page,
    read,
)
from podslab.recommend.memory_of_passes import MemoryOfPasses

RESULTS = Path(__file__).parents[2] / "results"


def made(n: int, m: int, length: int, *, lora: bool = False, scorer: bool = False) -> Measured:
    """A step by the formula: 100 + n (1 + t), and 50 + 2 m t + 30 min(m (t - 1), 4096)."""
    tokens = 32 + length
    return Measured(
        n=n,
        m=m,
        length=length,
        lora=lora,
        reward_model=scorer,
        generating=100.0 + n * (1 + tokens),
        updating=50.0 + 2 * m * tokens + 30 * min(m * (tokens - 1), 4096),
    )


MEASURED = [
    made(
        setting["n"],
        setting["m"],
        setting["length"],
        lora=setting["lora"],
        scorer=setting["reward_model"],
    )
    for setting in all_settings()
]


def test_the_formula_is_found_in_grpos_steps_and_foresees_those_of_pods():
    generating, updating = formulas(MEASURED, lora=False)
    for found, known in (
        (generating, Formula(100, token=1, each=1)),
        (updating, Formula(50, token=2, logits=30)),
    ):
        assert vars(found) == pytest.approx(vars(known))
    assert abs(errors(MEASURED)).max() < 1e-9


def test_a_step_of_another_size_is_told_by_its_error():
    other = [*MEASURED, made(64, 8, 64)]
    other[-1] = Measured(**{**vars(other[-1]), "updating": 2 * other[-1].updating})
    assert abs(errors(other)).max() == pytest.approx(0.5)


def test_the_page_has_each_step_and_what_it_saves():
    text = page(MEASURED)
    assert "64 → 8" in text
    assert "within 0.0 %. They" in text
    assert text.count("| LoRA |") == 14 + 2  # steps, and the numbers of both phases


# ---- what was measured


def updates_of_grpo(measured: list[Measured], length: int) -> dict[int, float]:
    """The peaks of GRPO's updates, all weights trained, by their rows."""
    return {
        one.m: one.updating
        for one in measured
        if one.n == one.m and one.length == length and not (one.lora or one.reward_model)
    }


def test_every_measured_step_is_within_2_percent_of_the_formula():
    measured = read(RESULTS / "memory.jsonl")
    assert len(measured) == len(all_settings())
    assert abs(errors(measured)).max() < 0.02


def test_a_formula_without_the_limit_of_logits_is_far_from_what_was_measured():
    """A line through the steps below the limit is 30 % above 64 rows of 96 tokens."""
    peaks = updates_of_grpo(read(RESULTS / "memory.jsonl"), length=64)
    slope, fixed = np.polyfit([8, 16, 32], [peaks[rows] for rows in (8, 16, 32)], deg=1)
    assert fixed + 64 * slope > 1.3 * peaks[64]


def test_the_limit_of_logits_is_trls():
    kernel = pytest.importorskip("trl.kernels.chunked_logprob")
    assert kernel.TOKEN_CHUNK_SIZE == TOKENS_AT_ONCE


def test_on_a_gpu_passes_that_reach_the_limit_lie_on_a_line():
    """Of 3B with adapters: a line through 8 and 16 rows of 512 tokens foresees 32 and 64."""
    peaks = {}
    for line in (RESULTS / "sizes.jsonl").read_text().splitlines():
        found = json.loads(line)
        case, update = found["case"], found.get("peak_bytes", {}).get("update")
        kind = (case["shape"], case["lora"], case["checkpointing"], case["answer"])
        if kind == ("3B", True, True, 512) and case["arm"]["micro_batches"] == 1 and update:
            peaks[case["arm"]["prompts"] * case["arm"]["m"]] = update

    assert min(peaks) * 512 >= TOKENS_AT_ONCE
    row = (peaks[16] - peaks[8]) / 8
    for rows in (32, 64):
        assert peaks[8] + (rows - 8) * row == pytest.approx(peaks[rows], rel=0.005)


@pytest.mark.parametrize("length", [32, 64, 256])
@pytest.mark.parametrize("sizes", [(8, 16), (16, 32), (32, 64)])
def test_the_rows_that_recommend_names_fit_by_the_formula(length, sizes):
    """The formula bends down at the limit, so outside of two passes it is below their line."""
    measured = read(RESULTS / "memory.jsonl")
    peaks = updates_of_grpo(measured, length)
    line = MemoryOfPasses.through({size: peaks[size] for size in sizes})
    assert line is not None

    _, updating = formulas(measured, lora=False)
    for memory in np.linspace(100, 1500, 29) * 2**20:
        rows = line.rows_within(memory)
        if rows >= 1:
            assert updating.peak(rows, 32 + length) <= 1.02 * memory


@pytest.mark.parametrize(("length", "sizes"), [(32, (16, 32)), (256, (16, 32))])
def test_on_one_side_of_the_limit_recommend_names_as_many_rows_as_fit(length, sizes):
    peaks = updates_of_grpo(read(RESULTS / "memory.jsonl"), length)
    line = MemoryOfPasses.through({size: peaks[size] for size in sizes})
    assert line is not None
    assert line.rows_within(1.02 * peaks[64]) >= 64
    assert line.fixed + line.row * 64 == pytest.approx(peaks[64], rel=0.02)
