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
from support import overrides
from support.agent_scenarios import SCENARIOS
from support.agents import agent_trainer

RANK = int(os.environ.get("RANK", 0))
WORLD = int(os.environ.get("WORLD_SIZE", 1))

#: The shares of rollouts that binary reward functions call right.
RARE = 0.06
OFTEN = 0.4

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # TRL warns that rollout_func is experimental

# ---- rules, rollouts and rewards -----------------------------------------------------------------


def draw(*key: Any) -> random.Random:
    """Random numbers that are the same for the same key, on every rank and in every run."""
    return random.Random(hashlib.sha256(repr(key).encode()).hexdigest())


def loose(rewards_P_N: np.ndarray, m: int, seed: Any) -> np.ndarray:
    """A rule that does not care for its seed."""
    return np.random.default_rng().random(rewards_P_N.shape).argsort(axis=-1)[:, :m]


def by_reward(rewards_P_N: np.ndarray, kept_P_N: np.ndarray) -> np.ndarray:
    """Weights: more for a higher reward, and 0 for the lowest of all."""
    weights_P_N: np.ndarray = rewards_P_N - rewards_P_N.min()
    return weights_P_N


@rule(weights=by_reward)
def loose_and_weighed(rewards_P_N: np.ndarray, m: int, seed: Any) -> np.ndarray:
    """A rule with weights that draws other random numbers on each rank."""
    seed = [*seed, RANK]
    return np.random.default_rng(seed).random(rewards_P_N.shape).argsort(axis=-1)[:, :m]


@rule(scope="batch")
def first_rows(rewards_P_N: np.ndarray, rows: int, seed: Any) -> np.ndarray:
    """Keeps the first rollouts of the batch, which are those of the first rank."""
    places_P_N = np.arange(rewards_P_N.size).reshape(rewards_P_N.shape)
    return places_P_N < rows


def rollout_function(tokenizer: Any) -> Any:
    """Rollouts that depend on their place in the global batch only, of very uneven lengths."""
    vocabulary = [token for token in range(6, 60) if token != tokenizer.eos_token_id]

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        n = trainer.args.num_rollouts

        completions = []
        for prompt, place_in_batch in zip(prompts, trainer.places, strict=True):
            place = place_in_batch % n
            rng = draw(trainer.state.global_step, prompt[-1]["content"], place)
            length = 1 + int(40 * rng.random() ** 4)
            tokens = rng.choices(vocabulary, k=length)
            completions.append([*tokens, tokenizer.eos_token_id])

        encoded = tokenizer.apply_chat_template(
            prompts, add_generation_prompt=True, return_dict=True
        )
        return {
            "prompt_ids": encoded["input_ids"],
            "completion_ids": completions,
            "logprobs": [[-1.0] * len(completion) for completion in completions],
        }

    return rollout


def reward_function(fail: str | None, share: float | None) -> Any:
    """Rewards that depend on the completion only; rank 1 may be told to fail."""

    def reward(completion_ids: list[Any], log_extra: Any, **kwargs: Any) -> list[float]:
        if fail == "raise" and RANK == 1:
            raise OSError("the grader of rank 1 is down")
        if fail == "die" and RANK == 1:
            os.kill(os.getpid(), signal.SIGKILL)

        log_extra("ids", [str(ids) for ids in completion_ids])
        if fail == "lambda" and RANK == 1:
            log_extra("handle", [lambda: None] * len(completion_ids))  # can't be pickled

        drawn = [draw(ids).random() for ids in completion_ids]
        if share is not None:
            return [float(value < share) for value in drawn]
        return drawn

    return reward


# ---- trainers ------------------------------------------------------------------------------------


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
        # of each row of a generation, the ids of its completion as text, and its advantage
        self.trained_rows: list[list[tuple[str, float]]] = []
        # the rows and the length of each pass
        self.read: list[list[int]] = []

        # the places that this rank generates at a time
        self.places: list[int] = []
        generate_rollouts = self.pods._generate_rollouts

        def with_places(generate: Any, asked: Any, prompts: Any, round_: Any) -> Any:
            self.places = round_.padded(RANK)
            return generate_rollouts(generate, asked, prompts, round_)

        self.pods._generate_rollouts = with_places  # type: ignore[method-assign]

        make_batch = self.pods.make_batch

        def recorded(*asked: Any) -> dict[str, Any]:
            batch: dict[str, Any] = make_batch(*asked)
            self._remember(batch)
            return batch

        self.pods.make_batch = recorded  # type: ignore[method-assign]

    def count_read(self, module: Any, args: Any, output: Any) -> None:
        self.read.append(list(args[0].shape))

    def _remember(self, batch: dict[str, Any]) -> None:
        rows = []
        for ids, mask, advantage in zip(
            batch["completion_ids"],
            batch["completion_mask"].bool(),
            _of_rows(batch["advantages"]),
            strict=True,
        ):
            rows.append((str(ids[mask].tolist()), advantage))
        self.trained_rows.append(rows)


def _of_rows(advantages: torch.Tensor) -> list[float]:
    """The advantage of each row; of one for each token the one farthest from 0."""
    if advantages.dim() == 1:
        return advantages.tolist()
    return [row[row.abs().argmax()].item() for row in advantages]


def allow_fsdp() -> None:
    """accelerate takes its FSDP plugin only for a list of kinds that MULTI_CPU is not on."""
    if os.environ.get("ACCELERATE_USE_FSDP") == "true":
        PartialState(cpu=True)
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU


def arithmetic_trainer(
    out: Path,
    model: str,
    n: int,
    fail: str | None,
    share: float | None,
    override: str | None = None,
    greedy: bool = False,
    **fields: Any,
) -> RecordingTrainer:
    """A trainer on 24 questions, whose rollouts and rewards are those of this file.

    greedy: the rollouts are the model's own, without random numbers.
    """
    if greedy:
        fields["generation_kwargs"] = {"do_sample": False}
    tokenizer = AutoTokenizer.from_pretrained(model)
    questions = [f"{10 + i}+{20 + i}" for i in range(24)]
    prompts = [[{"role": "user", "content": question}] for question in questions]
    args = PODSConfig(
        output_dir=str(out),
        num_rollouts=n,
        report_to="none",
        bf16=False,
        logging_steps=1,
        use_cpu=True,
        lr_scheduler_type="constant",
        **fields,
    )

    allow_fsdp()
    kind = RecordingTrainer
    if override is not None:  # what a user's subclass does
        kind = type(override, (getattr(overrides, override), RecordingTrainer), {})
    trainer = kind(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
        reward_funcs=reward_function(fail, share),
        args=args,
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=tokenizer,
        rollout_func=None if greedy else rollout_function(tokenizer),
    )
    if fail == "settings" and RANK == 1:  # as a callback does that acts on one rank alone
        trainer.args.advantage_baseline = "group"
    if greedy:
        trainer.model.get_input_embeddings().register_forward_hook(trainer.count_read)
    if fail == "die in the exchange":
        trainer.pods.exchange = MortalExchange(RANK, WORLD, trainer.accelerator.device)
    return trainer


# ---- runs ----------------------------------------------------------------------------------------


def main(settings: dict[str, Any]) -> None:
    """Train a run and write what it did; its settings are of `arithmetic_run` or `agents_run`."""
    settings = {**settings, "out": Path(settings["out"])}
    if "scenario" in settings:
        agents_run(**settings)
    else:
        arithmetic_run(**settings)


def agents_run(scenario: str, out: Path, n: int, **fields: Any) -> None:
    """An agent's run: the model is told what to say by the place in the global batch."""
    first_place = share_of(3 * n, RANK, WORLD).start  # of 3 groups
    parts = dict(SCENARIOS[scenario])
    reply = parts.pop("reply")

    def reply_by_place(read: str, row: int) -> str:
        return reply(read, first_place + row)

    trainer = agent_trainer(n, out, reply_by_place, kind=RecordingTrainer, **parts, **fields)
    trainer.train()
    write_result(trainer, trainer.processing_class, out)


def arithmetic_run(
    out: Path,
    model: str,
    n: int,
    fail: str | None = None,
    binary: bool = False,
    often: bool = False,
    resume: bool = False,
    forget: list[str] | None = None,
    **fields: Any,
) -> None:
    """A run of `arithmetic_trainer`.

    binary, often: rewards are 0 and 1, and 1 rarely or often.
    resume: from the last complete checkpoint of its folder.
    forget: the checkpoints that are deleted after it, as if it had been stopped before them.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / f"began-{RANK}").touch()

    share = (RARE if binary else None) if not often else OFTEN
    trainer = arithmetic_trainer(out, model, n, fail, share, **fields)
    folder = checkpoint.last_complete(out) if resume else None
    trainer.train(resume_from_checkpoint=str(folder) if folder else None)
    write_result(trainer, trainer.processing_class, out)

    if trainer.accelerator.is_main_process:
        for name in forget or ():
            shutil.rmtree(out / name)
    trainer.accelerator.wait_for_everyone()


# ---- what a run did ------------------------------------------------------------------------------


def write_result(trainer: RecordingTrainer, tokenizer: Any, out: Path) -> None:
    """Weights and what all ranks trained on, from the main process."""
    rows_by_rank = gather_object([trainer.trained_rows])
    bytes_moved = gather_object([trainer.pods.exchange.bytes_moved])
    first_passes = gather_object([trainer.read[:2]])
    state = trainer.accelerator.get_state_dict(trainer.model)
    if not trainer.accelerator.is_main_process:
        return

    torch.save({name: value.cpu() for name, value in state.items()}, out / "weights.pt")

    last_generation = [row for generations in rows_by_rank for row in generations[-1]]
    history = trainer.state.log_history
    result = {
        "rows_by_rank": rows_by_rank,
        "losses": [entry["loss"] for entry in history if "loss" in entry],
        "bytes_moved": bytes_moved,
        "first_passes": first_passes,
        "why_each_reads": sorted(trainer.pods.one_reading._told),
        "aligned": is_aligned(trainer, tokenizer, last_generation),
        "sharded": any(isinstance(weight, DTensor) for weight in trainer.model.parameters()),
        "metrics": history[0],
    }
    (out / "result.json").write_text(json.dumps(result))


def is_aligned(trainer: Any, tokenizer: Any, trained: list[tuple[str, float]]) -> bool:
    """Whether each row of TRL's log of completions has its own text, reward and advantage.

    trained: the rows that all ranks trained on, which must be in that log.
    """
    logs = trainer._logs
    ids_K = dict(logs["extra"]).get("ids", [])
    if not ids_K:
        return False

    texts_K = [completion[-1]["content"] for completion in logs["completion"]]
    for ids, text, reward in zip(ids_K, texts_K, logs["rewards"]["reward"], strict=True):
        tokens = json.loads(ids)
        drawn = draw(tokens).random()
        if text != tokenizer.decode(tokens, skip_special_tokens=True):
            return False
        if reward not in (np.float32(drawn), drawn < RARE, drawn < OFTEN):  # plain, and binary
            return False

    advantages_K = [round(advantage, 5) for advantage in logs["advantages"]]
    logged_rows = Counter(zip(ids_K, advantages_K, strict=True))
    trained_rows = Counter((ids, round(advantage, 5)) for ids, advantage in trained)
    return not trained_rows - logged_rows


def run_all(runs: list[Any]) -> None:
    """Each run, which is settings or the words of a `pods` command, one after the other."""
    for run in runs:
        if isinstance(run, dict):
            main(run)
            continue

        allow_fsdp()
        code = cli.main(run)
        if code:
            sys.exit(code)


if __name__ == "__main__":
    with patch.object(PartialState, "destroy_process_group"):  # the next run needs the processes
        run_all(json.loads(sys.argv[1]))
    PartialState().destroy_process_group()
