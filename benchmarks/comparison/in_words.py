"""What the README and the evidence page say of the comparison, from the raw files alone."""

from benchmarks.comparison import advice
from benchmarks.comparison.model import at_start
from benchmarks.comparison.page import points
from benchmarks.comparison.protocol import read_protocol
from benchmarks.comparison.records import Records, Reported
from benchmarks.markdown import table
from podsrl.errors import listed


def read_reported() -> Reported:
    """The runs that count, from the files of the repository."""
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
        lines.append(
            f"It is under way: {done} of {len(runs)} runs count so far. Nothing is concluded of a"
            " set before all its runs ended."
        )
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


def _judged_sets(reported: Reported) -> dict[str, dict[str, advice.Verdict]]:
    """The verdicts on the arms of each set of which all can be judged."""
    judged = {}
    for name in reported.protocol.sets_of("reported"):
        verdicts = advice.verdicts(reported, name)
        if all(verdict.word != advice.UNKNOWN for verdict in verdicts.values()):
            judged[name] = verdicts
    return judged


def _set_in_words(reported: Reported, set_name: str, judged: dict[str, advice.Verdict]) -> str:
    protocol = reported.protocol
    start = at_start()[set_name]
    seconds = protocol.stage("reported")["seconds"]

    parts = []
    for word in (advice.BETTER, advice.WORSE):
        found = [
            f"{arm} ({100 * verdict.over_run.mean:+.1f} points)"
            for arm, verdict in judged.items()
            if verdict.word == word and verdict.over_run is not None
        ]
        parts.append(f"{word} than {protocol.reference} are {listed(found) if found else 'none'}")
    others = [arm for arm, verdict in judged.items() if verdict.word == advice.UNDECIDED]
    if others:
        parts.append(f"of {listed(others)} no difference was shown")
    return (
        f"**{set_name}** ({start['sampled']:.0%} of samples right at the start, answers of"
        f" {start['tokens']:.0f} tokens, {seconds} s of training, right over the run):"
        f" {'; '.join(parts)}."
    )
