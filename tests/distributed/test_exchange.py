"""Which rollouts move between processes: the fewest, and each with all that it has."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("trl")

from podsrl.trl.exchange import n_of_each, plan_moves, rows_of, share_of
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
        of_row = [(f"row {i // m}", f"prompt {i // m}") for i in range(world * rows)]
        made = [
            n_of_each(of_row[r * rows :][:rows], m=m, n=n, process=r, world=world)
            for r in range(world)
        ]
        shares = [share_of(prompts * n, r, world) for r in range(world)]
        found = [
            pair for pairs, share in zip(made, shares, strict=True) for pair in pairs[: len(share)]
        ]
        assert found == [(f"row {p}", f"prompt {p}") for p in range(prompts) for _ in range(n)]
        assert len({len(pairs) for pairs in made}) == 1
        compared += len(found)
    assert compared > 10_000


def fewest_moves(kept: Sequence[int]) -> int:
    """By brute force: how often a row must change process until all have as many."""
    equal = sum(kept) // len(kept)
    seen, wave = {tuple(kept)}, [tuple(kept)]
    for moves in itertools.count():
        if any(set(state) == {equal} for state in wave):
            return moves
        reached = []
        for state, source, target in itertools.product(wave, range(len(kept)), range(len(kept))):
            after = list(state)
            after[source] -= 1
            after[target] += 1
            if after[source] >= 0 and tuple(after) not in seen:
                seen.add(tuple(after))
                reached.append(tuple(after))
        wave = reached
    raise AssertionError


def test_no_plan_moves_fewer_rows():
    for world, most in ((1, 9), (2, 9), (3, 6), (4, 3)):
        for kept in itertools.product(range(most + 1), repeat=world):
            if sum(kept) % world:
                continue
            moves = plan_moves(kept)
            after = list(kept)
            for source, target, number in moves:
                after[source] -= number
                after[target] += number
                assert number > 0
            assert set(after) == {sum(kept) // world}
            assert sum(move.number for move in moves) == fewest_moves(kept), kept
            assert len({(source, target) for source, target, _ in moves}) == len(moves)


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
        kept_P_N = rng.permutation(12 * 5) < 24
        kept_P_N = kept_P_N.reshape(12, 5)
        rows = rows_of(kept_P_N, world)
        assert sorted(rows.places) == np.flatnonzero(kept_P_N).tolist()
        for process, places in enumerate(rows.by_process):
            assert len(places) == 24 // world
            assert places == sorted(places)
            own = [p for p in share_of(60, process, world) if kept_P_N.ravel()[p]]
            stay = own[: len(places)]
            came = [p for _, target, moved in rows.moved if target == process for p in moved]
            assert sorted(stay + came) == places
            left = [p for source, _, moved in rows.moved if source == process for p in moved]
            assert sorted(stay + left) == own


def test_rows_of_a_batch_of_which_all_are_kept_are_those_of_trl():
    for world, prompts, n in itertools.product(range(1, 6), range(1, 6), range(1, 8)):
        if prompts * n % world == 0:
            rows = rows_of(np.ones((prompts, n), dtype=bool), world)
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
    from podsrl.trl.columns import numbers_of

    short, long = (
        {"prompt_ids": [[1]] * 4, "completion_ids": [[1] * tokens] * 4, "images": None}
        for tokens in (1, 1000)
    )
    numbers = [numbers_of(columns, np.zeros(4, dtype=bool)) for columns in (short, long)]
    assert numbers[0].nbytes == numbers[1].nbytes == 4 * 3 * 8
    assert numbers[1][:, 0].tolist() == [1001] * 4
