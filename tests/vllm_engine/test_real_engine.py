"""PODSTrainer with vLLM's real engine, colocated, on a CPU. `nox -s vllm` runs it."""

import itertools
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip(
    "vllm", reason="vLLM is not installed; `nox -s vllm` gets a build for CPUs and runs this"
)
pytest.importorskip("trl")

import pyarrow.parquet as pq
import torch
import vllm
from trl.generation import vllm_generation

from podsrl.rollout_log.run_folder import RunFolder
from support.trl_runs import arithmetic, dataset, make_trainer

__all__ = ["arithmetic", "dataset", "make_trainer"]

WORKER = str(Path(__file__).with_name("engine_worker.py"))
N, M = 10, 4
COLOCATED: dict[str, Any] = {
    "use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": 128, "max_steps": 2,
}  # fmt: skip
IN_ROUNDS = {**COLOCATED, "rollouts_per_round": 6, "reward_range": [0, 1]}


def use_cpu(patch: pytest.MonkeyPatch) -> None:
    """vLLM's engine in this process, with torch's matrix product in place of its packed ones.

    The packed weights can't be loaded into again, which is how TRL hands over updated ones.
    """

    def plain(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    from vllm.model_executor.layers import utils

    patch.setattr(utils, "dispatch_cpu_unquantized_gemm", plain)
    # vLLM would halve float32's precision, and log-probs could be compared to 0.1 only
    patch.setattr(vllm_generation, "LLM", partial(vllm.LLM, dtype="float32"))
    patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    patch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    use_cpu(monkeypatch)
    for variable in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(variable, "")  # TRL sets them for vLLM; undone after the test
        monkeypatch.delenv(variable)


def half_of(known: Any) -> Any:
    """A reward function: every other rollout of one prompt is right, all others are wrong."""

    def reward(prompts: list[Any], **kwargs: Any) -> list[float]:
        return [float(prompt == known and i % 2) for i, prompt in enumerate(prompts)]

    return reward


def train_and_compare_logprobs(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Train; by step, how far the engine's log-probs of the kept rows are from the model's."""
    differences = []
    finish = trainer._finish

    def compare(batch: Any, output: dict[str, Any]) -> None:
        finish(batch, output)
        mask = output["completion_mask"].bool()
        of_engine, of_model = output["sampling_per_token_logps"], output["old_per_token_logps"]
        differences.append((of_engine - of_model)[mask].abs().max().item())
        assert of_model[mask].std() > 0.1  # rows that were exchanged would show

    monkeypatch.setattr(trainer, "_finish", compare)
    trainer.train()
    return differences


@pytest.mark.slow
def test_two_steps_with_the_real_engine(make_trainer, on_cpu, monkeypatch):
    trainer = make_trainer(N, **COLOCATED)
    engine = trainer.vllm_generation.llm
    asked: list[list[tuple[tuple[int, ...], int]]] = []
    generate = engine.generate

    def recorded(prompts: Any, sampling_params: Any, **kwargs: Any) -> Any:
        requests = zip(prompts, sampling_params, strict=True)
        asked.append([(tuple(p["prompt_token_ids"]), one.n) for p, one in requests])
        return generate(prompts, sampling_params=sampling_params, **kwargs)

    monkeypatch.setattr(engine, "generate", recorded)
    differences = train_and_compare_logprobs(trainer, monkeypatch)

    assert [[n for _, n in call] for call in asked] == [[N, N]] * 2
    assert all(len({prompt for prompt, _ in call}) == 2 for call in asked)
    config = engine.llm_engine.vllm_config.scheduler_config
    assert config.max_num_seqs == 2 * N
    # the second step's rollouts come from the updated weights: the engine got them
    assert max(differences) < 1e-4, differences
    assert_kept_rows_have_the_largest_variance(RunFolder(trainer.args.output_dir).path)


@pytest.mark.slow
def test_in_rounds_the_real_engine_takes_a_prompts_rest_while_others_are_generated(
    make_trainer, dataset, on_cpu, monkeypatch
):
    data = dataset.select(range(4))
    reward = half_of(data[0]["prompt"])
    trainer = make_trainer(
        N, reward_funcs=reward, data=data, per_device_train_batch_size=4 * M, **IN_ROUNDS
    )
    engine = trainer.vllm_generation.llm.llm_engine
    log: list[tuple[str, str]] = []
    sizes: dict[str, int] = {}
    add, step = engine.add_request, engine.step

    def added(name: str, prompt: Any, params: Any) -> Any:
        log.append(("asked", name))
        sizes[name] = params.n
        return add(name, prompt, params)

    def stepped() -> Any:
        outputs = step()
        log.extend(("ended", one.request_id) for one in outputs if one.finished)
        for one in outputs:
            assert len(one.outputs) == sizes[one.request_id]
        return outputs

    monkeypatch.setattr(engine, "add_request", added)
    monkeypatch.setattr(engine, "step", stepped)
    differences = train_and_compare_logprobs(trainer, monkeypatch)

    assert sorted(sizes.values()) == [4] * 6 + [6] * 8  # one prompt of four has its contrast
    asked = [i for i, (what, _) in enumerate(log) if what == "asked"]
    assert asked[:4] == [0, 1, 2, 3]
    last_of_first_round = max(log.index(("ended", name)) for _, name in log[:4])
    assert asked[4] < last_of_first_round
    assert max(differences) < 1e-4, differences
    assert not engine.has_unfinished_requests()


@pytest.mark.slow
def test_two_processes_with_an_engine_each_ask_for_second_rounds_by_themselves(
    tiny_model, tmp_path
):
    # not forked from here, where engines have started threads
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", WORKER]
    tests = Path(__file__).parents[1]
    process = subprocess.run(
        [*command, str(tiny_model), str(tmp_path)], env={**os.environ, "PYTHONPATH": str(tests)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-3000:]
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    for rank in ranks:  # two of the four prompts, in each of two steps
        assert rank["asked"][:2] == [6, 6]
        assert rank["asked"].count(6) == 4
        assert max(rank["differences"]) < 1e-4
    again = [rank["asked"].count(4) for rank in ranks]
    assert [len(rank["asked"]) - 4 for rank in ranks] == again
    assert sum(again) == 6  # one prompt of four has its contrast in the first round
    assert ranks[0]["tokens"] == ranks[1]["tokens"] > 0


def assert_kept_rows_have_the_largest_variance(folder: Path | os.PathLike[str]) -> None:
    steps = sorted(Path(folder).glob("rollouts/step_*.parquet"))
    assert len(steps) == 2
    for path in steps:
        table = pq.read_table(path).to_pandas()
        assert len(table) == 2 * N
        for _, group in table.groupby("group"):
            rewards, kept = group["reward"].to_numpy(), group["kept"].to_numpy()
            best = max(np.var(rewards[list(s)]) for s in itertools.combinations(range(N), M))
            assert kept.sum() == M
            assert np.var(rewards[kept]) == pytest.approx(best, rel=1e-6)
