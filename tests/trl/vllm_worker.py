"""One rank that trains a step on vLLM's stand-ins, colocated and as a server.

Run by torchrun: vllm_worker.py MODEL OUT SERVER_URL [HOW], where HOW is "rounds", or what is wrong
in rounds: "out of reach", "late weights" or "bad reward".
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import PartialState
from datasets import Dataset
from test_vllm_rounds import IN_ROUNDS, half_of_some
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.generation.vllm_client import VLLMClient

from podsrl.errors import RewardError
from podsrl.trl import PODSConfig, PODSTrainer
from support import vllm_stand_in
from support.trl_runs import logged, trained_rows

RANK = int(os.environ.get("RANK", 0))
PROMPTS = [[{"role": "user", "content": f"{10 + i}+{20 + i}"}] for i in range(6)]
#: Three groups of 7 on two ranks; and two of 10 on each rank, in rounds.
AT_ONCE = {"num_rollouts": 7, "per_device_train_batch_size": 6}
ROUNDS = {**IN_ROUNDS, "num_rollouts": 10, "per_device_train_batch_size": 8}


def reward(completion_ids: list[list[int]], **kwargs: object) -> list[float]:
    return [float(sum(ids) % 10) for ids in completion_ids]


def main(model_path: str, out: Path, url: str, mode: str, how: str) -> None:
    rounds = bool(how)
    settings: dict[str, Any] = ROUNDS if rounds else AT_ONCE
    known = half_of_some(PROMPTS[:1])
    told: set[tuple[bool, int]] = set()

    def known_and_told(**given: Any) -> list[float]:
        told.add((PartialState().is_main_process, PartialState().num_processes))
        if PROMPTS[0] in given["prompts"]:  # on one rank only
            given["log_extra"]("asked", [p[0]["content"] for p in given["prompts"]])
        rewards = known(**given)
        return [2.0] * len(rewards) if how == "bad reward" and RANK else rewards

    trainer = PODSTrainer(
        model=AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32),
        reward_funcs=known_and_told if rounds else reward,
        args=PODSConfig(
            output_dir=str(out / mode), num_generations=4, gradient_accumulation_steps=1,
            use_cpu=True, bf16=False, report_to="none", save_strategy="no",
            max_completion_length=16, logging_steps=1,
            **{**settings, "max_steps": 2 if how == "late weights" else 1, "use_vllm": True},
            vllm_mode=mode, vllm_server_base_url=url,
        ),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS[:4] if rounds else PROMPTS}),
        processing_class=AutoTokenizer.from_pretrained(model_path),
    )  # fmt: skip
    engine = trainer.vllm_generation.llm if mode == "colocate" else None
    if engine is not None:
        engine.llm_engine.lasting = [1, 9]
    if how == "bad reward":
        with pytest.raises(RewardError) as raised:
            trainer.train()
        (out / f"{mode}-{RANK}.json").write_text(json.dumps(str(raised.value)))
        return
    result: dict[str, Any] = {
        "trained": [(str(list(ids)), logprob) for ids, logprob in trained_rows(trainer)],
        "tokens_seen": trainer.state.num_input_tokens_seen,
        "logged": logged(trainer)[0],
        "told": list(told),
    }
    assert trainer._batch is not None
    ids = [trainer._batch.rollouts[name] or () for name in ("prompt_ids", "completion_ids")]
    result["rows"] = list(zip(*ids, strict=True))
    if engine is not None:
        result["asked"] = [n for call in engine.calls for _, n in call]
        result["log"] = engine.llm_engine.log
        result["sampled"] = {
            str(list(ids)): (logprob, engine.prompt_of[ids])
            for ids, logprob in engine.logprob_of.items()
        }
    (out / f"{mode}-{RANK}.json").write_text(json.dumps(result))


def refused(*given: Any, **options: Any) -> None:
    raise ConnectionError("no server here")


def update_late(client: VLLMClient, *given: Any) -> None:
    time.sleep(2)
    client.session.post(f"{client.base_url}/updated")


if __name__ == "__main__":
    patch = pytest.MonkeyPatch()
    vllm_stand_in.install(patch)
    model_path, out, url, *more = sys.argv[1:]
    how = "".join(more)
    if how == "out of reach" and RANK > 0:
        patch.setattr(VLLMClient, "__init__", refused)
    if how == "late weights":
        patch.setattr(VLLMClient, "update_named_params", update_late)
    for mode in ("server",) if how in ("out of reach", "late weights") else ("colocate", "server"):
        main(model_path, Path(out), url, mode, how)
    PartialState().destroy_process_group()
