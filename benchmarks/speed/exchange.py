"""The traffic between the processes of a generation: `python -m benchmarks.speed.exchange`.

python -m benchmarks.speed.exchange --world 4 --rollouts 1024 --tokens 4096

Real processes on this machine hold rollouts as TRL's `_generate` returns them, with vLLM's
log-probs, and go through the trainer's own exchange: the numbers of all rollouts are gathered, a
batch rule keeps a quarter, and rows move until all processes have as many. They talk through gloo,
or with `--backend nccl` through NCCL, with a GPU for each. The rollout log is written to a folder
that is deleted afterwards.
"""

import argparse
import json
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from accelerate import PartialState
from accelerate.utils import gather

from benchmarks.speed.resources import loopback, peak_memory, reset_memory, timed
from podsrl.rewards import Rewards
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.rollout_log.writer import RolloutLog
from podsrl.selection import Selected, Selection
from podsrl.trl.exchange import Exchange, Round
from podsrl.trl.generation import KeptRows, Rollouts
from podsrl.trl.recorder import rollout_columns
from podsrl.trl.rows import Columns, numbers_of

PHASES = ("know", "select", "move", "log", "write")


@dataclass(frozen=True)
class Size:
    """The size of a generation that is measured.

    Args:
        world: The number of processes.
        rollouts: The number of rollouts that each of them generated.
        tokens: The length of every completion.
        num_rollouts, num_kept: n and m of each prompt, m on average.
        rule: A batch rule.
        generations: How many are timed, after one that is not.
        backend: "gloo", or "nccl" with a GPU for each process.
    """

    world: int = 4
    rollouts: int = 1024
    tokens: int = 4096
    num_rollouts: int = 32
    num_kept: int = 8
    rule: str = "max_contrast"
    generations: int = 5
    backend: str = "gloo"

    @property
    def prompts(self) -> int:
        """The prompts of all processes."""
        return self.world * self.rollouts // self.num_rollouts

    @property
    def selection(self) -> Selection:
        """The selection of rows across these prompts."""
        return Selection(self.num_rollouts, self.num_kept, self.rule, baseline="group", seed=0)


@dataclass
class Measured:
    """The measurements of one process: medians of seconds over generations, and bytes.

    Args:
        seconds: By phase: knowing the numbers of all rollouts, selecting, moving rows, handing the
            rollouts to the log, and until the log has them on disk, which training does not wait
            for.
        processor: Seconds of processor time that the main thread needs for knowing, selecting and
            moving. The threads in which gloo sends and receives are not counted.
        numbers: The bytes of its rollouts' numbers, which every process gets.
        moved: The bytes of the rollouts that it sent to another process.
        rows_moved: The number of rows of all processes that went from one to another.
        memory: The bytes by which its largest resident memory was above that before, in any
            generation.
        on_the_wire: The bytes that all processes sent over the loopback device, with gloo's own.
    """

    seconds: dict[str, float]
    processor: float
    numbers: int
    moved: int
    rows_moved: int
    memory: int
    on_the_wire: int


class _Words:
    """In the place of a tokenizer: a text for a prompt."""

    def batch_decode(self, prompts: list[Any]) -> list[str]:
        return [f"prompt {prompt[0]}" for prompt in prompts]


def measure(size: Size) -> list[Measured]:
    """The measurements of each process, at this size.

    Raises:
        SystemExit: There are fewer GPUs than processes, and NCCL wants one for each.
    """
    if size.backend == "nccl" and torch.cuda.device_count() < size.world:
        raise SystemExit(
            f"--backend nccl needs a GPU for each of {size.world} processes, and here are"
            f" {torch.cuda.device_count()}; give --world, or --backend gloo"
        )

    with tempfile.TemporaryDirectory() as folder, socket.socket() as holder:
        # It does not listen: it keeps the port from others until rank 0 listens there.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("localhost", 0))
        port = holder.getsockname()[1]

        # Forked, as they need not import torch once more; but CUDA does not survive a fork.
        method = "fork" if size.backend == "gloo" else "spawn"
        mp.start_processes(_process, (size, folder, port), size.world, start_method=method)
        texts = [(Path(folder) / f"{process}.json").read_text() for process in range(size.world)]

    return [Measured(**json.loads(text)) for text in texts]


def _process(process: int, size: Size, folder: str, port: int) -> None:
    torch.set_num_threads(1)
    places = {"RANK": process, "LOCAL_RANK": process, "WORLD_SIZE": size.world}
    places |= {"LOCAL_WORLD_SIZE": size.world, "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in places.items()}
    os.environ["MASTER_ADDR"] = "localhost"
    state = PartialState(cpu=size.backend == "gloo")  # as a trainer's accelerator does it
    assert dist.get_backend() == size.backend, f"here is {dist.get_backend()}"

    exchange = Exchange(process, size.world, state.device)
    log = RolloutLog(RunFolder(Path(folder) / "run"), 10**9, process, size.world)
    columns = columns_of(size, process)
    rewards = rewards_of(size, process)
    generations = []
    for step in range(1 + size.generations):
        generations.append(_generation(size, exchange, log, step, columns, rewards))
    log.close()
    assert log.error is None, log.error

    counted = generations[1:]
    medians = {}
    for phase in PHASES:
        medians[phase] = statistics.median(of.seconds[phase] for of in counted)
    measured = replace(
        counted[-1],
        seconds=medians,
        processor=statistics.median(of.processor for of in counted),
        memory=max(of.memory for of in generations),
    )
    (Path(folder) / f"{process}.json").write_text(json.dumps(asdict(measured)))
    dist.barrier()
    dist.destroy_process_group()


def columns_of(size: Size, process: int) -> Columns:
    """A process's rollouts, as columns of Python lists."""
    rng = np.random.default_rng(process)
    prompts = np.arange(size.rollouts) // size.num_rollouts
    ids = rng.integers(0, 150_000, (size.rollouts, size.tokens)).tolist()
    return {
        "row": [{"answer": str(prompt)} for prompt in prompts],
        "prompt": [[{"role": "user", "content": f"prompt {prompt}"}] for prompt in prompts],
        "prompt_ids": [[int(prompt)] * 200 for prompt in prompts],
        "completion_ids": ids,
        "tool_mask": None,
        "completion": [[{"role": "assistant", "content": "word " * size.tokens}] for _ in ids],
        "logps": (-rng.random((size.rollouts, size.tokens), dtype=np.float32)).tolist(),
        "images": None,
        "tool_images": None,
    }


def rewards_of(size: Size, process: int) -> np.ndarray:
    """The rewards of a process's rollouts, right or wrong, shape (its rollouts, 1).

    Each process's prompts are harder than those of the one before, so that a batch rule keeps
    different numbers of their rollouts.
    """
    right = 0.5 ** (1 + 4 * process / max(1, size.world - 1))
    draw = np.random.default_rng([process, 1])
    return (draw.random((size.rollouts, 1)) < right).astype(np.float32)


def keep(size: Size, scores_P_N: np.ndarray) -> np.ndarray:
    """Keep rollouts of all processes; True for each kept one, shape (P, N)."""
    kept_P_N = np.zeros(scores_P_N.shape, dtype=bool)
    for kept_N, kept in zip(kept_P_N, size.selection.select(scores_P_N), strict=True):
        kept_N[kept] = True
    return kept_P_N


def _generation(
    size: Size,
    exchange: Exchange,
    log: RolloutLog,
    step: int,
    columns: Columns,
    rewards_R_1: np.ndarray,
) -> Measured:
    """A generation from its rewards to its rows, as `PODSTrainer._generate` goes through it."""
    groups = size.prompts
    n = size.num_rollouts
    seconds: dict[str, float] = {}

    dist.barrier()
    memory_before = reset_memory()
    on_the_wire_before = loopback()
    moved_before = exchange.bytes_moved
    processor_before = time.thread_time()

    with timed(seconds, "know"):
        numbers = numbers_of(columns, np.zeros(size.rollouts, dtype=bool))
        of_all = Round.of_all(groups * n, size.world)
        numbers_P_N_3 = exchange.gather_numbers(numbers, of_all).reshape(groups, n, 3)
        rewards = torch.from_numpy(rewards_R_1).to(exchange.device)  # where TRL has them
        by_function_P_N_F = gather(rewards).view(groups, n, 1)
        exchange.all_names(name for name in columns if columns[name] is not None)

    with timed(seconds, "select"):
        rollouts = Rollouts(
            step=step,
            index=0,
            columns=columns,
            places=exchange.share(groups * n),
            by_function_P_N_F=by_function_P_N_F,
            rewards=_rewards(by_function_P_N_F, numbers_P_N_3),
            tokens_P_N=numbers_P_N_3[..., 0],
        )
        kept_P_N = exchange.of_first(keep(size, rollouts.rewards.scores_P_N))
        selected = Selected(size.selection, rollouts.rewards, kept_P_N)
        kept = KeptRows(rollouts, selected, exchange.process, exchange.world)
        advantages_P_N = selected.advantages_P_N

    with timed(seconds, "move"):
        moves = kept.moves
        taken = exchange.to_their_rows(columns, moves, exchange.share(groups * n))
    processor = time.thread_time() - processor_before
    assert len(taken["logps"] or ()) == groups * size.num_kept // size.world

    with timed(seconds, "log"):
        made = rollout_columns(kept, advantages_P_N, _Words())
        log.write(step, made, groups=groups, rollouts=groups * n)
    memory = peak_memory() - memory_before

    # What the others send is counted, too.
    dist.barrier()
    on_the_wire = loopback() - on_the_wire_before

    with timed(seconds, "write"):
        log.flush()

    return Measured(
        seconds=seconds,
        processor=processor,
        numbers=numbers.nbytes + rewards_R_1.nbytes,
        moved=exchange.bytes_moved - moved_before,
        rows_moved=sum(len(places) for _, _, places in moves.moved),
        memory=memory,
        on_the_wire=on_the_wire,
    )


def _rewards(by_function_P_N_F: torch.Tensor, numbers_P_N_3: np.ndarray) -> Rewards:
    """The rewards of one function, right or wrong, with the flags of rollouts that were cut off."""
    return Rewards(
        by_function_P_N_F=by_function_P_N_F.cpu().numpy(),
        reward_weights_F=np.ones(1),
        selection_weights_F=np.ones(1),
        masked_P_N=numbers_P_N_3[..., 1].astype(bool),
        names_F=["right"],
    )


def table(size: Size, measured: list[Measured]) -> str:
    """A line for each process, as markdown."""
    lines = [
        f"{size.world} processes x {size.rollouts:,} rollouts x {size.tokens:,} tokens,"
        f" {size.num_kept} of {size.num_rollouts} kept on average by {size.rule};"
        f" {measured[0].rows_moved} rows move;"
        f" {measured[0].on_the_wire / 1e6:.1f} MB over the loopback device in all",
        "",
        f"| process | {' | '.join(f'{phase}, s' for phase in PHASES)} | processor, s"
        " | numbers, MB | moved, MB | memory, MB |",
        "|---" * (len(PHASES) + 5) + "|",
    ]
    for process, of in enumerate(measured):
        seconds = " | ".join(f"{of.seconds[phase]:.3f}" for phase in PHASES)
        megabytes = " | ".join(f"{b / 1e6:.2f}" for b in (of.numbers, of.moved, of.memory))
        lines.append(f"| {process} | {seconds} | {of.processor:.3f} | {megabytes} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure one size, and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.exchange")
    for name, value in asdict(Size()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    options = vars(parser.parse_args(argv))
    as_json = options.pop("json")
    size = Size(**options)
    measured = measure(size)
    if as_json:
        print(json.dumps({"size": asdict(size), "processes": [asdict(of) for of in measured]}))
    else:
        print(table(size, measured))


if __name__ == "__main__":
    main()
