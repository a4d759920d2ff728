"""The tables of the frozen study that the evidence page shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.frozen import records
from benchmarks.frozen.outcomes import compared, pass_at
from benchmarks.frozen.records import REFERENCE, Result
from benchmarks.markdown import table
from podslab.statistics.differences import BETTER, OPEN, WORSE, Difference, difference, holm


@dataclass(frozen=True)
class Judged:
    """An arm beside the reference on a set, over the run and at the end.

    Args:
        over_run: The difference of the means over the run.
        end: The difference at the end.
        p: The p of `over_run`, adjusted by Holm over the arms of the set.
    """

    over_run: Difference
    end: Difference
    p: float

    @property
    def says(self) -> str:
        """The verdict by the protocol's rule, with both intervals, and the end to agree."""
        rule: dict[str, Any] = records.protocol()["advice"]
        least = float(rule["least_difference"])
        if self.p >= float(rule["level"]) or abs(self.over_run.mean) < least:
            return OPEN
        if self.over_run.wide_low > 0 and self.end.high > 0:
            return BETTER
        if self.over_run.wide_high < 0 and self.end.low < 0:
            return WORSE
        return OPEN


def judged(set_name: str) -> dict[str, Judged]:
    """The verdict on every arm of the reported runs on a set."""
    reference = records.runs("reported", set_name, REFERENCE)
    over_run = {}
    end = {}
    for arm in records.arms_of("reported"):
        if arm != REFERENCE:
            runs = records.runs("reported", set_name, arm)
            over_run[arm] = difference(compared(runs, reference, over_run=True))
            end[arm] = difference(compared(runs, reference))

    adjusted = holm([found.p for found in over_run.values()])
    return {
        arm: Judged(over_run[arm], end[arm], p) for arm, p in zip(over_run, adjusted, strict=True)
    }


def differences() -> list[str]:
    """Each arm's mean over the run, from the reference, in points; with a verdict if it has one."""
    by_set = {name: judged(name) for name in records.sets_of("reported")}
    rows = []
    for arm in records.arms_of("reported"):
        if arm != REFERENCE:
            found = [of_arms[arm] for of_arms in by_set.values()]
            rows.append([arm, *map(_verdict, found)])
    return table(["arm", *by_set], rows)


def _verdict(one: Judged) -> str:
    mean = f"{100 * one.over_run.mean:+.1f}"
    return mean if one.says == OPEN else f"**{mean} {one.says}**"


def variety() -> list[str]:
    """Right samples, of one and of several, at the start and the end of the long runs."""
    arms = records.arms_of("long")
    rows = []
    for set_name in records.sets_of("long"):
        cells = [_right_samples(records.runs("long", set_name, REFERENCE), 0)]
        cells += [_right_samples(records.runs("long", set_name, arm), -1) for arm in arms]
        rows.append([set_name, *cells])
    return table(["set", "the start", *arms], rows)


def _right_samples(runs: Sequence[Result], point: int) -> str:
    """Pass@1 and pass@k at a measurement."""
    samples = int(runs[0]["schedule"]["samples"])
    of_one, of_all = (
        sum(pass_at(result, k, point) for result in runs) / len(runs) for k in (1, samples)
    )
    return f"{of_one:.0%}, {of_all:.0%}"


def points(found: Difference) -> str:
    """A difference of shares in points, with both its intervals."""
    by_seeds = f"{100 * found.low:+.1f} to {100 * found.high:+.1f}"
    wide = f"{100 * found.wide_low:+.1f} to {100 * found.wide_high:+.1f}"
    return f"{100 * found.mean:+.1f} ({by_seeds}; {wide})"
