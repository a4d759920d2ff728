"""What vLLM is asked for, colocated and as a server: TRL's own code on a recording engine."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
pytest.importorskip("requests")  # TRL's client of a vLLM server

import trl
from packaging.version import Version

from podsrl.trl.seam import MAX_NUM_BATCHED_TOKENS
from support.torchrun import torchrun
from support.trl_runs import trained_rows

pytestmark = pytest.mark.skipif(
    Version(trl.__version__) < Version("1.12"),
    reason="the stand-in is for TRL 1.12 or later",
)
WORKER = str(Path(__file__).with_name("vllm_worker.py"))
COLOCATE = {"use_vllm": True, "vllm_mode": "colocate", "max_steps": 1}


def rollouts_per_call(engine: Any) -> list[int]:
    """How many completions each call of the engine asked for."""
    asked = []
    for call in engine.calls:
        asked.append(sum(n for _, n in call))
    return asked


def assert_sampled_by(sampler: Any, rows: list[tuple[tuple[int, ...], float]]) -> None:
    """The log-prob of each trained row is the one that the engine or server sent with it."""
    for completion_ids, logprob in rows:
        assert logprob == pytest.approx(sampler.logprob_of[completion_ids], abs=1e-6)


# ---- colocated -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sleep", [False, True])
def test_a_colocated_engine_generates_all_rollouts_and_the_kept_ones_are_trained_on(
    make_trainer, stand_in, sleep
):
    trainer = make_trainer(10, vllm_enable_sleep_mode=sleep, **COLOCATE)
    rows = trained_rows(trainer)

    engine = trainer.vllm_generation.llm
    assert rollouts_per_call(engine) == [20]  # 8 kept rows: two prompts
    prompts_of_first_call = {str(prompt) for prompt, _ in engine.calls[0]}
    assert len(prompts_of_first_call) == 2
    assert len(rows) == 8
    assert_sampled_by(engine, rows)
    generates = ["load weights", "generate"]
    if sleep:  # at construction, and once after generating
        generates = ["sleep", "wake up weights", "load weights", "wake up kv_cache", "generate"]
        generates += ["sleep"]
    assert engine.order == generates


@pytest.mark.parametrize(
    ("n", "accumulation", "rows"),
    [
        (4, 1, 8),  # n = m: TRL's
        (10, 1, 20),
        (7, 2, 28),  # 16 kept rows of m = 4: 4 prompts
        (256, 16, MAX_NUM_BATCHED_TOKENS),  # 32 prompts: not 8192
    ],
)
def test_a_colocated_engine_has_room_for_all_generated_rows_at_once(
    make_trainer, stand_in, n, accumulation, rows
):
    trainer = make_trainer(n, gradient_accumulation_steps=accumulation, **COLOCATE)
    options = trainer.vllm_generation.llm.options
    assert options["max_num_seqs"] == rows
    assert options["max_num_batched_tokens"] == MAX_NUM_BATCHED_TOKENS


def test_with_a_mean_of_one_row_all_rollouts_of_as_many_prompts_as_rows_are_generated(
    make_trainer, stand_in
):
    trainer = make_trainer(3, num_generations=1, downsampling_rule="max_contrast", **COLOCATE)
    rows = trained_rows(trainer)

    engine = trainer.vllm_generation.llm
    assert engine.options["max_num_seqs"] == 24
    assert rollouts_per_call(engine) == [24]
    assert len(rows) == 8
    assert_sampled_by(engine, rows)


def test_evaluation_with_a_colocated_engine_is_left_to_trl(make_trainer, stand_in, dataset):
    trainer = make_trainer(
        10, eval_dataset=dataset.select(range(4)), per_device_eval_batch_size=4, **COLOCATE
    )
    trainer.evaluate()

    calls = trainer.vllm_generation.llm.calls
    rollouts_per_request = {n for call in calls for _, n in call}
    assert rollouts_per_request == {1}


# ---- a server ------------------------------------------------------------------------------------


def assert_asked_once(server: Any, prompts: int, n: int) -> None:
    """The server got one request, for n completions of each of so many prompts."""
    (request,) = server.requests
    assert len(request["prompt"]) == prompts
    assert request["n"] == n


def test_a_server_is_asked_in_one_request_for_all_rollouts_of_each_prompt(make_trainer, server):
    trainer = make_trainer(
        10, use_vllm=True, vllm_mode="server", vllm_server_base_url=server.url, max_steps=1
    )
    rows = trained_rows(trainer)

    assert_asked_once(server, prompts=2, n=10)
    assert len(rows) == 8
    assert_sampled_by(server, rows)


# ---- two ranks -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_on_two_ranks_both_modes_keep_rows_aligned_with_lora_too(tiny_model, tmp_path, server):
    """3 groups of n = 7 on 2 ranks: 11 rows each, the second group on both, one row of padding.

    With it not every seventh row is a prompt's first, so the server is asked for each row.
    """
    process = torchrun(2, tmp_path / "said", WORKER, str(tiny_model), str(tmp_path), server.url)
    assert process.returncode == 0, process.stderr[-3000:]

    colocated = results_of_ranks(tmp_path, "colocate")
    first, second = colocated
    assert sum(first["asked"]) == sum(second["asked"]) == 11
    assert_groups_are_trained_on(colocated, {**first["sampled"], **second["sampled"]})

    assert_asked_once(server, prompts=22, n=1)
    sampled_by_server = {str(list(ids)): logprob for ids, logprob in server.logprob_of.items()}
    assert_groups_are_trained_on(results_of_ranks(tmp_path, "server"), sampled_by_server)

    assert_adapters_train_alike(*results_of_ranks(tmp_path, "lora"))


def results_of_ranks(folder: Path, name: str) -> list[dict[str, Any]]:
    """What both ranks wrote at the end of a run of `vllm_worker`."""
    return [json.loads((folder / f"{name}-{rank}.json").read_text()) for rank in (0, 1)]


def assert_groups_are_trained_on(
    by_rank: list[dict[str, Any]], logprob_of: dict[str, float]
) -> None:
    """3 groups of m = 4, half of the rows on each rank, each with the log-prob of its sample."""
    first_rows, second_rows = (rank["trained"] for rank in by_rank)
    assert len(first_rows) == len(second_rows) == 6

    rows = [*first_rows, *second_rows]
    assert len({completion_ids for completion_ids, _ in rows}) == 12
    for completion_ids, logprob in rows:
        assert logprob == pytest.approx(logprob_of[completion_ids], abs=1e-6)


def assert_adapters_train_alike(first: dict[str, Any], second: dict[str, Any]) -> None:
    """3 prompts x 8: the first 12 rollouts are kept, all of them of the first rank.

    6 of these move to the second one. Both ranks train their adapter alike, and nothing else.
    """
    assert len(first["sampled"]) == len(second["sampled"]) == 12
    assert len(first["trained"]) == len(second["trained"]) == 6
    for completion_ids, logprob in [*first["trained"], *second["trained"]]:
        assert logprob == pytest.approx(first["sampled"][completion_ids], abs=1e-6)

    assert first["changed"]
    assert all("lora_" in name for name in first["changed"])
    assert first["changed"] == second["changed"]
    assert first["weights"] == second["weights"]
