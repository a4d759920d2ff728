"""What is learned per second over a grid of prompts, n and m, and which to take."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from podsrl.errors import InvalidInputError
from podslab.recommend.costs import Costs, Sizes
from podslab.recommend.populations import Population, ResampledRewards
from podslab.recommend.signal import MEASURED, Signal, Variances

#: Sizes this near to the best count as equal, and the one with the shortest step is taken: timings
#: and pass rates are not known better.
WITHIN = 0.05
_TIMES = (1, 2, 4, 8)  # n, by m


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


class Choice(NamedTuple):
    """What to take, and why in a sentence."""

    cell: Cell
    reason: str


@dataclass(frozen=True)
class Rounds:
    """Generating in two rounds, the second only for prompts whose kept rollouts can improve.

    sizes: of the step. first: rollouts of each prompt in the first round. fewer: share of rollouts
        saved. seconds: of generating and scoring, as a share of those without rounds; None: not
        known. reward_range: the two rewards that a prompt can have.
    """

    sizes: Sizes
    first: int
    fewer: float
    seconds: float | None
    reward_range: tuple[float, float]

    @property
    def pays(self) -> bool:
        """Is it faster, by more than timings are known?"""
        return self.seconds is not None and self.seconds < 1 - WITHIN

    def __str__(self) -> str:
        fewer = f"{self.fewer:.0%} fewer rollouts"
        saves = f"of {self.sizes}, rounds of {self.first} would generate {fewer}"
        if self.seconds is None:
            return f"{saves}; whether that pays can't be said without what a call costs by itself"
        verdict = "pay" if self.pays else "don't pay"
        return f"{saves} in {self.seconds:.2f} times the seconds: they {verdict} here"


def splits(rows: int, n: Iterable[int] = (), m: Collection[int] = ()) -> list[Sizes]:
    """The ways to spend `rows` of the update per step: every m that divides them, every n >= m.

    Args:
        rows: prompts x m.
        n: to compare; default: m, 2m, 4m, 8m (see also `widened`). n = m, plain GRPO, is always in.
        m: to compare; default: 1 (across the batch), all even ones, and `rows` itself.

    Raises:
        InvalidInputError: an m that does not divide the rows.

    >>> [str(sizes) for sizes in splits(4, n=[8])]  # doctest: +NORMALIZE_WHITESPACE
    ['4 prompts, 8 -> 1 across the batch', '2 prompts, 2 -> 2', '2 prompts, 8 -> 2',
     '1 prompt, 4 -> 4', '1 prompt, 8 -> 4']
    """
    if wrong := [one for one in m if rows % one]:
        raise InvalidInputError(f"m must divide the {rows} rows per step; got {wrong[0]}")
    even = [one for one in range(2, rows, 2) if rows % one == 0]
    return [
        Sizes(rows // one, size, one)
        for one in sorted({*(m or (1, *even, rows))})
        for size in sorted({one, *(n or (one * times for times in _TIMES))})
        if size >= max(2, one)
    ]


def grid(
    population: Population,
    costs: Costs,
    sizes: Iterable[Sizes],
    variances: Variances = MEASURED,
) -> list[Cell]:
    """What the sizes cost, and teach of such prompts."""
    cells = []
    for one in sizes:
        signal = population.signal(one.n, one.m, one.prompts)
        worth = signal.worth(one.prompts, variances)
        cells.append(Cell(one, costs.seconds(one), signal, worth))
    return cells


def widened(
    cells: Sequence[Cell], population: Population, costs: Costs, variances: Variances, most: int
) -> list[Cell]:
    """The cells, and for each m twice its largest n, up to `most`, as long as that is its best."""
    found, seconds = [], costs.ends[-1].seconds
    for m in dict.fromkeys(cell.sizes.m for cell in cells):
        row = [cell for cell in cells if cell.sizes.m == m]
        while best(row, [one.worth / seconds(one.sizes) for one in row]) == row[-1]:
            twice = row[-1].sizes._replace(n=2 * row[-1].sizes.n)
            if twice.n > most:
                break
            row += grid(population, costs, [twice], variances)
        found += row
    return found


def best(cells: Sequence[Cell], values: Sequence[float] = ()) -> Cell:
    """Of greatest value, by default learned per second; of nearly equal ones the shortest step."""
    values = values or [cell.per_second for cell in cells]
    good = [cell for cell, v in zip(cells, values, strict=True) if v >= (1 - WITHIN) * max(values)]
    return min(good, key=lambda cell: (cell.seconds, cell.sizes.n))


def relative(cell: Cell, plain: Cell, costs: Costs) -> list[float]:
    """Learned per second in units of plain GRPO's, at each end of the costs; NaN if that is 0."""
    seconds = [end.seconds for end in costs.ends]
    both = [(cell.worth / at(cell.sizes), plain.worth / at(plain.sizes)) for at in seconds]
    return [own / unit if unit else float("nan") for own, unit in both]


def recommend(cells: Sequence[Cell], plain: Cell, costs: Costs | None = None) -> Choice:
    """The `best` cell, and why, for one who would otherwise run the cell `plain`, GRPO.

    costs: of the cells. If they were timed at one size, the cell that loses least at either end of
        them. Seconds are linear in the fixed part of a call, so it does so between the ends, too.
    """
    if costs is None or costs.timed_at is None or not plain.worth:
        choice = best(cells)
        return Choice(choice, _reason(cells, choice, plain))
    at = {cell: relative(cell, plain, costs) for cell in cells}
    ends = list(zip(*at.values(), strict=True))
    worst = [
        min(value / max(end) for value, end in zip(by, ends, strict=True)) for by in at.values()
    ]
    choice = best(cells, worst)
    text = (
        f"{choice.sizes} learns {min(at[choice]):.2f} to {max(at[choice]):.2f} times as much per"
        f" second as plain GRPO with {plain.sizes}. Generation was timed at one size,"
        f" {costs.timed_at:g} rollouts: how much of its time is fixed is not known"
    )
    if worst[cells.index(choice)] >= 1 - WITHIN:
        return Choice(choice, f"{text}. Either way this is within {WITHIN:.0%} of the best")
    none, all_ = (best(cells, end) for end in ends)
    return Choice(
        choice,
        f"{text}, and decides. If none, {none.sizes} is best, {at[none][0]:.2f} times. If all,"
        f" {all_.sizes} is, {at[all_][1]:.2f} times. {choice.sizes} loses least if it is wrong. To"
        " know, run `pods recommend --config FILE`, which times several sizes, or give a second run"
        " of another size",
    )


def best_rounds(population: Population, costs: Costs, sizes: Sizes) -> Rounds | None:
    """The first round that saves most time; None where it isn't known which prompts need more.

    That depends on the range of the rewards, and there is none for odd m. The second round is a
    second call of the generator: what any call costs is paid twice.
    """
    prompts, n, m = sizes
    if m % 2 or isinstance(population, ResampledRewards):
        return None
    limits = population.reward_range
    if limits[0] == limits[1]:  # only one reward was seen
        return None
    generate, score = costs.generate, costs.score
    all_at_once = generate(sizes.rollouts) + score(sizes.rollouts)
    found, first = [], m
    while first < n:
        rollouts = population.expected_rollouts(n, m, first)
        parts = [prompts * first, prompts * (rollouts - first)]
        seconds = sum(generate(part) + score(part) for part in parts if part > 0)
        share = seconds / all_at_once if generate.fixed else None
        found.append(Rounds(sizes, first, 1 - rollouts / n, share, limits))
        first *= 2
    return min(found, key=lambda one: (one.seconds or 0.0, -one.fewer), default=None)


def _reason(cells: Sequence[Cell], choice: Cell, plain: Cell) -> str:
    if not any(cell.worth for cell in cells):
        return (
            f"{choice.sizes}, nothing else: all rewards of each prompt are equal, so there is"
            " nothing to learn from and nothing to choose by"
        )
    if choice == plain:
        return f"{choice.sizes}, plain GRPO as it is: nothing else pays here"
    if not plain.worth:
        return f"{choice.sizes}: of these it learns most per second"
    text = (
        f"{choice.sizes} learns {choice.per_second / plain.per_second:.2f} times as much per second"
        f" as plain GRPO with {plain.sizes}"
    )
    grpo = max(
        (plain, *(cell for cell in cells if cell.sizes.n == cell.sizes.m)),
        key=lambda cell: cell.per_second,
    )
    if choice.sizes.n == choice.sizes.m:
        text += ", and is plain GRPO itself: more rollouts don't pay here"
    elif grpo != plain:
        text += f", and {choice.per_second / grpo.per_second:.2f} times as much as {grpo.sizes}"
    return (
        f"{text}. The kept rewards of a prompt would have a standard deviation of"
        f" {choice.signal.contrast:.3f} instead of {plain.signal.contrast:.3f}."
        f" {abs(1 - choice.signal.chance):.0%} of the rows would be of prompts whose kept rewards"
        f" are all equal, instead of {abs(1 - plain.signal.chance):.0%}. A step takes"
        f" {choice.seconds / plain.seconds:.2f} times as long"
    )
