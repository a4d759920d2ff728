"""One rank of PODS runs whose rollouts and rewards do not depend on the number of ranks.

Run by torchrun: worker.py '[{"out": ..., "model": ..., "n": ..., ...}, ...]', one after the other
in the same processes. A run with a "scenario" is one of `support.agent_scenarios`. A run that is a
list of words is a `pods` command, which can shard on a CPU.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import DistributedType, gather_object
from datasets import Dataset
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from podsrl import cli, rule
from podsrl.trl import PODSConfig, PODSTrainer, checkpoint
from podsrl.trl.exchange import Exchange, share_of
from support.agent_scenarios import SCENARIOS
from support.agents import agent_trainer


def draw(*key: Any) -> random.Random:
    return random.Random(hashlib.sha256(repr(key).encode()).hexdigest())


def loose(rewards_P_N: np.ndarray, m: int, seed: Any) -> np.ndarray:
    """A rule that does not care for its seed."""
    return np.random.default_rng().random(rewards_P_N.shape).argsort(axis=-1)[:, :m]


@rule(scope="batch")
def first_rows(rewards_P_N: np.ndarray, rows: int, seed: Any) -> np.ndarray:
    """Keeps the first rollouts of the batch, which are those of the first rank."""
    return np.arange(rewards_P_N.size).reshape(rewards_P_N.shape) < rows


RANK = int(os.environ.get("RANK", 0))
RARE = 0.06  # of a binary reward
WORLD = int(os.environ.get("WORLD_SIZE", 1))
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # rollout_func


def rollout_function(tokenizer: Any) -> Any:
    """Rollouts that depend on their place in the global batch only, of very uneven lengths."""
    vocabulary = [i for i in range(6, 60) if i != tokenizer.eos_token_id]

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        n = trainer.args.num_rollouts
        prompts_of_all = trainer.args.generation_batch_size // trainer.args.num_generations
        share = share_of(prompts_of_all * n, RANK, WORLD)
        completions = []
        for i, prompt in enumerate(prompts):
            place = share[min(i, len(share) - 1)] % n  # a share may be padded with its last one
            rng = draw(trainer.state.global_step, prompt[-1]["content"], place)
            length = 1 + int(40 * rng.random() ** 4)
            completions.append([*rng.choices(vocabulary, k=length), tokenizer.eos_token_id])
        ids = tokenizer.apply_chat_template(prompts, add_generation_prompt=True, return_dict=True)
        logprobs = [[-1.0] * len(c) for c in completions]
        return {"prompt_ids": ids["input_ids"], "completion_ids": completions, "logprobs": logprobs}

    return rollout


def reward_function(fail: str | None, binary: bool) -> Any:
    """Rewards that depend on the completion only; rank 1 may be told to fail."""

    def reward(completion_ids: list[Any], log_extra: Any, **kwargs: Any) -> list[float]:
        if fail == "raise" and RANK == 1:
            raise OSError("the grader of rank 1 is down")
        if fail == "die" and RANK == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        log_extra("ids", [str(ids) for ids in completion_ids])
        if fail == "lambda" and RANK == 1:
            log_extra("handle", [lambda: None] * len(completion_ids))
        drawn = [draw(ids).random() for ids in completion_ids]
        return [float(value < RARE) for value in drawn] if binary else drawn

    return reward


class MortalExchange(Exchange):
    """One in which rank 1 dies the second time that rows move."""

    times = 0

    def _send(self, parcels: Any, can_send: bool) -> Any:
        self.times += 1
        if self.process == 1 and self.times == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._send(parcels, can_send)


class RecordingTrainer(PODSTrainer):
    """Remembers the rows that this rank trains on, by generation."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.trained_tokens: list[list[int]] = []
        self.trained_rows: list[Any] = []  # token ids as text, and the advantage

    def _generate_and_score_completions(self, inputs: list[Any]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        mask = output["completion_mask"].bool()
        rows = [ids[m].tolist() for ids, m in zip(output["completion_ids"], mask, strict=True)]
        prompt_tokens = output["prompt_mask"].sum(1).tolist()
        tokens = [p + len(r) for p, r in zip(prompt_tokens, rows, strict=True)]
        self.trained_tokens.append(tokens)
        advantages = output["advantages"].tolist()
        self.trained_rows.append(list(zip(map(str, rows), advantages, strict=True)))
        return output


def allow_fsdp() -> None:
    """accelerate takes its FSDP plugin only for a list of kinds that MULTI_CPU is not on."""
    if os.environ.get("ACCELERATE_USE_FSDP") == "true":
        PartialState(cpu=True)
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU


def agents(scenario: str, out: Path, n: int, **fields: Any) -> None:
    """An agent's run: the model is told what to say by the place in the global batch."""
    first = share_of(3 * n, RANK, WORLD).start  # of 3 groups
    told = SCENARIOS[scenario]
    trainer = agent_trainer(
        n,
        out,
        lambda read, row: told["reply"](read, row + first),
        kind=RecordingTrainer,
        **{name: value for name, value in told.items() if name != "reply"},
        **fields,
    )
    trainer.train()
    write_result(trainer, trainer.processing_class, out)


def main(settings: dict[str, Any]) -> None:
    if "scenario" in settings:
        agents(out=Path(settings.pop("out")), **settings)
        return
    options = {key: settings.pop(key, None) for key in ("fail", "resume", "forget", "binary")}
    n, out, model_path = (settings.pop(key) for key in ("n", "out", "model"))
    Path(out).mkdir(parents=True, exist_ok=True)
    (Path(out) / f"began-{RANK}").touch()
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    questions = [f"{10 + i}+{20 + i}" for i in range(24)]
    dataset = Dataset.from_dict({"prompt": [[{"role": "user", "content": q}] for q in questions]})
    args = PODSConfig(
        output_dir=out,
        num_rollouts=n,
        report_to="none",
        bf16=False,
        logging_steps=1,
        use_cpu=True,
        lr_scheduler_type="constant",
        **settings,
    )
    allow_fsdp()
    trainer = RecordingTrainer(
        model=AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32),
        reward_funcs=reward_function(options["fail"], options["binary"]),
        args=args,
        train_dataset=dataset,
        processing_class=tokenizer,
        rollout_func=rollout_function(tokenizer),
    )
    if options["fail"] == "die in the exchange":
        trainer.exchange = MortalExchange(RANK, WORLD, trainer.accelerator.device)
    folder = checkpoint.last_complete(out) if options["resume"] else None
    trainer.train(resume_from_checkpoint=str(folder) if folder else None)
    write_result(trainer, tokenizer, Path(out))
    if trainer.accelerator.is_main_process:
        for name in options["forget"] or ():
            shutil.rmtree(Path(out) / name)
    trainer.accelerator.wait_for_everyone()


def write_result(trainer: RecordingTrainer, tokenizer: Any, out: Path) -> None:
    """Weights and what all ranks trained on, from the main process."""
    by_rank = gather_object([trainer.trained_tokens])
    rows = gather_object([trainer.trained_rows])
    moved = gather_object([trainer.exchange.bytes_moved])
    state = trainer.accelerator.get_state_dict(trainer.model)
    if not trainer.accelerator.is_main_process:
        return
    torch.save({k: v.cpu() for k, v in state.items()}, out / "weights.pt")
    result = {
        "tokens_by_rank": by_rank,
        "rows_by_rank": rows,
        "losses": [e["loss"] for e in trainer.state.log_history if "loss" in e],
        "bytes_moved": moved,
        "aligned": is_aligned(trainer, tokenizer, [generations[-1] for generations in rows]),
        "sharded": any(isinstance(p, DTensor) for p in trainer.model.parameters()),
        "metrics": trainer.state.log_history[0],
    }
    (out / "result.json").write_text(json.dumps(result))


def is_aligned(trainer: Any, tokenizer: Any, trained: list[list[tuple[str, float]]]) -> bool:
    """Whether each row of TRL's log of completions has its own text, reward and advantage."""
    logs = trainer._logs
    ids_K = dict(logs["extra"]).get("ids", [])
    if not ids_K:
        return False
    found = zip(ids_K, logs["completion"], logs["rewards"]["reward"], strict=True)
    for ids, completion, reward in found:
        tokens = json.loads(ids)
        drawn = draw(tokens).random()
        text = tokenizer.decode(tokens, skip_special_tokens=True)
        if completion[-1]["content"] != text or reward not in (np.float32(drawn), drawn < RARE):
            return False

    advantages_K = [round(advantage, 5) for advantage in logs["advantages"]]
    logged = Counter(zip(ids_K, advantages_K, strict=True))
    seen = Counter((ids, round(advantage, 5)) for of_rank in trained for ids, advantage in of_rank)
    return not seen - logged


if __name__ == "__main__":
    with patch.object(PartialState, "destroy_process_group"):  # the next run needs the processes
        for one in json.loads(sys.argv[1]):
            if isinstance(one, dict):
                main(one)
                continue
            allow_fsdp()
            if code := cli.main(one):
                sys.exit(code)
    PartialState().destroy_process_group()
