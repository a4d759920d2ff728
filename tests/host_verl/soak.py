"""Thousands of steps of verl's mode on a real TransferQueue, and what has grown with them.

    nox -s soak_verl                # 2,000 steps, some minutes
    nox -s soak_verl -- 10000

A step is what podsrl does in one: select, drop, balance, spare passes, advantages, metrics. The
trainer is verl's with podsrl's plugin, without workers; rows are put into the queue as verl's agent
loop does. Every second step is as in `pods_separate_async`, of two mini-batches. The exit status is
1 where something grew, or where a step takes longer than one before.
"""

import argparse
import logging
import sys
import time
from typing import Any

import transfer_queue as tq

from benchmarks.speed import hosts
from support.growth import containers, grown, memory_now, objects, of_process

_LINES = 8
_ROWS, _TOKENS = 32, 16  # of a mini-batch, and of a response
_SLOWER = 1.5  # processor time of a step at the end, against the third part of the soak
_MORE_MB = 20


def step_of(trainer: Any, number: int) -> float:
    """A step of one mini-batch, or of two; the processor seconds of the driver."""
    from verl.trainer.ppo.v1 import PPOTrainer

    mini_batches = 1 + number % 2
    trainer.global_steps = number
    trainer.timing_raw = {}
    seconds = 0.0
    for place in range(mini_batches):
        sampled = hosts._put(_ROWS, _TOKENS)
        trainer.local_trigger_step = place
        began = time.process_time()
        batch = trainer._balance_batch(sampled, {})
        trainer._compute_advantage(batch, {})
        seconds += time.process_time() - began
        tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)

    # What verl does at the end of a step needs workers; what podsrl does there does not.
    metrics: dict[str, Any] = {}
    of_verl = PPOTrainer._compute_metrics
    PPOTrainer._compute_metrics = lambda *given, **more: None  # type: ignore[method-assign]
    try:
        trainer._compute_metrics(None, metrics, {"gen": 1.0})
    finally:
        PPOTrainer._compute_metrics = of_verl  # type: ignore[method-assign]
    if mini_batches > 1:  # else verl has them from `_balance_batch`
        assert metrics["pods/rollouts"] == mini_batches * _ROWS
    return seconds


def counts() -> dict[str, int]:
    """What could grow in the driver and in the queue."""
    return {
        **of_process(),
        "rows in the queue": len((tq.kv_list("train") or {}).get("train", {})),
        "memory MB": memory_now(),
    }


def soak(steps: int) -> list[str]:
    """Take steps, print a line for each part of them, and tell what grew."""
    logging.disable(logging.WARNING)  # TransferQueue warns in every step on a small machine
    every = max(1, steps // _LINES)
    found: dict[int, dict[str, Any]] = {}
    whole: dict[int, Any] = {}
    with hosts.verls_queue(4 * _ROWS):
        trainer = hosts._trainer(_ROWS, spares=True)
        seconds = 0.0
        for step in range(1, steps + 1):
            seconds += step_of(trainer, step)
            if step % every == 0:
                found[step] = {"ms of a step": 1000 * seconds / every, **counts()}
                whole[step] = (containers(vars(trainer), "trainer"), objects())
                seconds = 0.0
                if step == every:
                    print("\t".join(["steps", *found[step]]))
                line = (f"{value:.1f}" for value in found[step].values())
                print("\t".join([str(step), *line]), flush=True)
    return _grown(found, whole)


def _grown(found: dict[int, dict[str, Any]], whole: dict[int, Any]) -> list[str]:
    at = list(found)
    quarter = at[_LINES // 4 - 1]
    early, late = found[quarter], found[at[-1]]
    more = grown(early, late)
    more.pop("ms of a step", None)
    first, last = more.pop("memory MB", (0, 0))

    problems = [f"{name}: {before} -> {after}" for name, (before, after) in more.items()]
    third = found[at[2]]["ms of a step"]
    if late["ms of a step"] > _SLOWER * third:
        problems.append(f"ms of a step: {third:.1f} -> {late['ms of a step']:.1f}")
    if last - first > _MORE_MB:
        problems.append(f"memory MB: {first} -> {last}")

    (held_early, types_early), (held_late, types_late) = whole[quarter], whole[at[-1]]
    problems += [f"{name}: {a} -> {b}" for name, (a, b) in grown(held_early, held_late).items()]
    steps = at[-1] - quarter
    problems += [
        f"objects of {name}: {a} -> {b}"
        for name, (a, b) in grown(types_early, types_late).items()
        if b - a > 20 + steps // 10
    ]
    return problems


def main() -> int:
    """Exit status: 1 where something grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", type=int, nargs="?", default=2_000)
    args = parser.parse_args()
    found = soak(args.steps)
    print("grew:", *(found or ["nothing"]), sep="\n  ", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
