"""One rank that trains a step on vLLM's stand-ins, colocated and as a server.

Run by torchrun: vllm_worker.py MODEL OUT SERVER_URL.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import PartialState
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer

from podsrl import rule
from podsrl.trl import PODSConfig, PODSTrainer
from support import vllm_stand_in
from support.trl_runs import trained_rows, weights

RANK = int(os.environ.get("RANK", 0))
PROMPTS = [[{"role": "user", "content": f"{10 + i}+{20 + i}"}] for i in range(6)]


def reward(completion_ids: list[list[int]], **kwargs: object) -> list[float]:
    return [float(sum(ids) % 10) for ids in completion_ids]


@rule(scope="batch")
def first_rows(rewards_P_N: np.ndarray, rows: int, seed: Any) -> np.ndarray:
    """Keeps the first rollouts of the batch: none of those that the second rank generated."""
    return np.arange(rewards_P_N.size).reshape(rewards_P_N.shape) < rows


#: The runs by name. Of "lora" the second rank keeps none of its own rollouts.
RUNS: dict[str, dict[str, Any]] = {
    "colocate": {"vllm_mode": "colocate"},
    "server": {"vllm_mode": "server"},
    "lora": {
        "vllm_mode": "colocate",
        "downsampling_rule": "vllm_worker:first_rows",
        "num_rollouts": 8,
        "learning_rate": 1e-2,
        "vllm_importance_sampling_mode": "token_truncate",  # the engine's log-probs are made up
    },
}


def main(model_path: str, out: Path, url: str) -> None:
    for name in RUNS:
        trainer = make_trainer(name, model_path, out, url)
        result = train(trainer)
        (out / f"{name}-{RANK}.json").write_text(json.dumps(result))


def make_trainer(name: str, model_path: str, out: Path, url: str) -> PODSTrainer:
    fields: dict[str, Any] = {
        "output_dir": str(out / name),
        "num_rollouts": 7,
        "num_generations": 4,
        "per_device_train_batch_size": 6,
        "gradient_accumulation_steps": 1,
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "save_strategy": "no",
        "max_completion_length": 16,
        "logging_steps": 1,
        "max_steps": 1,
        "use_vllm": True,
        "vllm_server_base_url": url,
    }

    adapter = LoraConfig(r=2, target_modules=["q_proj"]) if name == "lora" else None
    return PODSTrainer(
        model=AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32),
        reward_funcs=reward,
        peft_config=adapter,
        args=PODSConfig(**{**fields, **RUNS[name]}),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
        processing_class=AutoTokenizer.from_pretrained(model_path),
    )


def train(trainer: PODSTrainer) -> dict[str, Any]:
    """What this rank trained on, what changed, and what its own engine was asked and said."""
    before = weights(trainer)
    trained = trained_rows(trainer)
    after = weights(trainer)

    result: dict[str, Any] = {
        "trained": [(str(list(ids)), logprob) for ids, logprob in trained],
        "changed": [key for key in after if not torch.equal(before[key], after[key])],
        "weights": {key: after[key].tolist() for key in after if "lora_" in key},
    }
    if trainer.args.vllm_mode == "colocate":
        engine = trainer.vllm_generation.llm
        result["asked"] = [n for call in engine.calls for _, n in call]
        result["sampled"] = {str(list(ids)): value for ids, value in engine.logprob_of.items()}
    return result


if __name__ == "__main__":
    vllm_stand_in.install(pytest.MonkeyPatch())
    model_path, out, url = sys.argv[1:]
    main(model_path, Path(out), url)
    PartialState().destroy_process_group()
