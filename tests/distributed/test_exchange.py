"""Which rollouts move between processes: the fewest, and each with all that it has."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("trl")

from podsrl.trl.exchange import moves_of, n_of_each, plan_moves, share_of
from support.torchrun import torchrun

WORKER = str(Path(__file__).with_name("exchange_worker.py"))


def test_shares_cover_all_places_once_and_differ_by_one_at_most():
    for total, world in itertools.product(range(1, 40), range(1, 9)):
        shares = [share_of(total, process, world) for process in range(world)]
        assert [place for share in shares for place in share] == list(range(total))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_each_process_finds_the_prompts_of_its_share_in_its_own_rows():
    """Of all numbers of processes, rows each, m and n that TRL allows, up to some size."""
    compared = 0
    sizes = itertools.product(range(1, 7), range(1, 13), range(1, 9), range(1, 14))
    for world, rows, m, n in sizes:
        if world * rows % m or n < m:
            continue

        prompts = world * rows // m
        of_all = [(f"row {i // m}", f"prompt {i // m}") for i in range(world * rows)]
        lengths = set()
        generated = []
        for process in range(world):
            own = of_all[process * rows : (process + 1) * rows]
            pairs = n_of_each(own, m=m, n=n, process=process, world=world)
            share = share_of(prompts * n, process, world)
            lengths.add(len(pairs))
            generated += pairs[: len(share)]  # a shorter share is filled up

        expected = [(f"row {p}", f"prompt {p}") for p in range(prompts) for _ in range(n)]
        assert generated == expected
        assert len(lengths) == 1
        compared += len(generated)
    assert compared > 10_000


def fewest_moves(kept: Sequence[int]) -> int:
    """By brute force: how often a row must change process until all have as many."""
    equal = tuple([sum(kept) // len(kept)] * len(kept))
    wave = {tuple(kept)}
    seen = set(wave)
    moves = 0
    while equal not in wave:
        reached = set().union(*map(one_move_away, wave))
        wave = reached - seen
        seen |= wave
        moves += 1
        assert wave, "no way to an equal number"
    return moves


def one_move_away(state: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Where a row that goes from one process to another leads to."""
    after_moves = set()
    for source, target in itertools.permutations(range(len(state)), 2):
        if state[source] == 0:
            continue
        after = list(state)
        after[source] -= 1
        after[target] += 1
        after_moves.add(tuple(after))
    return after_moves


@pytest.mark.parametrize(("world", "most"), [(1, 9), (2, 9), (3, 6), (4, 3)])
def test_no_plan_moves_fewer_rows(world, most):
    for kept in itertools.product(range(most + 1), repeat=world):
        if sum(kept) % world:
            continue

        moves = plan_moves(kept)
        after = list(kept)
        for source, target, number in moves:
            assert number > 0
            after[source] -= number
            after[target] += number
        assert set(after) == {sum(kept) // world}
        assert sum(move.number for move in moves) == fewest_moves(kept), kept

        pairs = {(source, target) for source, target, _ in moves}
        assert len(pairs) == len(moves)


def test_a_plan_of_many_processes_moves_what_is_above_the_mean():
    rng = np.random.default_rng(0)
    for world in (8, 64, 512):
        kept = rng.integers(0, 20, world)
        kept[0] += -kept.sum() % world
        surplus = int((kept - kept.mean()).clip(min=0).sum())
        assert sum(move.number for move in plan_moves(kept.tolist())) == surplus


def test_kept_rows_stay_where_they_were_generated_and_the_last_ones_of_a_process_move():
    rng = np.random.default_rng(1)
    for world, _ in itertools.product((1, 2, 3, 4), range(30)):
        kept_P_N = rng.permutation(12 * 5).reshape(12, 5) < 24
        kept_places = np.flatnonzero(kept_P_N).tolist()
        rows = moves_of(kept_P_N, world)
        assert sorted(rows.places) == kept_places

        for process, places in enumerate(rows.by_process):
            assert len(places) == 24 // world
            assert places == sorted(places)

            share = share_of(12 * 5, process, world)
            own = [place for place in kept_places if place in share]
            stayed = own[: len(places)]
            came: list[int] = []
            left: list[int] = []
            for source, target, moved in rows.moved:
                if target == process:
                    came += moved
                if source == process:
                    left += moved
            assert sorted(stayed + came) == places
            assert sorted(stayed + left) == own


def test_rows_of_a_batch_of_which_all_are_kept_are_those_of_trl():
    for world, prompts, n in itertools.product(range(1, 6), range(1, 6), range(1, 8)):
        if prompts * n % world == 0:
            rows = moves_of(np.ones((prompts, n), dtype=bool), world)
            assert rows.moved == []
            assert rows.places == list(range(prompts * n))


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3, 4])
def test_a_row_that_moves_takes_everything_along_and_what_can_not_move_is_told_by_all(
    world, tmp_path
):
    process = torchrun(world, tmp_path / "said", WORKER, str(tmp_path))
    assert process.returncode == 0, process.stderr[-3000:]

    for rank in range(world):
        at_first, later = json.loads((tmp_path / f"{rank}.json").read_text())
        assert "the field 'handle' of a rollout can't be sent to another process" in at_first
        assert "plain values" in at_first
        assert ("this process can't send" in later) == (rank == 0)
        assert "can't send a rollout that has to move" in later


def test_bytes_of_the_numbers_do_not_depend_on_the_tokens():
    from podsrl.trl.rows import numbers_of

    def numbers_of_rows(tokens: int) -> np.ndarray:
        columns = {
            "prompt_ids": [[1]] * 4,
            "completion_ids": [[1] * tokens] * 4,
            "images": None,
        }
        return numbers_of(columns, np.zeros(4, dtype=bool))

    short = numbers_of_rows(tokens=1)
    long = numbers_of_rows(tokens=1000)
    assert short.nbytes == long.nbytes == 4 * 3 * 8
    assert long[:, 0].tolist() == [1001] * 4
