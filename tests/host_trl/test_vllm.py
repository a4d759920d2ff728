"""What vLLM is asked for, colocated and as a server: TRL's own code on a recording engine."""

import json
from pathlib import Path

import pytest

pytest.importorskip("trl")
pytest.importorskip("requests")  # TRL's client of a vLLM server

import trl
from packaging.version import Version

from podsrl.trl.swapped import MAX_NUM_BATCHED_TOKENS
from support.torchrun import torchrun
from support.trl_runs import trained_rows

pytestmark = pytest.mark.skipif(
    Version(trl.__version__) < Version("1.12"),
    reason="the stand-in is for TRL 1.12 or later",
)
WORKER = str(Path(__file__).with_name("vllm_worker.py"))
COLOCATE = {"use_vllm": True, "vllm_mode": "colocate", "max_steps": 1}


@pytest.mark.parametrize("sleep", [False, True])
def test_a_colocated_engine_generates_all_rollouts_and_the_kept_ones_are_trained_on(
    make_trainer, stand_in, sleep
):
    trainer = make_trainer(10, vllm_enable_sleep_mode=sleep, **COLOCATE)
    rows = trained_rows(trainer)
    engine = trainer.vllm_generation.llm
    assert [sum(n for _, n in call) for call in engine.calls] == [20]  # 8 kept rows: two prompts
    assert len({str(prompt) for prompt, _ in engine.calls[0]}) == 2
    assert len(rows) == 8
    for ids, logprob in rows:
        assert logprob == pytest.approx(engine.logprob_of[ids], abs=1e-6)
    assert engine.slept == (2 if sleep else 0)  # at construction, and once after generating


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
    mean = {"num_generations": 1, "downsampling_rule": "max_contrast"}
    trainer = make_trainer(3, **mean, **COLOCATE)
    rows = trained_rows(trainer)
    engine = trainer.vllm_generation.llm
    assert engine.options["max_num_seqs"] == 24
    assert [sum(n for _, n in call) for call in engine.calls] == [24]
    assert [logprob for _, logprob in rows] == [
        pytest.approx(engine.logprob_of[ids], abs=1e-6) for ids, _ in rows
    ]
    assert len(rows) == 8


def test_evaluation_with_a_colocated_engine_is_left_to_trl(make_trainer, stand_in, dataset):
    trainer = make_trainer(
        10, eval_dataset=dataset.select(range(4)), per_device_eval_batch_size=4, **COLOCATE
    )
    trainer.evaluate()
    assert {n for call in trainer.vllm_generation.llm.calls for _, n in call} == {1}


def test_a_server_is_asked_in_one_request_for_all_rollouts_of_each_prompt(make_trainer, server):
    trainer = make_trainer(
        10, use_vllm=True, vllm_mode="server", vllm_server_base_url=server.url, max_steps=1
    )
    rows = trained_rows(trainer)
    assert [(len(r["prompt"]), r["n"]) for r in server.requests] == [(2, 10)]
    assert len(rows) == 8
    for ids, logprob in rows:
        assert logprob == pytest.approx(server.logprob_of[ids], abs=1e-6)


@pytest.mark.slow
def test_on_two_ranks_both_modes_keep_rows_aligned_with_lora_too(tiny_model, tmp_path, server):
    """3 groups of n = 7 on 2 ranks: 11 rows each, the second group on both, one row of padding.

    With it not every seventh row is a prompt's first, so the server is asked for each row.
    """
    process = torchrun(2, tmp_path / "said", WORKER, str(tiny_model), str(tmp_path), server.url)
    assert process.returncode == 0, process.stderr[-3000:]
    by_mode = {
        mode: [json.loads((tmp_path / f"{mode}-{rank}.json").read_text()) for rank in (0, 1)]
        for mode in ("colocate", "server")
    }
    assert [sum(rank["asked"]) for rank in by_mode["colocate"]] == [11, 11]
    assert [(len(r["prompt"]), r["n"]) for r in server.requests] == [(22, 1)]
    in_process: dict[str, float] = {}
    for rank in by_mode["colocate"]:
        in_process |= rank["sampled"]
    on_server = {str(list(ids)): logprob for ids, logprob in server.logprob_of.items()}
    for mode, sampled in (("colocate", in_process), ("server", on_server)):
        trained = [row for rank in by_mode[mode] for row in rank["trained"]]
        assert len(trained) == len({ids for ids, _ in trained}) == 12  # 3 groups of m = 4
        for ids, logprob in trained:
            assert logprob == pytest.approx(sampled[ids], abs=1e-6)
        assert [len(rank["trained"]) for rank in by_mode[mode]] == [6, 6]

    # 3 prompts x 8: the first 12 rollouts are kept, all of them of the first rank, and 6 of these
    # move to the second one. Both train their adapter alike, and nothing else.
    with_lora = [json.loads((tmp_path / f"lora-{rank}.json").read_text()) for rank in (0, 1)]
    first, second = with_lora
    assert len(first["sampled"]) == len(second["sampled"]) == 12
    assert [len(rank["trained"]) for rank in with_lora] == [6, 6]
    for ids, logprob in first["trained"] + second["trained"]:
        assert logprob == pytest.approx(first["sampled"][ids], abs=1e-6)
    assert first["changed"] == second["changed"]
    assert first["changed"]
    assert all("lora_" in name for name in first["changed"])
    assert first["weights"] == second["weights"]
