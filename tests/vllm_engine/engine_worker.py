"""One rank in rounds with vLLM's real engine. Run by torchrun: engine_worker.py MODEL OUT."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import PartialState
from datasets import Dataset
from test_real_engine import IN_ROUNDS, M, N, half_of, train_and_compare_logprobs, use_cpu
from transformers import AutoModelForCausalLM, AutoTokenizer

from podsrl.trl import PODSConfig, PODSTrainer
from support.trl_runs import COMMON

PROMPTS = [[{"role": "user", "content": f"{10 + i}+{20 + i}"}] for i in range(4)]


def main(model: str, out: Path) -> None:
    patch = pytest.MonkeyPatch()
    use_cpu(patch)
    settings = {**COMMON, **IN_ROUNDS, "per_device_train_batch_size": 2 * M}
    trainer = PODSTrainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
        reward_funcs=half_of(PROMPTS[0]),
        args=PODSConfig(output_dir=str(out / "run"), num_rollouts=N, **settings),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
    )
    engine = trainer.vllm_generation.llm.llm_engine
    asked: list[int] = []
    add = engine.add_request

    def added(name: str, prompt: Any, params: Any) -> Any:
        asked.append(params.n)
        return add(name, prompt, params)

    patch.setattr(engine, "add_request", added)
    differences = train_and_compare_logprobs(trainer, patch)
    tokens = trainer.tokens_generated
    found = {"asked": asked, "differences": differences, "tokens": tokens}
    (out / f"{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
    PartialState().destroy_process_group()
