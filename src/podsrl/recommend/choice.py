"""Signal per second over a grid of n and m, and which to take."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from podsrl.errors import InvalidInputError, UnknownNameError
from podsrl.recommend.costs import Costs
from podsrl.recommend.populations import Population
from podsrl.recommend.signal import DEFAULT_MEASURE, MEASURES, Signal

#: Sizes this near to the best count as equal, and the one with the shortest step is taken: timings
#: and pass rates are not known better.
WITHIN = 0.05
_MOST_SIZES = 4  # measured; the cost of the sizes between is interpolated
_EACH = 2  # generations of each: the first at a new size is slow


@dataclass(frozen=True)
class Cell:
    """One n and m: seconds per step, and what the step learns."""

    n: int
    m: int
    seconds: float
    signal: Signal

    def per_second(self, measure: str) -> float:
        """Signal per second, by one of `MEASURES`."""
        return _measure(measure, self.signal) / self.seconds


@dataclass(frozen=True)
class Choice:
    """What to take, and why in a sentence."""

    cell: Cell
    reason: str


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


def grid(
    population: Population, costs: Costs, sizes: Iterable[int], kept: Iterable[int]
) -> list[Cell]:
    """All n of `sizes` with all m of `kept` that m <= n allows; n = m, plain GRPO, is always in.

    Args:
        population: of prompts.
        costs: seconds per step.
        sizes: rollouts per prompt, n.
        kept: rollouts per prompt in the update, m.
    """
    pairs = sorted({(m, n) for m in kept for n in {m, *sizes} if n >= m})
    return [Cell(n, m, costs.seconds(n, m), population.signal(n, m)) for m, n in pairs]


def recommend(cells: Sequence[Cell], measure: str = DEFAULT_MEASURE) -> Choice:
    """The cell with the most signal per second; of nearly equal ones the shortest step.

    Raises:
        InvalidInputError: no cells.
    """
    if not cells:
        raise InvalidInputError("there is no n >= m to choose from")
    most = max(cell.per_second(measure) for cell in cells)
    good = [cell for cell in cells if cell.per_second(measure) >= (1 - WITHIN) * most]
    best = min(good, key=lambda cell: (cell.seconds, cell.n))
    return Choice(best, _reason(cells, best, measure))


def speedup(
    population: Population,
    costs: Costs,
    arm: tuple[int, int],
    reference: tuple[int, int],
    measure: str = DEFAULT_MEASURE,
) -> float:
    """Predicted speed-up of one arm over another: the ratio of their signal per second.

    Args:
        population: of prompts, the same for both.
        costs: seconds per step.
        arm: its (n, m): GRPO is (16, 16), GRPO-GA (64, 64), PODS (64, 16).
        reference: (n, m) of the other.
        measure: one of `MEASURES`.

    >>> from podsrl.recommend import KnownRates
    >>> costs = Costs.of_rollouts(generate=0.05, update=0.42)
    >>> round(speedup(KnownRates((0.05,)), costs, (64, 16), (16, 16), "drift"), 2)
    1.81
    """
    one, other = (
        Cell(n, m, costs.seconds(n, m), population.signal(n, m)) for n, m in (arm, reference)
    )
    if not other.per_second(measure):
        raise InvalidInputError(
            f"n = {other.n}, m = {other.m} learns nothing of these prompts: no speed-up over it"
        )
    return one.per_second(measure) / other.per_second(measure)


def _measure(measure: str, signal: Signal) -> float:
    if measure not in MEASURES:
        raise UnknownNameError(f"unknown measure {measure!r}; allowed: {', '.join(MEASURES)}")
    return MEASURES[measure](signal)


def _reason(cells: Sequence[Cell], best: Cell, measure: str) -> str:
    """Why, in the names that TRL's users know: num_rollouts is n, num_generations m."""
    sizes = f"num_rollouts = {best.n} with num_generations = {best.m}"
    if not any(cell.signal.contrast for cell in cells):
        return (
            f"{sizes}. All rewards of each prompt are equal, so there is nothing to learn from and"
            " nothing to choose by"
        )
    same_m = [cell for cell in cells if cell.m == best.m]
    if best.n > best.m:
        plain = next((cell for cell in same_m if cell.n == cell.m), None)
        if plain is None or not plain.per_second(measure):
            return f"{sizes}: of these it learns most per second"
        gain = best.per_second(measure) / plain.per_second(measure)
        return (
            f"{sizes} learns {gain:.2f} times as much per second as plain GRPO (num_rollouts ="
            f" {best.m}). {_compared(best, plain)}"
        )
    plain_is = f"{sizes}, plain GRPO: more rollouts don't pay here"
    larger = [cell for cell in same_m if cell.n > best.n]
    if not larger:
        return plain_is
    rival = max(larger, key=lambda cell: cell.per_second(measure))
    share = rival.per_second(measure) / best.per_second(measure)
    return (
        f"{plain_is}. num_rollouts = {rival.n} would learn {share:.2f} times as much per second."
        f" {_compared(rival, best)}"
    )


def _compared(cell: Cell, plain: Cell) -> str:
    spread, plain_spread = cell.signal.contrast, plain.signal.contrast
    equal, plain_equal = 1 - cell.signal.chance, 1 - plain.signal.chance
    return (
        f"The kept rewards of a prompt would have a standard deviation of {spread:.3f} instead of"
        f" {plain_spread:.3f}. {equal:.0%} of the prompts would have rewards that are all equal,"
        f" instead of {plain_equal:.0%}. A step takes {cell.seconds / plain.seconds:.2f} times as"
        " long"
    )
