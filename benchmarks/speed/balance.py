"""The balance of verl's ranks in each mini-batch, simulated in an environment with verl.

    python -m benchmarks.speed.balance --into results/cost.json

A rank waits for the slowest one in every mini-batch. verl balances the
whole batch between ranks, and each rank then cuts its share into mini-batches; podsrl divides each
mini-batch. Work is counted as verl counts it, by the lengths of rows. Nothing is trained.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions

from podsrl.rollout_log.environment import describe_environment
from podsrl.rollout_log.files import write_json
from podsrl.verl.spare_passes import KeptRow, mini_batches_of, plan_passes
from podsrl.verl.trainer import _divide

RANKS = (64, 512)
MINI_BATCHES = (1, 4, 16)
_ROWS_OF_RANK = 16  # of a mini-batch
_LONGEST = 8192
_PROMPT = 512


def lengths(rows: int) -> list[int]:
    """Tokens of rows, prompts included; most answers are short, and some reach the limit."""
    draw = np.random.default_rng(0)
    answers = draw.lognormal(mean=7.0, sigma=0.8, size=rows).clip(16, _LONGEST)
    return [_PROMPT + int(tokens) for tokens in answers]


def slowest(tokens: list[int], parts_of_ranks: list[list[list[int]]]) -> float:
    """The work of the slowest rank over that of the mean, summed over the mini-batches.

    Args:
        tokens: The tokens of each row.
        parts_of_ranks: The places of each rank, by mini-batch.
    """
    work = calculate_workload(torch.tensor(tokens)).double()
    waited = 0.0
    for parts in parts_of_ranks:
        waited += max(float(work[part].sum()) for part in parts)
    return waited / (float(work.sum()) / len(parts_of_ranks[0]))


def of_verl(tokens: list[int], ranks: int, mini_batches: int) -> list[list[list[int]]]:
    """Share rows out as verl does: it balances the batch, and each rank cuts its share."""
    work = calculate_workload(torch.tensor(tokens))
    shares = get_seqlen_balanced_partitions(work, k_partitions=ranks, equal_size=True)
    part = len(tokens) // ranks // mini_batches
    return [
        [share[number * part : (number + 1) * part] for share in shares]
        for number in range(mini_batches)
    ]


def of_podsrl(tokens: list[int], ranks: int, mini_batches: int) -> list[list[list[int]]]:
    """Share rows out as podsrl does: it divides each mini-batch of verl's batch between ranks."""
    shares = of_verl(tokens, ranks, 1)[0]
    order = [place for share in shares for place in share]
    rows = [KeptRow(str(place), 1.0, tokens[place], tokens[place] - _PROMPT) for place in order]
    passes = plan_passes(
        rows,
        mini_batches_of(len(rows), ranks, len(rows) // mini_batches),
        ranks,
        multiple=1,
        divisor="tokens",
    )
    part = len(rows) // ranks // mini_batches
    of_ranks = _divide(passes, ranks)
    return [
        [[order[place] for place in of[number * part : (number + 1) * part]] for of in of_ranks]
        for number in range(mini_batches)
    ]


def measure(ranks: int, mini_batches: int) -> dict[str, Any]:
    """The work of the slowest rank beside the mean, with verl's shares and with podsrl's."""
    tokens = lengths(ranks * _ROWS_OF_RANK * mini_batches)
    theirs = of_verl(tokens, ranks, mini_batches)
    began = time.process_time()
    ours = of_podsrl(tokens, ranks, mini_batches)
    seconds = time.process_time() - began
    assert sorted(row for parts in ours for part in parts for row in part) == [*range(len(tokens))]
    return {
        "ranks": ranks,
        "mini_batches": mini_batches,
        "rows": len(tokens),
        "verl": slowest(tokens, theirs),
        "podsrl": slowest(tokens, ours),
        "seconds": seconds,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, and print a line of JSON for each size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.balance")
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument("--into", type=Path, metavar="FILE", help="put it into this raw file")
    args = parser.parse_args(argv)

    measured = []
    for ranks in args.ranks:
        for mini_batches in MINI_BATCHES:
            measured.append(measure(ranks, mini_batches))
            print(f"simulated   {json.dumps(measured[-1])}", flush=True)
    if args.into:
        raw = json.loads(args.into.read_text(encoding="utf-8"))
        found = {
            "environment": describe_environment(),
            "longest": _PROMPT + _LONGEST,
            "measured": measured,
        }
        write_json(args.into, raw | {"verl_balance": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
