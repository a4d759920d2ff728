"""What the README and the evidence page say of the comparison, from the raw files alone."""

from collections.abc import Mapping
from functools import cache

from benchmarks.comparison import advice
from benchmarks.comparison.model import at_start
from benchmarks.comparison.outcomes import ratio_in_words
from benchmarks.comparison.page import BEFORE_THE_END, points
from benchmarks.comparison.protocol import read_protocol
from benchmarks.comparison.records import Records, Reported
from benchmarks.markdown import table
from podsrl.errors import listed


@cache
def read_reported() -> Reported:
    """The runs that count, from the files of the repository, which all blocks have in common."""
    protocol = read_protocol()
    return Reported(protocol, Records(protocol).attempts())


def state(reported: Reported) -> list[str]:
    """How many runs there are, and what is concluded: a sentence for each set that is complete."""
    runs = reported.protocol.runs
    done = reported.number_that_count()
    if done == 0:
        return ["No run of it has been made yet."]

    lines = []
    if done < len(runs):
        lines.append(f"It is under way: {done} of {len(runs)} runs count so far. {BEFORE_THE_END}")
    sentences = [
        f"* {_set_in_words(reported, name, verdicts)}"
        for name, verdicts in _judged_sets(reported).items()
    ]
    if lines and sentences:
        lines.append("")
    return [*lines, *sentences]


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


def advised(reported: Reported) -> list[str]:
    """The advice with its conditions; that there is none while a run of it is missing."""
    general = advice.general_advice(reported)
    if general is None:
        return ["Nothing is advised yet: some runs are still to be made."]

    sets = reported.protocol.sets_of("reported")
    lines = [f"* {_advised_on(reported, set_name)}" for set_name in sets]
    lines.append(f"* **If you know nothing of your questions**: {general}.")
    for arm, where in advice.for_short_budgets_only(reported).items():
        lines.append(
            f"* **{arm} is for short budgets only**: in longer runs it lost variety on"
            f" {listed(where)}."
        )
    return lines


def _advised_on(reported: Reported, set_name: str) -> str:
    """What is advised for questions like those of a set, and under which condition."""
    at_equal_time = advice.advice(reported, set_name)
    at_equal_rollouts = advice.advice(reported, set_name, "rollouts")
    ran = advice.results_of(reported, "reported", set_name, at_equal_time.arm) or []

    sentences = [
        f"**{_condition(reported, set_name)}** (set {set_name}): {at_equal_time.arm}, which there"
        f" has a g/u of {ratio_in_words(ran)}."
    ]
    if at_equal_time.as_good:
        sentences.append(f"Not told apart from it: {listed(at_equal_time.as_good)}.")
    if not at_equal_time.is_run_long:
        sentences.append("Of longer runs of it nothing is known.")
    if at_equal_rollouts.arm != at_equal_time.arm:
        sentences.append(f"Where generating takes nearly all the time: {at_equal_rollouts.arm}.")
    return " ".join(sentences)


def _condition(reported: Reported, set_name: str) -> str:
    start = at_start()[set_name]
    seconds = reported.protocol.stage("reported")["seconds"]
    return (
        f"{start['sampled']:.0%} of samples right at the start, answers of {start['tokens']:.0f}"
        f" tokens, {seconds} s of training"
    )


def _judged_sets(reported: Reported) -> dict[str, Mapping[str, advice.Verdict]]:
    """The verdicts on the arms of each set of which all can be judged."""
    judged = {}
    for name in reported.protocol.sets_of("reported"):
        verdicts = advice.verdicts(reported, name)
        if all(verdict.word != advice.UNKNOWN for verdict in verdicts.values()):
            judged[name] = verdicts
    return judged


def _set_in_words(reported: Reported, set_name: str, judged: Mapping[str, advice.Verdict]) -> str:
    """The arms by their verdicts, each with its difference from the reference, largest first."""
    protocol = reported.protocol
    ran = advice.results_of(reported, "reported", set_name, protocol.reference) or []
    level = 100 * sum(result["mean_over_run"] for result in ran) / len(ran)

    parts = []
    for word in (advice.BETTER, advice.UNDECIDED, advice.WORSE):
        points_of = {
            arm: 100 * verdict.over_run.mean
            for arm, verdict in judged.items()
            if verdict.word == word and verdict.over_run is not None
        }
        in_order = sorted(points_of, key=lambda arm: points_of[arm], reverse=True)
        arms = ", ".join(f"{arm} ({points_of[arm]:+.1f})" for arm in in_order)
        parts.append(f"{word}: {arms or 'none'}")
    head = (
        f"**{set_name}** ({_condition(reported, set_name)}): {protocol.reference} has"
        f" {level:.1f} % right over the run. In points beside it:"
    )
    return f"{head}\n    * " + ";\n    * ".join(parts) + "."
