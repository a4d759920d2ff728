"""What is learned per second over a grid of prompts, n and m, and which to take."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from podslab.recommend.costs import Batch, Costs, Sizes
from podslab.recommend.populations import Population
from podslab.recommend.signal import MEASURED, Signal, Variances
from podsrl.errors import InvalidInputError

#: Sizes this near to the best count as equal, and the one with the shortest step is taken: timings
#: and pass rates are not known better.
WITHIN = 0.05
_TIMES = (1, 2, 4, 8, 16)  # n, by m


@dataclass(frozen=True)
class Cell:
    """Sizes of a step: rows with a pass, seconds by phase, what it sees, and its worth, 0..1."""

    sizes: Sizes
    passed: float
    phases: Mapping[str, float]
    signal: Signal
    worth: float

    @property
    def seconds(self) -> float:
        """Of the whole step."""
        return sum(self.phases.values())

    @property
    def per_second(self) -> float:
        """What is learned per second, in units of what all prompts share."""
        return self.worth / self.seconds


def splits(rows: int, n: Collection[int] = (), m: Collection[int] = ()) -> list[Sizes]:
    """The ways to spend `rows` of the update per step: every m that divides them, every n >= m.

    Args:
        rows: Prompts x m.
        n: To compare; default: m to 16m by doubling. n = m, plain GRPO, is always in.
        m: To compare; default: 1 (the best one; of even rows), all even ones, and `rows` itself.

    Raises:
        InvalidInputError: An m that does not divide the rows.

    >>> [str(sizes) for sizes in splits(4, n=[8])]  # doctest: +NORMALIZE_WHITESPACE
    ['4 prompts, 8 -> 1 (the best)', '2 prompts, 2 -> 2', '2 prompts, 8 -> 2',
     '1 prompt, 4 -> 4', '1 prompt, 8 -> 4']
    """
    for kept in m:
        if rows % kept:
            raise InvalidInputError(f"m must divide the {rows} rows per step; got {kept}")
    if not m:
        m = {rows, *(kept for kept in range(2, rows, 2) if rows % kept == 0)}
        if rows % 2 == 0:
            m.add(1)

    ways = []
    for kept in sorted(set(m)):
        generated = set(n) if n else {kept * times for times in _TIMES}
        for size in sorted(generated | {kept}):
            if size >= max(2, kept):
                ways.append(Sizes(rows // kept, size, kept))
    return ways


def grid(
    population: Population,
    costs: Costs,
    sizes: Iterable[Sizes],
    batch: Batch | None = None,
    variances: Variances = MEASURED,
) -> list[Cell]:
    """What the sizes cost, and teach of such prompts. batch: by default all rows at once."""
    cells = []
    for size in sizes:
        signal = population.signal(size.n, size.m)
        passed = (batch or Batch(size.rows)).passed(size, signal.chance)
        cells.append(
            Cell(
                sizes=size,
                passed=passed,
                phases=costs.phases(size, passed),
                signal=signal,
                worth=signal.worth(size.prompts, variances),
            )
        )
    return cells


def best(cells: Sequence[Cell]) -> Cell:
    """The cell that learns most per second; of nearly equal ones that of the shortest step."""
    least = (1 - WITHIN) * max(cell.per_second for cell in cells)
    good = [cell for cell in cells if cell.per_second >= least]
    return min(good, key=lambda cell: (cell.seconds, cell.sizes.n))


def why(cells: Sequence[Cell], choice: Cell, plain: Cell, grpo: str) -> str:
    """Why to take the `best` of these cells, for one who would run `plain`, which is `grpo`."""
    if not any(cell.worth for cell in cells):
        return (
            f"{choice.sizes}, nothing else: all rewards of each prompt are equal, so there is"
            " nothing to learn from and nothing to choose by"
        )
    if choice == plain:
        return f"{choice.sizes}, {grpo} as it is: nothing else pays here"
    if not plain.worth:
        return f"{choice.sizes}: of these it learns most per second"

    itself = ""
    if choice.sizes.n == choice.sizes.m:
        itself = ", and is GRPO itself: more rollouts don't pay here"
    return (
        f"{choice.sizes} learns {choice.per_second / plain.per_second:.2f} times as much per second"
        f" as {grpo} with {plain.sizes}{itself}."
        f" A step takes {choice.seconds / plain.seconds:.2f} times as long"
    )
