"""The places of rollouts: who generates which, who trains on which, and what travels in between.

| word | meaning |
|---|---|
| place | a rollout's index in the flattened P x N batch, the same on all processes |
| share | the places that a process generates, one after the other |
| rows | the kept places that a process trains on, as many on each |

Every process knows a few numbers of every rollout: rewards, lengths, flags. They are gathered as
tensors, so that all processes select the same and plan the same moves. The rollouts themselves stay
where they were generated. Only where processes kept different numbers of them do the surplus ones
move, each to the one process that trains on it.
"""

import copy
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from accelerate.utils import broadcast, gather, gather_object

from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.trl.messages import logger
from podsrl.trl.rows import OF_EACH_TOKEN, Columns, dataset_images, in_words

Pair = tuple[Any, Any]  # a dataset row and its prompt

_FAILED = -1  # a number of bytes that says: this process can't send


def share_of(total: int, process: int, world: int) -> range:
    """The places that a process generates; shares differ by one where they can't be equal."""
    return range(total * process // world, total * (process + 1) // world)


@dataclass(frozen=True)
class Round:
    """The places that each process generates at a time; it makes as many as the others.

    TRL gathers tensors of one size, so where a process has fewer places its last one is repeated,
    or, where it has none, the last one of its share.

    Args:
        by_process: The places of each process, ascending.
        total: The number of all places of the generation.
    """

    by_process: Sequence[Sequence[int]]
    total: int

    @classmethod
    def of_all(cls, total: int, world: int) -> "Round":
        """The round in which everything is generated."""
        return cls([share_of(total, process, world) for process in range(world)], total)

    @classmethod
    def of_places(cls, chosen_P_N: np.ndarray, world: int) -> "Round":
        """The round in which these rollouts are generated."""
        chosen = chosen_P_N.ravel()
        by_process = []
        for process in range(world):
            share = share_of(chosen.size, process, world)
            by_process.append([place for place in share if chosen[place]])
        return cls(by_process, chosen.size)

    @property
    def is_padded(self) -> bool:
        """Whether some process generates a rollout twice, so that all generate as many."""
        return len({len(places) for places in self.by_process}) > 1

    @property
    def places(self) -> list[int]:
        """The places of all processes, in the order in which they are gathered."""
        return [place for places in self.by_process for place in places]

    def padded(self, process: int) -> list[int]:
        """The places that a process generates, as many as those of any other."""
        own = list(self.by_process[process])
        last = own[-1] if own else share_of(self.total, process, len(self.by_process))[-1]
        return own + [last] * (self._longest - len(own))

    def without_padding(self, values_R: torch.Tensor) -> torch.Tensor:
        """The gathered values of all processes, without those of padding, in the order of `places`.

        Args:
            values_R: The values of all processes, with their padding.
        """
        if not self.is_padded:
            return values_R
        indices = [
            process * self._longest + i
            for process, places in enumerate(self.by_process)
            for i in range(len(places))
        ]
        return values_R[torch.tensor(indices, device=values_R.device)]

    @property
    def _longest(self) -> int:
        return max(map(len, self.by_process))


def n_of_each(pairs: Sequence[Pair], *, m: int, n: int, process: int, world: int) -> list[Pair]:
    """The rollouts that this process generates at once: n of each prompt.

    Args:
        pairs: The dataset rows and prompts of this process, m of each prompt.
        m, n: The rows of a prompt in the update, and its rollouts.
        process, world: The number of this process, and how many there are.
    """
    round_of_all = Round.of_all(len(pairs) * world // m * n, world)
    return pairs_of_places(pairs, round_of_all.padded(process), m=m, n=n, process=process)


def pairs_of_places(
    pairs: Sequence[Pair], places: Sequence[int], *, m: int, n: int, process: int
) -> list[Pair]:
    """A row and a prompt for each place, from TRL's m rows of each prompt.

    Every place of the share is of a prompt that has a row on this process, so nothing is asked of
    the others. TRL lays the P m rows out one after the other, B = P m / W to each of W processes.
    Let x be a place of process r's share, from floor(r P n / W) to below floor((r + 1) P n / W),
    and p = floor(x / n) its prompt, whose rows are p m to below (p + 1) m.

    * x + 1 > r P n / W, and (p + 1) n >= x + 1, so (p + 1) m > r B: p's rows end after the first
      row of this process.
    * x < (r + 1) P n / W, and p n <= x, so p m < (r + 1) B: they begin before its last one ends.

    So the later one of p m and r B is a row of p on this process.

    Args:
        pairs: The dataset rows and prompts of this process, B of them, m of each prompt.
        places: Places of its share.
        m, n: The rows of a prompt in the update, and its rollouts.
        process: The number of this process.
    """
    first_row = process * len(pairs)
    own = []
    for place in places:
        first_row_of_prompt = place // n * m
        own.append(_own_copy(*pairs[max(first_row_of_prompt, first_row) - first_row]))
    return own


def _own_copy(row: Any, prompt: Any) -> Pair:
    """A row and its prompt for one rollout, which a user's function may change.

    Images are shared with the other rollouts: what `deepcopy` is told to have copied already, it
    takes over as it is.
    """
    images_of_rows = dataset_images([row])
    images = images_of_rows[0] if images_of_rows else None
    shared = {id(image): image for image in images or ()}
    return copy.deepcopy((row, prompt), shared)


# ---- which rows move


class Move(NamedTuple):
    """A number of rows that go from one process to another."""

    source: int
    target: int
    number: int


def plan_moves(kept_by_process: Sequence[int]) -> list[Move]:
    """The moves that leave every process with as many rows, of the fewest rows possible.

    A process with more than the mean must give away the difference, and no plan moves fewer rows
    than the sum of these. Here nothing else moves: surplus rows fill up the processes that have too
    few, both in the order of their numbers.

    Args:
        kept_by_process: The number of kept rollouts that each process generated. Their sum is a
            multiple of the number of processes, as TRL's batch is.

    >>> plan_moves([5, 1, 3])
    [Move(source=0, target=1, number=2)]
    """
    equal, rest = divmod(sum(kept_by_process), len(kept_by_process))
    assert rest == 0, f"{kept_by_process} can't be made equal"

    missing = {process: equal - kept for process, kept in enumerate(kept_by_process)}
    needy = [process for process, few in missing.items() if few > 0]
    moves = []
    for source, few in missing.items():
        surplus = -few

        while surplus > 0:
            target = needy[0]
            number = min(surplus, missing[target])
            moves.append(Move(source, target, number))
            surplus -= number
            missing[target] -= number
            if missing[target] == 0:
                needy.pop(0)

    return moves


class Moved(NamedTuple):
    """The places that go from one process to another."""

    source: int
    target: int
    places: list[int]


@dataclass(frozen=True)
class Moves:
    """The rows of each process, and the kept rollouts that move to it.

    Args:
        by_process: The places of each process's rows, ascending.
        moved: The places that another process generated.
    """

    by_process: list[list[int]]
    moved: list[Moved]

    @property
    def places(self) -> list[int]:
        """The places of all rows in the order in which TRL gathers them."""
        return [place for places in self.by_process for place in places]


def moves_of(kept_P_N: np.ndarray, world: int) -> Moves:
    """Share the kept rollouts out, so that every process trains on as many.

    A process with too many gives away its last ones.

    Args:
        kept_P_N: True for the kept rollouts, shape (P, N).
        world: The number of processes.
    """
    kept = np.flatnonzero(kept_P_N)
    by_process = []
    for process in range(world):
        share = share_of(kept_P_N.size, process, world)
        first, end = np.searchsorted(kept, (share.start, share.stop))
        by_process.append(kept[first:end].tolist())

    moved = []
    for source, target, number in plan_moves([len(places) for places in by_process]):
        places = by_process[source][-number:]
        del by_process[source][-number:]
        moved.append(Moved(source, target, places))
    for _, target, places in moved:
        by_process[target].extend(places)
    return Moves([sorted(places) for places in by_process], moved)


# ---- the traffic


class Exchange:
    """The traffic between the processes of a trainer; each method is called by all of them.

    Args:
        process, world: The number of this process, and how many there are.
        device: Where its tensors are.
    """

    def __init__(self, process: int, world: int, device: torch.device) -> None:
        self.process = process
        self.world = world
        self.device = device
        self.bytes_moved = 0  # that this process sent with its rollouts, so far
        self._tried = False

    def share(self, total: int) -> range:
        """The places that this process generates."""
        return share_of(total, self.process, self.world)

    def gather_numbers(self, numbers: np.ndarray, round_: Round) -> np.ndarray:
        """Gather k numbers of each rollout of a round from all processes.

        They are the one thing that grows with all rollouts on every process: 8 k bytes for each.

        Args:
            numbers: The numbers of this process's rollouts, shape (its rollouts, k).
            round_: The round; the result is in the order of its places.
        """
        gathered = gather(torch.from_numpy(numbers).to(self.device))
        return round_.without_padding(gathered).cpu().numpy()

    def all_names(self, names: Iterable[str]) -> list[str]:
        """The names that any process has, in one order."""
        return sorted(set(gather_object(list(names))))

    def refuse_differences(self, settings: Mapping[str, str]) -> None:
        """Refuse settings that a callback has changed on some processes alone: they would hang.

        Raises:
            InvalidInputError: On all processes, with the setting that differs.
        """
        if self.world == 1:
            return
        of_processes = gather_object([dict(settings)])
        for name in of_processes[0]:
            values = [of_process[name] for of_process in of_processes]
            if len(set(values)) > 1:
                raise InvalidInputError(
                    f"{name} differs between processes: {', '.join(values)}. What is set in a run"
                    " must be set on all of them"
                )

    def of_first(self, mask: np.ndarray) -> np.ndarray:
        """Send the first process's mask to all."""
        if self.world == 1:
            return mask
        sent = torch.from_numpy(mask.astype(np.uint8)).to(self.device)
        return broadcast(sent).cpu().numpy().astype(bool)

    def refuse_what_cannot_move(self, columns: Columns, every: int) -> None:
        """Refuse rollouts with values that no process can send; asked in the first generation.

        Args:
            columns: The columns of the rollouts that this process generated.
            every: The distance between two rollouts that are tried: n tries one of each prompt.

        Raises:
            UnsupportedError: On all processes, as one of them holds such a thing.
        """
        if self._tried or self.world == 1:
            return
        self._tried = True
        problems = [problem for problem in gather_object([_unmovable(columns, every)]) if problem]
        if problems:
            raise UnsupportedError(
                f"{problems[0]}, and with these settings rollouts may have to move to another"
                " process. Keep plain values, arrays or images there; or take a prompt rule and"
                " whole prompts on every process (rows per process a multiple of num_generations"
                " at each generation), where none moves"
            )

    def to_their_rows(self, columns: Columns, moves: Moves, places: Sequence[int]) -> Columns:
        """The columns of this process's rows, from those of the rollouts that it generated.

        Args:
            columns: The columns of the rollouts that it generated.
            moves: The rows of each process, and those that move.
            places: The places of these rollouts.

        Raises:
            UnsupportedError: On all processes, as one of them can't send what it must.
        """
        generated = {place: index for index, place in enumerate(places)}
        value_of: dict[str, dict[int, Any]] = {}
        for name, values in columns.items():
            if values is not None:
                value_of[name] = {place: values[index] for place, index in generated.items()}

        if moves.moved:
            self._move(value_of, moves.moved)

        own_places = moves.by_process[self.process]
        taken: Columns = dict.fromkeys(columns)
        for name, of_place in value_of.items():
            taken[name] = [of_place[place] for place in own_places]
        return taken

    def _move(self, value_of: dict[str, dict[int, Any]], moved: Sequence[Moved]) -> None:
        """Send what this process gives away, and add what it gets to `value_of`."""
        problem: Exception | None = None
        parcels = [b""] * self.world
        for source, target, places in moved:
            if source == self.process:
                try:
                    parcels[target] = _packed(value_of, places)
                except Exception as error:  # noqa: BLE001 (of a user's object, which all must hear)
                    problem = error

        try:
            received = self._send(parcels, can_send=problem is None)
        except RuntimeError:
            logger.error(
                "process %d of %d could not exchange rollouts: another process has likely ended;"
                " what that one says is the reason",
                self.process,
                self.world,
            )
            raise
        if received is None:
            who = "this process" if problem else "another process"
            raise UnsupportedError(
                f"{who} can't send a rollout that has to move: {problem or 'it says why'}"
            ) from problem

        for source, target, places in moved:
            if target == self.process:
                for name, values in _unpacked(received[source]).items():
                    value_of[name].update(zip(places, values, strict=True))

    def _send(self, parcels: Sequence[bytes], can_send: bool) -> list[bytes] | None:
        """Send a parcel to each process, and get one of each; None if any of them can't send.

        Sizes go first, which are 8 bytes for each process, then the bytes, from one process to
        another without a detour.
        """
        device = torch.device("cpu") if dist.get_backend() == "gloo" else self.device
        sizes = [len(parcel) if can_send else _FAILED for parcel in parcels]
        sizes_sent = torch.tensor(sizes, dtype=torch.int64, device=device)
        sizes_received = torch.empty_like(sizes_sent)
        dist.all_to_all_single(sizes_received, sizes_sent)
        sizes_got = sizes_received.tolist()
        if not can_send or _FAILED in sizes_got:
            return None

        sent = torch.frombuffer(bytearray(b"".join(parcels) or b"\0"), dtype=torch.uint8)
        sent = sent[: sum(sizes)].to(device)
        got = torch.empty(sum(sizes_got), dtype=torch.uint8, device=device)
        dist.all_to_all_single(got, sent, sizes_got, sizes)
        self.bytes_moved += sum(sizes)

        data = got.cpu().numpy().tobytes()
        ends = np.cumsum(sizes_got).tolist()
        return [data[end - size : end] for end, size in zip(ends, sizes_got, strict=True)]


def _packed(value_of: Mapping[str, Mapping[int, Any]], places: Sequence[int]) -> bytes:
    """The columns of these places as bytes; what is of each token as an array."""
    packed = {}
    for name, of_place in value_of.items():
        values = [of_place[place] for place in places]
        if (kind := OF_EACH_TOKEN.get(name)) is not None:
            values = [_as_array(of_rollout, kind) for of_rollout in values]
        packed[name] = values
    return pickle.dumps(packed, protocol=5)


def _unpacked(data: bytes) -> dict[str, list[Any]]:
    """The columns that `_packed` was given, as lists."""
    columns = pickle.loads(data)  # of another process of this very run
    for name in OF_EACH_TOKEN.keys() & columns.keys():
        columns[name] = [None if values is None else values.tolist() for values in columns[name]]
    return columns


def _as_array(values: Any, kind: type[np.number]) -> np.ndarray | None:
    """Numbers of tokens in 4 bytes each: as precise as the tensors that TRL makes of them.

    A log-prob of None, which vLLM gives for NaN, becomes NaN.
    """
    if values is None:
        return None
    try:
        return np.fromiter(values, kind, len(values))  # in half the time of np.array
    except TypeError:  # of a None
        return np.array(values, dtype=kind)


def _unmovable(columns: Columns, every: int) -> str:
    """The first value that can't be sent to another process, and why; "" if all can."""
    for name, values in columns.items():
        if values is None or name in OF_EACH_TOKEN:
            continue
        for what, value in in_words(name, values[::every]):
            try:
                pickle.dumps(value, protocol=5)
            except Exception as error:  # noqa: BLE001 (a user's object may raise anything)
                return f"{what} can't be sent to another process ({type(error).__name__}: {error})"
    return ""
