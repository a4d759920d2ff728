"""The advice, as the rule of the protocol has it, computed from the raw files alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.comparison.intervals import Difference, difference, holm
from benchmarks.comparison.outcomes import Result, compared, from_start
from benchmarks.comparison.protocol import PlannedRun, Protocol
from benchmarks.comparison.records import Reported

BETTER, WORSE, UNDECIDED, UNKNOWN = "better", "worse", "no difference shown", "not judged"


@dataclass(frozen=True)
class Verdict:
    """How an arm compares with the reference on a set.

    Args:
        word: "better", "worse", "no difference shown", or "not judged" where a run is missing.
        over_run: The difference of the means over the run; None where it is not judged.
        end: That at the end.
        p: Of `over_run`, by Holm over the arms of the set.
        why: What else than p speaks against a difference; "" where p alone does, or nothing.
    """

    word: str
    over_run: Difference | None = None
    end: Difference | None = None
    p: float | None = None
    why: str = ""


def results_of(reported: Reported, stage: str, set_name: str, arm: str) -> list[Result] | None:
    """The runs of an arm that count, one for each seed of the stage; None while one is missing."""
    seeds = reported.protocol.stage(stage)["seeds"]
    results = [reported.result(PlannedRun(stage, set_name, arm, seed)) for seed in seeds]
    found = [result for result in results if result is not None]
    return found if len(found) == len(seeds) else None


def complete_results(reported: Reported, stage: str, set_name: str) -> dict[str, list[Result]]:
    """The runs of a stage on a set, of the arms that have all their seeds."""
    found = {}
    for arm in reported.protocol.arms_of(stage):
        results = results_of(reported, stage, set_name, arm)
        if results is not None:
            found[arm] = results
    return found


# What is reported does not change, the draws of a bootstrap take a while, and the page asks often.
@cache
def verdicts(
    reported: Reported, set_name: str, axis: str = "seconds", stage: str = "reported"
) -> Mapping[str, Verdict]:
    """The verdict on every arm beside the reference of a stage, by the runs of the stage."""
    protocol = reported.protocol
    name_of_reference = protocol.reference_of(stage)
    reference = results_of(reported, stage, set_name, name_of_reference)
    judged: dict[str, tuple[Difference, Difference]] = {}
    for arm in protocol.arms_of(stage):
        results = results_of(reported, stage, set_name, arm)
        if arm == name_of_reference or results is None or reference is None:
            continue
        over_run = difference(compared(results, reference, axis=axis, over_run=True))
        judged[arm] = (over_run, difference(compared(results, reference, axis=axis)))

    adjusted = holm([over_run.p for over_run, _ in judged.values()])
    p_of = dict(zip(judged, adjusted, strict=True))
    found = {}
    for arm in protocol.arms_of(stage):
        if arm == name_of_reference:
            continue
        if arm not in judged:
            found[arm] = Verdict(UNKNOWN)
            continue
        over_run, end = judged[arm]
        rule = protocol.values["advice"]
        word = _word(over_run, end, p_of[arm], rule)
        why = ""
        if word == UNDECIDED and p_of[arm] < float(rule["level"]):
            why = _why_undecided(over_run, rule)
        found[arm] = Verdict(word, over_run, end, p_of[arm], why)
    return found


def are_all_judged(found: Mapping[str, Verdict]) -> bool:
    """Whether no run of any arm is missing."""
    return all(verdict.word != UNKNOWN for verdict in found.values())


def arms_with(verdicts_of_sets: Sequence[Mapping[str, Verdict]], word: str) -> dict[str, int]:
    """The arms that have a verdict on any set, with the number of sets, the most first."""
    counts: Counter[str] = Counter()
    for judged in verdicts_of_sets:
        counts.update(arm for arm, verdict in judged.items() if verdict.word == word)
    return dict(counts.most_common())


def _word(over_run: Difference, end: Difference, p: float, rule: Mapping[str, Any]) -> str:
    """The rule for one arm: sure by both intervals, large enough, and not undone at the end."""
    least = float(rule["least_difference"])
    is_sure = p < float(rule["level"])
    if is_sure and over_run.wide_low > 0 and over_run.mean >= least and end.high > 0:
        return BETTER
    if is_sure and over_run.wide_high < 0 and over_run.mean <= -least and end.low < 0:
        return WORSE
    return UNDECIDED


def _why_undecided(over_run: Difference, rule: Mapping[str, Any]) -> str:
    """What a difference with a small p lacks by the rule."""
    least = float(rule["least_difference"])
    if abs(over_run.mean) < least:
        return f"less than {100 * least:g} point"
    if over_run.wide_low <= 0 <= over_run.wide_high:
        return "the bootstrap's interval holds 0"
    return "the end says otherwise"


@dataclass(frozen=True)
class Variety:
    """What a long run costs an arm in variety, on a set.

    Args:
        from_start: Pass@k at the end less that at the start.
        from_other: Pass@k at the end less that of the arm that the rule names; None for itself.
        is_lost: Whether either is further below 0 than the rule allows.
    """

    from_start: Difference
    from_other: Difference | None
    is_lost: bool


@cache
def variety(reported: Reported, set_name: str) -> Mapping[str, Variety]:
    """The variety of the arms that ran long on a set; without those of which a run is missing."""
    protocol = reported.protocol
    rule = protocol.values["advice"]
    most = float(rule["most_variety_lost"])
    other = results_of(reported, "long", set_name, rule["variety_beside"])
    found = {}
    for arm in protocol.arms_of("long"):
        results = results_of(reported, "long", set_name, arm)
        if results is None or other is None:
            continue
        rise = difference(from_start(results, "pass_k"))
        beside = None
        if arm != rule["variety_beside"]:
            beside = difference(compared(results, other, measure="pass_k"))
        losses = [one.mean for one in (rise, beside) if one is not None]
        found[arm] = Variety(rise, beside, is_lost=min(losses) < -most)
    return found


def for_short_budgets_only(reported: Reported) -> dict[str, list[str]]:
    """The arms that lose too much variety in a long run, each with the sets where they do."""
    found: dict[str, list[str]] = {}
    for set_name in reported.protocol.sets_of("long"):
        for arm, lost in variety(reported, set_name).items():
            if lost.is_lost:
                found.setdefault(arm, []).append(set_name)
    return found


def long_runs_are_there(reported: Reported) -> bool:
    """Whether the variety of every arm that is run long is known, on every set where it is."""
    protocol = reported.protocol
    return all(
        set(variety(reported, set_name)) == set(protocol.arms_of("long"))
        for set_name in protocol.sets_of("long")
    )


def beside_the_same_batch(reported: Reported, set_name: str, arm: str) -> Verdict | None:
    """The verdict on an arm beside plain GRPO that generates as many rollouts at once.

    None on sets where this was not run, and for arms that it was not run with.
    """
    stage = reported.protocol.same_batch_on(set_name)
    if stage is None:
        return None
    return verdicts(reported, set_name, stage=stage).get(arm)


@dataclass(frozen=True)
class Advice:
    """What is advised on a set.

    Args:
        arm: The arm; the reference where nothing better was shown.
        is_complete: Whether all arms were judged, and all long runs are there; else it is no
            advice yet.
        is_shown_better: Whether the arm is better than the reference; else it is the reference.
        is_run_long: Whether the arm was run long, so that its variety in longer runs is known.
        is_for_short_budgets: Whether it lost variety there, as the reference may have.
        as_good: Arms from which it could not be told apart.
        short_only: Better arms that lose too much variety in long runs.
    """

    arm: str
    is_complete: bool
    is_shown_better: bool
    is_run_long: bool
    is_for_short_budgets: bool
    as_good: Sequence[str] = ()
    short_only: Sequence[str] = ()


def advice(reported: Reported, set_name: str, axis: str = "seconds") -> Advice:
    """The advice for questions like those of a set."""
    protocol = reported.protocol
    judged = verdicts(reported, set_name, axis)
    short_only = for_short_budgets_only(reported)
    better = {arm: found for arm, found in judged.items() if found.word == BETTER}
    lasting = [arm for arm in better if arm not in short_only]
    best = max(lasting, key=lambda arm: _gain(better[arm]), default=protocol.reference)
    return Advice(
        arm=best,
        is_complete=long_runs_are_there(reported) and are_all_judged(judged),
        is_shown_better=best in lasting,
        is_run_long=best in protocol.arms_of("long"),
        is_for_short_budgets=best in short_only,
        as_good=_not_told_apart(reported, set_name, best, axis),
        short_only=[arm for arm in better if arm in short_only],
    )


def _gain(verdict: Verdict) -> float:
    return verdict.over_run.mean if verdict.over_run else 0.0


def _not_told_apart(reported: Reported, set_name: str, best: str, axis: str) -> list[str]:
    """The arms whose difference from the best has 0 in its interval by t."""
    best_results = results_of(reported, "reported", set_name, best)
    alike = []
    for arm in reported.protocol.arms_of("reported"):
        results = results_of(reported, "reported", set_name, arm)
        if arm == best or results is None or best_results is None:
            continue
        found = difference(compared(results, best_results, axis=axis, over_run=True))
        if found.low <= 0 <= found.high:
            alike.append(arm)
    return alike


def general_advice(reported: Reported, axis: str = "seconds") -> str | None:
    """The arm for who knows nothing of the questions; None while anything is missing.

    It is better on at least `sets_for_all` sets, worse on none, and keeps its variety, as far as it
    was run long, without which it is not advised to all; of several
    the one that is better on most sets, then the one with the largest mean difference over all.
    Where there is none, it is the reference.
    """
    protocol: Protocol = reported.protocol
    short_only = for_short_budgets_only(reported)
    by_set = [verdicts(reported, set_name, axis) for set_name in protocol.sets_of("reported")]
    if not (all(map(are_all_judged, by_set)) and long_runs_are_there(reported)):
        return None

    best = protocol.reference
    best_score = (0, 0.0)
    for arm in by_set[0]:
        words = [judged[arm].word for judged in by_set]
        gain = sum(_gain(judged[arm]) for judged in by_set)
        score = (words.count(BETTER), gain)
        is_enough = words.count(BETTER) >= protocol.values["advice"]["sets_for_all"]
        lasts = arm in protocol.arms_of("long") and arm not in short_only
        if is_enough and WORSE not in words and lasts and score > best_score:
            best = arm
            best_score = score
    return best
