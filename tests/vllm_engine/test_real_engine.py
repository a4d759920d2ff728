"""PODSTrainer with vLLM's real engine, colocated, on a CPU. `nox -s vllm` runs it."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip(
    "vllm", reason="vLLM is not installed; `nox -s vllm` gets a build for CPUs and runs this"
)
pytest.importorskip("trl")

import pyarrow.parquet as pq

from podsrl.rollout_log.run_folder import RunFolder
from support.brute_force import highest_variance
from support.trl_runs import arithmetic, dataset, make_trainer

__all__ = ["arithmetic", "dataset", "make_trainer"]

N, M = 10, 4
COLOCATED: dict[str, Any] = {
    "use_vllm": True,
    "vllm_mode": "colocate",
    "vllm_max_model_length": 128,
    "max_steps": 2,
}


def train_and_compare_logprobs(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Train; by step, how far the engine's log-probs of the kept rows are from the model's."""
    differences = []
    finish = trainer._finish

    def compare(output: dict[str, Any]) -> None:
        finish(output)
        mask = output["completion_mask"].bool()
        of_engine = output["sampling_per_token_logps"]
        of_model = output["old_per_token_logps"]
        differences.append((of_engine - of_model)[mask].abs().max().item())
        assert of_model[mask].std() > 0.1  # rows that were exchanged would show

    monkeypatch.setattr(trainer, "_finish", compare)
    trainer.train()
    return differences


@pytest.mark.slow
def test_two_steps_with_the_real_engine(make_trainer, on_cpu, monkeypatch):
    trainer = make_trainer(N, **COLOCATED)
    engine = trainer.vllm_generation.llm
    prompts_of_calls: list[set[tuple[int, ...]]] = []
    rollouts_of_calls: list[list[int]] = []
    generate = engine.generate

    def recorded(prompts: Any, sampling_params: Any, **kwargs: Any) -> Any:
        prompts_of_calls.append({tuple(prompt["prompt_token_ids"]) for prompt in prompts})
        rollouts_of_calls.append([params.n for params in sampling_params])
        return generate(prompts, sampling_params=sampling_params, **kwargs)

    monkeypatch.setattr(engine, "generate", recorded)
    differences = train_and_compare_logprobs(trainer, monkeypatch)

    assert rollouts_of_calls == [[N, N]] * 2
    assert [len(prompts) for prompts in prompts_of_calls] == [2, 2]
    config = engine.llm_engine.vllm_config.scheduler_config
    assert config.max_num_seqs == 2 * N

    # the second step's rollouts come from the updated weights: the engine got them
    assert max(differences) < 1e-4, differences
    assert_kept_rows_have_the_largest_variance(RunFolder(trainer.args.output_dir).path)


def assert_kept_rows_have_the_largest_variance(folder: Path | os.PathLike[str]) -> None:
    steps = sorted(Path(folder).glob("rollouts/step_*"))
    assert len(steps) == 2

    for path in steps:
        table = pq.read_table(path).to_pandas()
        assert len(table) == 2 * N
        for _, group in table.groupby("group"):
            rewards = group["reward"].to_numpy()
            kept = group["kept"].to_numpy()
            assert kept.sum() == M
            assert np.var(rewards[kept]) == pytest.approx(highest_variance(rewards, M), rel=1e-6)
