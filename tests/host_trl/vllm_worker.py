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


#: What differs from a plain run: LoRA, where the second rank keeps none of its own rollouts.
LORA: dict[str, Any] = {
    "downsampling_rule": "vllm_worker:first_rows",
    "num_rollouts": 8,
    "learning_rate": 1e-2,
    "vllm_importance_sampling_mode": "token_truncate",  # the engine's log-probs are made up
}


def main(model_path: str, out: Path, url: str, mode: str, lora: bool = False) -> None:
    name = "lora" if lora else mode
    trainer = PODSTrainer(
        model=AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32),
        reward_funcs=reward,
        peft_config=LoraConfig(r=2, target_modules=["q_proj"]) if lora else None,
        args=PODSConfig(
            output_dir=str(out / name),
            **{"num_rollouts": 7, **(LORA if lora else {})},
            num_generations=4,
            per_device_train_batch_size=6,
            gradient_accumulation_steps=1,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            max_completion_length=16,
            logging_steps=1,
            max_steps=1,
            use_vllm=True,
            vllm_mode=mode,
            vllm_server_base_url=url,
        ),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
        processing_class=AutoTokenizer.from_pretrained(model_path),
    )
    before = weights(trainer)
    trained = trained_rows(trainer)
    result = {"trained": [(str(list(ids)), logprob) for ids, logprob in trained]}
    after = weights(trainer)
    result["changed"] = [key for key in after if not torch.equal(before[key], after[key])]
    result["weights"] = {key: after[key].tolist() for key in after if "lora_" in key}
    if mode == "colocate":
        engine = trainer.vllm_generation.llm
        result["asked"] = [n for call in engine.calls for _, n in call]
        result["sampled"] = {str(list(i)): logprob for i, logprob in engine.logprob_of.items()}
    (out / f"{name}-{RANK}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    vllm_stand_in.install(pytest.MonkeyPatch())
    model_path, out, url = sys.argv[1:]
    for mode in ("colocate", "server"):
        main(model_path, Path(out), url, mode)
    main(model_path, Path(out), url, "colocate", lora=True)
    PartialState().destroy_process_group()
