"""One rank that trains a step on vLLM's stand-ins, colocated and as a server.

Run by torchrun: vllm_worker.py MODEL OUT SERVER_URL.
"""

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from accelerate import PartialState
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

from podsrl.trl import PODSConfig, PODSTrainer
from support import vllm_stand_in
from support.trl_runs import trained_rows

RANK = int(os.environ.get("RANK", 0))
PROMPTS = [[{"role": "user", "content": f"{10 + i}+{20 + i}"}] for i in range(6)]


def reward(completion_ids: list[list[int]], **kwargs: object) -> list[float]:
    return [float(sum(ids) % 10) for ids in completion_ids]


def main(model_path: str, out: Path, url: str, mode: str) -> None:
    trainer = PODSTrainer(
        model=AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32),
        reward_funcs=reward,
        args=PODSConfig(
            output_dir=str(out / mode),
            num_rollouts=7,
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
    trained = trained_rows(trainer)
    result = {"trained": [(str(list(ids)), logprob) for ids, logprob in trained]}
    if mode == "colocate":
        engine = trainer.vllm_generation.llm
        result["asked"] = [n for call in engine.calls for _, n in call]
        result["sampled"] = {str(list(i)): logprob for i, logprob in engine.logprob_of.items()}
    (out / f"{mode}-{RANK}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    vllm_stand_in.install(pytest.MonkeyPatch())
    model_path, out, url = sys.argv[1:]
    for mode in ("colocate", "server"):
        main(model_path, Path(out), url, mode)
    PartialState().destroy_process_group()
