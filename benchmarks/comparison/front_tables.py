"""The tables of the comparison that the evidence page shows, from the raw files alone."""

from collections.abc import Mapping, Sequence
from functools import cache

from benchmarks.comparison import advice
from benchmarks.comparison.cells import points
from benchmarks.comparison.outcomes import Result, pass_at
from benchmarks.comparison.protocol import read_protocol
from benchmarks.comparison.records import Records, Reported
from benchmarks.comparison.set_tables import samples_of
from benchmarks.markdown import table


@cache
def read_reported() -> Reported:
    """The runs that count, from the files of the repository, which all tables have in common."""
    protocol = read_protocol()
    return Reported(protocol, Records(protocol).attempts())


def differences(reported: Reported) -> list[str]:
    """Beside the reference, each arm's mean over the run, in a table; sets that are complete."""
    by_set = _judged_sets(reported)
    if not by_set:
        return ["No set is complete yet."]

    rows = []
    for arm in reported.protocol.arms_of("reported"):
        if arm == reported.protocol.reference:
            continue
        cells = [arm]
        for verdicts in by_set.values():
            cells.append(f"{points(verdicts[arm].over_run)}: {verdicts[arm].word}")
        rows.append(cells)
    return table(["arm", *by_set], rows)


def variety(reported: Reported) -> list[str]:
    """Right samples, of one and of several, at the start and the end of the long runs."""
    protocol = reported.protocol
    samples = samples_of(protocol, "long")
    rows = []
    arms = protocol.arms_of("long")
    for set_name in protocol.sets_of("long"):
        results_of_arms = advice.complete_results(reported, "long", set_name)
        if list(results_of_arms) != arms:
            continue
        reference = results_of_arms[protocol.reference]
        shares = [_right_samples(reference, samples, 0)]
        shares += [_right_samples(results, samples, -1) for results in results_of_arms.values()]
        rows.append([set_name, *shares])
    if not rows:
        return ["Not known yet."]
    return table(["set", "the start", *arms], rows)


def _judged_sets(reported: Reported) -> dict[str, Mapping[str, advice.Verdict]]:
    """The verdicts on the arms of each set of which all can be judged."""
    judged = {}
    for name in reported.protocol.sets_of("reported"):
        verdicts = advice.verdicts(reported, name)
        if advice.are_all_judged(verdicts):
            judged[name] = verdicts
    return judged


def _right_samples(results: Sequence[Result], samples: int, point: int) -> str:
    """Pass@1 and pass@k at a measurement."""
    of_one, of_all = (
        sum(pass_at(result, k, point) for result in results) / len(results) for k in (1, samples)
    )
    return f"{of_one:.0%}, {of_all:.0%}"
