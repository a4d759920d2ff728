"""What is learned per second over a grid of prompts, n and m, and which to take."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from podsrl.errors import InvalidInputError
from podsrl.recommend.costs import Costs, Sizes
from podsrl.recommend.populations import Population
from podsrl.recommend.signal import MEASURED, Signal, Variances

#: Sizes this near to the best count as equal, and the one with the shortest step is taken: timings
#: and pass rates are not known better.
WITHIN = 0.05
_TIMES = (1, 2, 4, 8)  # n, by m
_MOST_SIZES = 4  # measured; the cost of the sizes between is interpolated
_EACH = 2  # generations of each: the first at a new size is slow


@dataclass(frozen=True)
class Cell:
    """Sizes of a step: its seconds, what it sees of each prompt, and what it is worth, 0..1."""

    sizes: Sizes
    seconds: float
    signal: Signal
    worth: float

    @property
    def per_second(self) -> float:
        """What is learned per second, in units of what all prompts share."""
        return self.worth / self.seconds


@dataclass(frozen=True)
class Choice:
    """What to take, and why in a sentence."""

    cell: Cell
    reason: str


@dataclass(frozen=True)
class Rounds:
    """Generating in two rounds, the second only for prompts whose kept rollouts can improve.

    first: rollouts of each prompt in the first round. fewer: share of the rollouts that it saves.
        seconds: of generating and scoring, as a share of those without rounds; None: not known.
    """

    first: int
    fewer: float
    seconds: float | None

    @property
    def pays(self) -> bool:
        """Is it faster, by more than timings are known?"""
        return self.seconds is not None and self.seconds < 1 - WITHIN

    @property
    def reason(self) -> str:
        """What it saves, in a sentence."""
        saves = f"rounds of {self.first} would generate {self.fewer:.0%} fewer rollouts"
        if self.seconds is None:
            return f"{saves}; whether that pays can't be said of costs at one size"
        verdict = "pay" if self.pays else "don't pay"
        return f"{saves} in {self.seconds:.2f} times the seconds: they {verdict} here"


def candidates(m: int, most: int) -> list[int]:
    """The n to choose from: m, 2m, 4m, ... up to `most`.

    >>> candidates(16, 128)
    [16, 32, 64, 128]
    """
    if most < m:
        raise InvalidInputError(f"the largest n, {most}, must be at least m = {m}")
    sizes = [m]
    while 2 * sizes[-1] <= most:
        sizes.append(2 * sizes[-1])
    return sizes


def measuring_schedule(sizes: Sequence[int]) -> list[int]:
    """Which n to generate, generation by generation, to measure the cost of all `sizes`.

    The largest first, then the smallest, and at most two between.

    >>> measuring_schedule([16, 32, 64, 128])
    [128, 128, 16, 16, 64, 64, 32, 32]
    >>> measuring_schedule([2, 4, 8, 16, 32, 64, 128])
    [128, 128, 2, 2, 32, 32, 8, 8]
    """
    last = len(sizes) - 1
    parts = min(_MOST_SIZES, len(sizes)) - 1
    between = [sizes[round(i * last / parts)] for i in range(parts - 1, 0, -1)]
    order = dict.fromkeys([sizes[-1], sizes[0], *between])
    return [n for n in order for _ in range(_EACH)]


def splits(rows: int, n: Iterable[int] = (), m: Iterable[int] = ()) -> list[Sizes]:
    """The ways to spend `rows` per step: every m that divides them, with every n >= m.

    Args:
        rows: of the update, prompts x m.
        n: to compare; default: m, 2m, 4m and 8m. n = m, plain GRPO, is always in.
        m: to compare; default: rows, rows / 2, rows / 4, ... as long as it is 2 or more and even.

    >>> [str(sizes) for sizes in splits(4, n=[8])]
    ['2 prompts, 2 -> 2', '2 prompts, 8 -> 2', '1 prompt, 4 -> 4', '1 prompt, 8 -> 4']
    """
    kept = {one for one in m if rows % one == 0}
    if not m:
        one = rows
        kept.add(one)
        while one % 4 == 0:
            one //= 2
            kept.add(one)
    return [
        Sizes(rows // one, size, one)
        for one in sorted(kept)
        for size in sorted({one, *(n or (one * times for times in _TIMES))})
        if size >= one
    ]


def grid(
    population: Population,
    costs: Costs,
    sizes: Iterable[Sizes],
    variances: Variances = MEASURED,
) -> list[Cell]:
    """What the sizes cost and teach.

    Args:
        population: of prompts.
        costs: seconds per step.
        sizes: to compare.
        variances: of the gradients of prompts and rollouts.
    """
    cells = []
    for one in sizes:
        signal = population.signal(one.n, one.m)
        worth = signal.worth(one.prompts, variances)
        cells.append(Cell(one, costs.seconds(one), signal, worth))
    return cells


def best(cells: Sequence[Cell]) -> Cell:
    """The one from which most is learned per second; of nearly equal ones the shortest step."""
    most = max(cell.per_second for cell in cells)
    good = [cell for cell in cells if cell.per_second >= (1 - WITHIN) * most]
    return min(good, key=lambda cell: (cell.seconds, cell.sizes.n))


def recommend(cells: Sequence[Cell], now: Sizes) -> Choice:
    """The `best` cell, and why.

    Args:
        cells: plain GRPO of the present prompts and m among them.
        now: the present sizes.

    Raises:
        InvalidInputError: plain GRPO is missing.
    """
    plain = [cell for cell in cells if cell.sizes == Sizes(now.prompts, now.m, now.m)]
    if not plain:
        raise InvalidInputError(f"plain GRPO, n = m = {now.m}, must be among what is compared")
    choice = best(cells)
    return Choice(choice, _reason(cells, choice, plain[0]))


def speedup(
    population: Population,
    costs: Costs,
    arm: Sizes,
    reference: Sizes,
    variances: Variances = MEASURED,
) -> float:
    """Predicted speed-up of one arm over another: the ratio of what they learn per second.

    Args:
        population: of prompts, the same for both.
        costs: seconds per step.
        arm: its sizes: of one prompt GRPO is (1, 16, 16), GRPO-GA (1, 64, 64), PODS (1, 64, 16).
        reference: sizes of the other.
        variances: of the gradients of prompts and rollouts.

    >>> from podsrl.recommend import KnownRates
    >>> costs = Costs.of_rollouts(generate=0.05, update=0.42)
    >>> round(speedup(KnownRates((0.05,)), costs, Sizes(8, 8, 2), Sizes(1, 16, 16)), 2)
    2.0
    """
    one, other = grid(population, costs, (arm, reference), variances)
    if not other.worth:
        raise InvalidInputError(f"{reference} learns nothing of these prompts: no speed-up over it")
    return one.per_second / other.per_second


def best_rounds(population: Population, costs: Costs, sizes: Sizes) -> Rounds | None:
    """The first round that saves most time, or None where it isn't known which prompts need more.

    Where some prompts need a second round, it is a second call: what a call costs whatever its size
    is paid twice.
    """
    prompts, n, m = sizes
    firsts = [size for size in candidates(m, n) if size < n]
    known = [(first, population.expected_rollouts(n, m, first)) for first in firsts]
    found = [(first, rollouts) for first, rollouts in known if rollouts is not None]
    if not found:
        return None

    def seconds(first: int, rollouts: float) -> float:
        rest = prompts * (rollouts - first)
        again = costs.generate(rest) + costs.score(rest) if rest else 0.0
        return costs.generate(prompts * first) + costs.score(prompts * first) + again

    one_size = len(costs.generate.sizes) == 1
    first, rollouts = min(found, key=lambda one: one[1] if one_size else seconds(*one))
    fewer = 1 - rollouts / n
    if one_size:
        return Rounds(first, fewer, None)
    phases = costs.phases(sizes)
    return Rounds(first, fewer, seconds(first, rollouts) / (phases["generate"] + phases["score"]))


def _reason(cells: Sequence[Cell], best: Cell, plain: Cell) -> str:
    if not any(cell.worth for cell in cells):
        return (
            f"{best.sizes}. All rewards of each prompt are equal, so there is nothing to learn from"
            " and nothing to choose by"
        )
    if not plain.worth:
        return f"{best.sizes}: of these it learns most per second"
    grpo = [cell for cell in cells if cell.sizes.n == cell.sizes.m]
    if best == plain:
        others = [cell for cell in cells if cell != best]
        if not others:
            return f"{best.sizes}, plain GRPO as it is"
        rival = max(others, key=lambda cell: cell.per_second)
        return (
            f"{best.sizes}, plain GRPO as it is. {rival.sizes} would learn"
            f" {rival.per_second / best.per_second:.2f} times as much per second."
            f" {_compared(rival, best)}"
        )
    text = (
        f"{best.sizes} learns {best.per_second / plain.per_second:.2f} times as much per second as"
        f" plain GRPO with {plain.sizes}"
    )
    if best in grpo:
        text += ", and is plain GRPO itself: more rollouts don't pay here"
    elif (other := max(grpo, key=lambda cell: cell.per_second)) != plain:
        text += f", and {best.per_second / other.per_second:.2f} times as much as {other.sizes}"
    return f"{text}. {_compared(best, plain)}"


def _compared(cell: Cell, plain: Cell) -> str:
    return (
        "The kept rewards of a prompt would have a standard deviation of"
        f" {cell.signal.contrast:.3f} instead of {plain.signal.contrast:.3f}."
        f" {1 - cell.signal.chance:.0%} of the prompts would have rewards that are all equal,"
        f" instead of {1 - plain.signal.chance:.0%}. A step takes"
        f" {cell.seconds / plain.seconds:.2f} times as long"
    )
