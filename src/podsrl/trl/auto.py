"""`num_rollouts: auto`: measure in the first steps, choose n, and stay with it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.recommend.choice import grid, recommend
from podsrl.recommend.costs import Costs, Sizes, Timing
from podsrl.recommend.populations import measured
from podsrl.runs.folder import PHASES

_MOST_SIZES = 4  # measured: enough for a line through them
_EACH = 2  # generations of each: the first at a new size is slow


def candidates(m: int, most: int) -> list[int]:
    """The n to choose from: m (at least 2), 2m, 4m, ... up to `most`.

    >>> candidates(16, 128)
    [16, 32, 64, 128]
    """
    if most < m:
        raise InvalidInputError(f"the largest n, {most}, must be at least m = {m}")
    sizes = [max(2, m)]
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


class RolloutChooser:
    """Says how many rollouts to generate, generation by generation, until n is chosen.

    The measuring generations are training like all others. Each n is measured twice, the largest
    first, so that one too large for the memory fails at once. It knows no trainer: what it is told
    decides, so that processes that are told the same choose the same.

    Args:
        m: rollouts per prompt that the update sees.
        most: the largest n to consider.
        prompts: of an optimiser step.
        rule: that keeps them.
        across: whether rows are chosen across the batch.

    Attributes:
        n: rollouts to generate next.
        schedule: n of each measuring generation: of m, 2m, 4m, ... up to `most`.
        chosen: n, once it is.
        reason: why, in a sentence; until then, what is measured.
    """

    def __init__(
        self,
        m: int,
        most: int,
        prompts: int = 1,
        rule: Any = "max_variance",
        across: bool = False,
    ) -> None:
        self.m, self.prompts, self.rule, self.across = m, prompts, rule, across
        self.candidates = candidates(m, most)
        self.schedule = measuring_schedule(self.candidates)
        self.n = self.schedule[0]
        self.chosen: int | None = None
        sizes = ", ".join(map(str, dict.fromkeys(self.schedule)))
        self.reason = f"the first {len(self.schedule)} generations measure n = {sizes}"
        self._timings: list[Timing] = []
        self._rewards: list[list[float]] = []  # of each group
        self._seconds: defaultdict[str, float] = defaultdict(float)  # of the open generation
        self._lengths: list[int] = []
        if len(self.candidates) == 1:
            self._settle(self.n, f"n = {self.n}: max_num_rollouts allows no other")

    def observe(
        self,
        rewards: Sequence[Sequence[float]],
        lengths: Sequence[int],
        seconds: Mapping[str, float],
        ends: bool = True,
    ) -> int:
        """Learn what one optimiser step generated and took; n for the next generation.

        Args:
            rewards: of each group that the step generated, NaN where there is none.
            lengths: tokens of its completions.
            seconds: by phase.
            ends: whether the next step generates again; until then n stays.
        """
        if self.chosen is not None:
            return self.n
        self._rewards.extend(map(list, rewards))
        self._lengths.extend(lengths)
        for phase, spent in seconds.items():
            self._seconds[phase] += spent
        if ends:
            tokens = sum(self._lengths) / max(1, len(self._lengths))
            generate, score, select, update = (self._seconds[phase] for phase in PHASES)
            now = Sizes(self.prompts, self.n, self.m)
            timed = (generate, score + select, update, tokens)
            self._timings.append(Timing(now.rollouts, now.rows, *timed))
            self._seconds.clear()
            self._lengths.clear()
            if len(self._timings) < len(self.schedule):
                self.n = self.schedule[len(self._timings)]
            else:
                self._settle(*self._best())
        return self.n

    def state_dict(self) -> dict[str, Any]:
        """All that it has learnt, as plain values."""
        return {
            "n": self.n,
            "chosen": self.chosen,
            "reason": self.reason,
            "timings": [tuple(timing) for timing in self._timings],
            "rewards": self._rewards,
            "seconds": dict(self._seconds),
            "lengths": self._lengths,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.n, self.chosen, self.reason = state["n"], state["chosen"], state["reason"]
        self._timings = [Timing(*timing) for timing in state["timings"]]
        self._rewards, self._lengths = state["rewards"], state["lengths"]
        self._seconds = defaultdict(float, state["seconds"])

    def _best(self) -> tuple[int, str]:
        try:
            population = measured(self._rewards, self.rule, self.across)
        except InvalidInputError as error:  # the trainer warns of each such step
            return self.candidates[0], f"n = {self.candidates[0]}: {error}"
        costs = Costs.of_timings(self._timings)
        sizes = [Sizes(self.prompts, n, self.m) for n in self.candidates]
        plain = grid(population, costs, [sizes[0].plain])[0]
        choice = recommend(grid(population, costs, sizes), plain)
        n = choice.cell.sizes.n
        return n, f"num_rollouts = {n}: {choice.reason}"

    def _settle(self, n: int, reason: str) -> None:
        self.n = self.chosen = n
        self.reason = reason
        self._timings, self._rewards = [], []
