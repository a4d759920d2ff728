"""Seeds in several looks: a comparison may stop early, and its level allows for every look.

An interval that is looked at after each seed, until it happens to leave out 0, does so more often
than its level says. So the looks are planned, and each has a part of the level that is fixed
beforehand. By the union bound a false alarm in any look is then at most as likely as the level
says, whatever the looks have in common.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Looks:
    """The numbers of seeds after which a comparison is looked at, ascending.

    Args:
        seeds: The numbers of seeds; after the last one the comparison ends.
        level: The chance of a false alarm over all looks together.
    """

    seeds: tuple[int, ...]
    level: float = 0.05

    def level_at(self, seeds: int, is_last: bool) -> float:
        """The level of the look after so many seeds.

        A look has a part of the level in proportion to its seeds. The last look has all that is
        left: it is the last because seeds or time are at their end, which no result decides.

        >>> looks = Looks((2, 4, 8), level=0.07)
        >>> [round(looks.level_at(seeds, is_last=seeds == 8), 3) for seeds in looks.seeds]
        [0.01, 0.02, 0.04]
        >>> round(looks.level_at(4, is_last=True), 3)  # time is up after the second look
        0.06
        """
        parts = {look: self.level * look / sum(self.seeds) for look in self.seeds}
        if not is_last and seeds in parts:
            return parts[seeds]
        return self.level - sum(part for look, part in parts.items() if look < seeds)


@dataclass(frozen=True)
class Looked:
    """Where a comparison stopped.

    Args:
        seeds: The number of seeds that were trained.
        level: The level of its last look.
    """

    seeds: int
    level: float


def train_in_looks(
    looks: Looks,
    train: Callable[[Sequence[int]], None],
    is_decided: Callable[[int, float], bool],
    has_time: Callable[[Sequence[int]], bool],
) -> Looked:
    """Train seeds until everything is decided, the time is up, or the last look is there.

    Args:
        looks: When to look.
        train: Trains some seeds, given by their places from 0.
        is_decided: Whether all is decided after so many seeds, at a level.
        has_time: Whether there is time for these seeds, given by their places; an earlier start
            may have trained some of them.
    """
    done = 0
    for seeds in looks.seeds:
        while done < seeds:
            until = _until(looks, done, seeds, has_time)
            if until == done:
                break
            train(range(done, until))
            done = until

        is_last = done < seeds or seeds == looks.seeds[-1]
        level = looks.level_at(done, is_last)
        if is_last or is_decided(done, level):
            return Looked(done, level)
    raise AssertionError  # the last look returns


def _until(looks: Looks, done: int, seeds: int, has_time: Callable[[Sequence[int]], bool]) -> int:
    """The number of seeds to which the time suffices, up to the next look; the first one is had."""
    if done < looks.seeds[0]:
        return looks.seeds[0]
    while seeds > done and not has_time(range(done, seeds)):
        seeds -= 1
    return seeds
