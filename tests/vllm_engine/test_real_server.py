"""TRL's asynchronous trainer with a real `vllm serve` on a CPU. `nox -s vllm` runs it."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "vllm", reason="vLLM is not installed; `nox -s vllm` gets a build for CPUs and runs this"
)
pytest.importorskip("trl")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from accelerate import PartialState
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer
from trl.experimental.async_grpo.vllm_client import VLLMClient

from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import PODSRolloutWorker
from support.agents import questions, text_model
from support.async_runs import NoTransfer, letters, on_cpu
from support.ports import held_port

N, M = 8, 4


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as held:
        yield held


@pytest.fixture
def served(tmp_path: Path, port: int) -> Any:
    """A tiny model in a folder and the address of a server that has it."""
    model = tmp_path / "model"
    for part in text_model(hidden_size=64):  # heads of 32: vLLM has no smaller ones on a CPU
        part.save_pretrained(model)

    options = {
        "--model": str(model),
        "--host": "127.0.0.1",
        "--port": str(port),
        "--max-model-len": "256",
        "--dtype": "float32",
        "--logprobs-mode": "processed_logprobs",
        # a prompt in two pieces, of a request with a seed as TRL's are, fails on a CPU
        "--max-num-batched-tokens": "8192",
    }
    # not `vllm serve`, which asks for the version of a package of another name
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager"]
    for name, value in options.items():
        command += [name, value]

    said = tmp_path / "server.log"
    with said.open("w") as out:
        server = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1"}
        )

    url = f"http://127.0.0.1:{port}"
    PartialState()  # TRL's client can't log without
    try:
        VLLMClient(url, server_timeout=300).wait_for_server_ready()
        yield str(model), url
    except TimeoutError:
        raise AssertionError(said.read_text()[-6000:]) from None
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:  # a server that is slow to end is no fault of podsrl
            server.kill()
            server.wait()


def train(served: Any, run: Path, m: int, n: int, **options: Any) -> list[Any]:
    """Four steps of four rows; the rollouts of each log, one table for each.

    The weights stay where they were: to hand over new ones the server needs a GPU (NCCL).
    """
    model, url = served
    args = AsyncGRPOConfig(
        output_dir=str(run),
        num_generations=m,
        max_steps=4,
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        max_completion_length=12,
        report_to="none",
        save_strategy="no",
        gradient_checkpointing=False,
        learning_rate=1e-3,
        vllm_server_base_url=url,
        max_staleness=50,
        max_inflight_tasks=2 * m,
    )
    trainer = AsyncGRPOTrainer(
        model=model,
        reward_funcs=letters,
        args=args,
        train_dataset=questions(),
        weight_transfer=NoTransfer(),
    )
    PODSRolloutWorker(trainer, num_rollouts=n, **options)
    trainer.train()

    steps = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(steps) == 4
    # the server's log-probs of these very tokens are the model's
    assert steps[0]["ratio"] == pytest.approx(1.0, abs=1e-3)

    log = RunFolder(run)
    tables = [log.rollouts(step).to_pandas() for step in log.rollout_steps()]
    assert tables
    for table in tables:
        assert set(Counter(table["group"]).values()) == {n}
    return tables


@pytest.mark.slow
def test_rows_of_a_real_server_are_selected_and_trained_on(served, tmp_path, monkeypatch):
    on_cpu(monkeypatch)
    for table in train(served, tmp_path / "run", M, N):
        kept = table.groupby("group")["kept"].sum().tolist()
        assert kept == [M] * len(kept)


@pytest.mark.slow
def test_rows_of_a_real_server_are_selected_across_prompts(served, tmp_path, monkeypatch):
    on_cpu(monkeypatch)
    for table in train(served, tmp_path / "run", 1, 4, rule="max_contrast"):
        kept = table.groupby("group")["kept"].sum().tolist()
        # of the four prompts of a step, in the order in which they were scored
        assert {sum(kept[i : i + 4]) for i in range(0, len(kept), 4)} == {4}
        assert 0 in kept
