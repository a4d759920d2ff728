"""One process that exchanges rollouts by many plans, alone with others: exchange_worker.py OUT.

Each rollout has a value of every kind that a column may have, which says its place.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from PIL import Image

from podsrl.errors import UnsupportedError
from podsrl.trl.exchange import Exchange, Round, moves_of
from podsrl.trl.rows import EXTRA, Columns, filled

TOTAL, KEPT = 30, 12  # 30 can be halved and divided by 3, not by 4


def picture(place: int) -> Image.Image:
    return Image.new("RGB", (1 + place, 1), (place, 0, 0))


def values_of(place: int) -> dict[str, Any]:
    """What a rollout has in each column; lengths differ, and some have nothing."""
    return {
        "row": {"answer": f"{place}", "handle": {place: [place]}},
        "prompt": [{"role": "user", "content": f"prompt {place}"}],
        "prompt_ids": [place, 150_000 + place],
        "completion_ids": list(range(place)),
        "tool_mask": [place % 2] * place,
        "completion": [{"role": "assistant", "content": "ü" * place}],
        "logps": [None if token == 3 else -token / 3 for token in range(place)],
        "images": [picture(place)] * (place % 3) if place % 5 else None,
        f"{EXTRA}place": place,
    }


def generated(exchange: Exchange) -> Columns:
    """The columns of this process; those with odd numbers have no column of images at all."""
    share = exchange.share(TOTAL)
    rows = [values_of(place) for place in share]
    columns: Columns = {}
    for name in values_of(0):
        columns[name] = [row[name] for row in rows]
    if exchange.process % 2:
        columns["images"] = None

    names = exchange.all_names(name for name in columns if columns[name] is not None)
    return filled(columns, names, len(share))


def plans(world: int) -> list[np.ndarray]:
    """Which places are kept: all of one process's, as many of each, and at random."""
    masks = []
    for process in range(world):
        first = TOTAL * process // world
        mask = np.zeros(TOTAL, dtype=bool)
        mask[np.arange(first, first + KEPT) % TOTAL] = True
        masks.append(mask)

    rng = np.random.default_rng(0)
    for _ in range(20):
        mask = np.zeros(TOTAL, dtype=bool)
        mask[rng.choice(TOTAL, KEPT, replace=False)] = True
        masks.append(mask)

    return masks


def same(found: Any, expected: Any) -> bool:
    """Also where a log-prob of None came as NaN, and those in between in single precision."""
    if isinstance(expected, Image.Image):
        return bool(found.tobytes() == expected.tobytes())
    if isinstance(expected, list) and len(found) == len(expected):
        return all(same(*pair) for pair in zip(found, expected, strict=True))
    if expected is None and isinstance(found, float):
        return math.isnan(found)
    if isinstance(expected, float):
        return found in (expected, float(np.float32(expected)))
    return bool(found == expected)


def exchange_by(exchange: Exchange, mask: np.ndarray) -> None:
    """Exchange by a plan, and see that each row came with all that it had."""
    rows = moves_of(mask.reshape(5, 6), exchange.world)
    before = exchange.bytes_moved
    taken = exchange.to_their_rows(generated(exchange), rows, exchange.share(TOTAL))

    places = rows.by_process[exchange.process]
    assert len(places) == KEPT // exchange.world
    for name, values in taken.items():
        assert values is not None
        for place, value in zip(places, values, strict=True):
            made_by = next(r for r in range(exchange.world) if place in share_at(exchange, r))
            lacks = name == "images" and made_by % 2
            expected = None if lacks else values_of(place)[name]
            assert same(value, expected), (name, place, value, expected)

    gives = any(source == exchange.process for source, _, _ in rows.moved)
    assert (exchange.bytes_moved > before) == gives


def share_at(exchange: Exchange, process: int) -> range:
    return Exchange(process, exchange.world, exchange.device).share(TOTAL)


def gather_numbers(exchange: Exchange) -> None:
    """Numbers come in the order of places, without what fills up a shorter share."""
    share = list(exchange.share(TOTAL))
    longest = -(-TOTAL // exchange.world)
    padded = share + share[-1:] * (longest - len(share))
    numbers = np.array([[place, 2 * place] for place in padded])
    everything = exchange.gather_numbers(numbers, Round.of_all(TOTAL, exchange.world))
    assert everything.tolist() == [[place, 2 * place] for place in range(TOTAL)]

    mask = np.arange(TOTAL) % (2 + exchange.process) == 0
    assert exchange.of_first(mask).tolist() == (np.arange(TOTAL) % 2 == 0).tolist()


def refused(exchange: Exchange, mask: np.ndarray) -> list[str]:
    """What is said of an object of process 0 that can't be sent: when it is tried, and later."""
    columns = generated(exchange)
    if exchange.process == 0:
        for row in columns["row"] or ():
            row["handle"] = lambda: None
    said = []
    for attempt in (
        lambda: exchange.refuse_what_cannot_move(columns, every=6),
        lambda: exchange.to_their_rows(
            columns, moves_of(mask.reshape(5, 6), exchange.world), exchange.share(TOTAL)
        ),
    ):
        try:
            attempt()
        except UnsupportedError as error:
            said.append(str(error))
    exchange.refuse_what_cannot_move(columns, every=6)  # it is tried once
    return said


def main(out: Path) -> None:
    state = PartialState(cpu=True)
    exchange = Exchange(state.process_index, state.num_processes, torch.device("cpu"))
    gather_numbers(exchange)
    all_of_each, *_ = every = plans(exchange.world)
    for mask in every:
        exchange_by(exchange, mask)
    said = refused(exchange, all_of_each)
    exchange_by(exchange, all_of_each)  # and it goes on, with the others
    (out / f"{exchange.process}.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    PartialState().destroy_process_group()
