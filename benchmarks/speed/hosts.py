"""The cost of podsrl in a step of verl and of slime: `python -m benchmarks.speed.hosts HOST`.

python -m benchmarks.speed.hosts slime
python -m benchmarks.speed.hosts verl      # in an environment with verl, as of `nox -s hosts`
python -m benchmarks.speed.hosts verl --tokens 8192      # long responses

verl's part goes through a real TransferQueue on a local Ray, with verl's trainer around it; there
are no workers. slime can't be installed without GPUs: its part is podsrl's functions on stand-ins
of its `Sample`. A line with JSON is printed for each size.
"""

import argparse
import json
import os
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.speed.resources import peak_memory, reset_memory, timed
from podsrl.rollout_log.environment import describe_environment
from podsrl.rollout_log.files import write_json

N, M = 16, 4
ROWS = (2048, 4096, 8192, 16384, 32768)
TOKENS = 256  # of a response
REPEATS = 3


@dataclass(frozen=True)
class Measured:
    """The driver's measurements of one number of rows.

    Args:
        host: "verl" or "slime".
        rows: All rollouts of the step, `N` of each prompt.
        seconds: By phase: the medians over repeats.
        memory: The bytes by which the driver's largest resident memory was above that before.
    """

    host: str
    rows: int
    seconds: dict[str, float]
    memory: int


def measure(
    step: Callable[[int], tuple[dict[str, float], int]],
    host: str,
    rows: int,
    repeats: int = REPEATS,
) -> Measured:
    """The medians of some steps; `step` gives the seconds by phase, and the bytes of memory."""
    seconds_of_steps, memory_of_steps = zip(*[step(rows) for _ in range(repeats)], strict=True)

    medians = {}
    for phase in seconds_of_steps[0]:
        medians[phase] = statistics.median(seconds[phase] for seconds in seconds_of_steps)
    measured = Measured(host, rows, medians, memory=max(memory_of_steps))
    print(f"measured    {json.dumps(asdict(measured))}", flush=True)
    return measured


# ---- slime


@dataclass
class Sample:
    """The part of slime.utils.types.Sample that podsrl uses."""

    group_index: int
    reward: float
    metadata: dict[str, Any] = field(default_factory=dict)

    def get_reward_value(self, args: Namespace) -> float:
        """The reward, as slime's method gives it without --reward-key."""
        return self.reward


def step_of_slime(rows: int) -> tuple[dict[str, float], int]:
    """The processor seconds of both functions, and the memory of the process."""
    from podsrl.slime import post_process_rewards, select_rollouts

    args = Namespace(
        n_samples_per_prompt=N,
        rollout_batch_size=rows // N,
        global_batch_size=rows // N * M,
        advantage_estimator="grpo",
        rewards_normalization=True,
        grpo_std_normalization=True,
        reward_key=None,
        pods={"m": M},
    )
    data = []
    for prompt, rewards_N in enumerate(rewards(rows).tolist()):
        data.append([Sample(prompt, reward) for reward in rewards_N])

    seconds: dict[str, float] = {}
    before = reset_memory()
    with timed(seconds, "select", time.thread_time):
        select_rollouts(args, data)
    kept = [sample for group in data for sample in group]
    with timed(seconds, "advantages", time.thread_time):
        post_process_rewards(args, kept)
    assert len(kept) == rows // N * M
    return seconds, peak_memory() - before


def rewards(rows: int) -> np.ndarray:
    """Rewards of 0 and 1 of prompts of all kinds, shape (rows / N, N)."""
    draw = np.random.default_rng(0)
    right_P_1 = draw.random((rows // N, 1))
    return (draw.random((rows // N, N)) < right_P_1).astype(np.float64)


# ---- verl

#: What a local Ray needs on a machine that other programs share.
RAY_ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",  # else Ray writes a token into the home folder
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Ray would kill its workers where other programs fill the machine's memory.
    "RAY_memory_monitor_refresh_ms": "0",
    # Ray gives way to every other program (a niceness of 15), so that it stands where one is busy.
    "RAY_worker_niceness": "0",
}


@contextmanager
def verls_queue(most_rows: int) -> Iterator[None]:
    """verl's TransferQueue with room for as many rows, on a local Ray."""
    for name, value in RAY_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray
    import transfer_queue as tq
    from omegaconf import OmegaConf

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    storage = {"num_data_storage_units": 1, "total_storage_size": 2 * most_rows}
    tq.init(OmegaConf.create({"backend": {"SimpleStorage": storage}}))
    try:
        yield
    finally:
        tq.close()
        ray.shutdown()


def step_of_verl(rows: int, tokens: int = TOKENS) -> tuple[dict[str, float], int]:
    """The seconds of a step by phase, and the memory of the driver; it needs `verls_queue`.

    The trainer is verl's synchronous one with podsrl's plugin, without workers. "processor" is the
    processor time of all of it in the driver, with verl's own balancing of rows.
    """
    import transfer_queue as tq

    from podsrl.verl.metrics import all_rollout_metrics

    trainer = _trainer(rows)
    seconds: dict[str, float] = {}
    for phase, name in (
        ("select", "_pods_select"),
        ("drop", "_pods_drop_rows"),
        ("metrics", "_pods_metrics"),
    ):
        setattr(trainer, name, _counted(getattr(trainer, name), seconds, phase))
    batch = _put(rows, tokens, with_masks=False)

    before = reset_memory()
    began = time.process_time()
    balanced = trainer._balance_batch(batch, {})
    processor = time.process_time() - began

    _put_masks(balanced, tokens)
    began = time.process_time()
    with timed(seconds, "advantages"):
        chosen = trainer._pods_step[-1].chosen
        advantages = chosen.advantages_of_rows()
        trainer._pods_overwrite(advantages, balanced)

    with timed(seconds, "metrics"):
        all_rollout_metrics(list(chosen.rows()), {}, kl_in_reward=False)
    seconds["processor"] = processor + time.process_time() - began
    memory = peak_memory() - before

    assert len(advantages) == rows // N * M
    tq.kv_clear(keys=list(advantages), partition_id=balanced.partition_id)
    return seconds, memory


def _counted(
    function: Callable[..., Any], seconds: dict[str, float], phase: str
) -> Callable[..., Any]:
    @wraps(function)
    def counted(*args: Any) -> Any:
        with timed(seconds, phase):
            return function(*args)

    return counted


def _trainer(rows: int, spares: bool = False) -> Any:
    """The trainer as verl makes it, with one rank and no worker.

    Args:
        rows: All rollouts of a step.
        spares: Whether passes are spared; else every kept row is written.
    """
    import hydra
    from verl.trainer.ppo.v1 import get_trainer_cls  # which registers ours, too

    prompts = rows // N
    overrides = [
        "algorithm.adv_estimator=grpo",
        f"data.train_batch_size={prompts}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={prompts}",
        f"actor_rollout_ref.rollout.n={N}",
        "actor_rollout_ref.rollout.name=vllm",
        "trainer.n_gpus_per_node=1",
        "critic.enable=False",
        "trainer.v1.trainer_mode=pods_sync",
        f"+trainer.v1.pods_sync.m={M}",
        "+trainer.v1.pods_sync.baseline=group",
        f"+trainer.v1.pods_sync.skip_zero_advantage={str(spares).lower()}",
        "actor_rollout_ref.actor.use_dynamic_bsz=True",
    ]
    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        config = hydra.compose("ppo_trainer", overrides)
    trainer = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
    trainer.global_steps = 1
    trainer.timing_raw = {}
    trainer.tokenizer = SimpleNamespace(eos_token_id=0)
    trainer.actor_rollout_wg = SimpleNamespace(_dispatch_info={"actor": [0]})
    return trainer


def _put(rows: int, tokens: int, with_masks: bool = True) -> Any:
    """Put rows into the queue, as verl's agent loop does, and give verl's batch of them.

    Args:
        rows: The number of rows.
        tokens: The tokens of each response.
        with_masks: Whether the masks of responses are there, too.
    """
    import transfer_queue as tq

    keys: list[str] = []
    tags: list[dict[str, Any]] = []
    for prompt, rewards_N in enumerate(rewards(rows).tolist()):
        of_prompt = [f"uid{prompt}_{session}_0" for session in range(N)]
        tags_of_prompt = [_tag(tokens) for _ in of_prompt]
        keys += of_prompt
        tags += tags_of_prompt
        tq.kv_batch_put(
            keys=of_prompt,
            partition_id="train",
            fields=_fields(f"uid{prompt}", rewards_N, tokens, with_masks),
            tags=tags_of_prompt,
        )
    return tq.KVBatchMeta(partition_id="train", keys=keys, tags=tags)


def _put_masks(batch: Any, tokens: int) -> None:
    """Put the masks of kept rows, by which advantages are written, into the queue.

    They are put when they are needed, so that the store need not hold those of all rows: with long
    responses they are most of it.
    """
    import torch
    import transfer_queue as tq
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    for first in range(0, len(batch.keys), N):
        keys = batch.keys[first : first + N]
        masks = [{"response_mask": torch.ones(tokens, dtype=torch.int64)} for _ in keys]
        fields = list_of_dict_to_tensordict(masks)
        tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=fields)


def _tag(tokens: int) -> dict[str, Any]:
    return {
        "status": "success",
        "prompt_len": 3,
        "response_len": tokens,
        "seq_len": 3 + tokens,
        "global_steps": 1,
        "min_global_steps": 0,
        "max_global_steps": 0,
    }


def _fields(uid: str, rewards_N: Sequence[float], tokens: int, with_masks: bool) -> Any:
    import torch
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    rows = []
    for reward in rewards_N:
        scores = torch.zeros(tokens)
        scores[-1] = reward
        row = {
            "uid": uid,
            "index": 0,
            "num_turns": 2,
            "prompts": torch.full((3,), 5),
            # Nobody reads these, so they are short, and long responses fit into the store.
            "responses": torch.full((min(tokens, TOKENS),), 7),
            "input_ids": torch.full((3 + min(tokens, TOKENS),), 7),
            "position_ids": torch.arange(3 + min(tokens, TOKENS)),
            "rm_scores": scores,
            "reward_model": {"ground_truth": "7"},
            "extra_fields": {"reward_extra_info": {"acc": reward, "length": float(tokens)}},
        }
        if with_masks:
            row["response_mask"] = torch.ones(tokens, dtype=torch.int64)
        rows.append(row)
    return list_of_dict_to_tensordict(rows)


def of_slime(sizes: Sequence[int] = ROWS) -> list[Measured]:
    """slime's part by rows."""
    step_of_slime(min(512, *sizes))
    return [measure(step_of_slime, "slime", rows) for rows in sizes]


def of_verl(
    sizes: Sequence[int] = ROWS, tokens: int = TOKENS, repeats: int = REPEATS
) -> list[Measured]:
    """verl's part by rows, with responses of so many tokens."""
    step = partial(step_of_verl, tokens=tokens)
    with verls_queue(max(sizes)):
        step(min(512, *sizes))
        return [measure(step, "verl", rows, repeats) for rows in sizes]


def described(
    measured: Sequence[Measured], tokens: int = TOKENS, repeats: int = REPEATS
) -> dict[str, Any]:
    """The measurements of a host with their conditions, as the raw file has them."""
    return {
        "environment": describe_environment(),
        "load": os.getloadavg(),
        "n": N,
        "m": M,
        "tokens": tokens,
        "repeats": repeats,
        "measured": [asdict(of) for of in measured],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure a host."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.hosts")
    parser.add_argument("host", choices=("slime", "verl"))
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of a response, for verl")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--into", type=Path, metavar="FILE", help="put it into this raw file")
    args = parser.parse_args(argv)

    if args.host == "verl":
        measured = of_verl(args.rows, args.tokens, args.repeats)
    else:
        measured = of_slime(args.rows)
    if args.into:
        raw = json.loads(args.into.read_text(encoding="utf-8"))
        name = args.host if args.tokens == TOKENS else f"{args.host}_{args.tokens}"
        write_json(args.into, raw | {name: described(measured, args.tokens, args.repeats)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
