"""What the README and the evidence page say of the comparison, from the raw files alone."""

from collections.abc import Mapping, Sequence
from functools import cache

from benchmarks.comparison import advice
from benchmarks.comparison.cells import as_word, points
from benchmarks.comparison.intervals import Difference
from benchmarks.comparison.model import at_start
from benchmarks.comparison.outcomes import Result, pass_at, ratio_in_words
from benchmarks.comparison.page import BEFORE_THE_END
from benchmarks.comparison.protocol import SAME_BATCH, read_protocol
from benchmarks.comparison.protocol_page import step_of
from benchmarks.comparison.records import Records, Reported
from benchmarks.comparison.set_tables import samples_of
from benchmarks.markdown import table

#: Less than what a page shows of a share.
_AT_THE_BOUND = 0.0005
#: Which models an advice is for.
_FOR_WHOM = (
    "for a model of 0.8 million parameters like this one; of others it knows nothing, and"
    " `pods compare train.py` measures it"
)


@cache
def read_reported() -> Reported:
    """The runs that count, from the files of the repository, which all blocks have in common."""
    protocol = read_protocol()
    return Reported(protocol, Records(protocol).attempts())


def front(reported: Reported) -> list[str]:
    """What the README says of it: a table with a row for each set, and what is advised to all."""
    lines = _progress(reported)
    judged_sets = _judged_sets(reported)
    if judged_sets:
        reference = reported.protocol.reference
        heads = [
            "set",
            "samples right at the start",
            "tokens of an answer",
            f"better than {reference}",
            "worse",
            "PODS",
            "at equal rollouts",
        ]
        rows = [
            _set_in_cells(reported, set_name, judged) for set_name, judged in judged_sets.items()
        ]
        lines += table(heads, rows)
    general = advice.general_advice(reported)
    if general is not None:
        lines += [
            "",
            f"**If you know nothing of your questions**, its rule names {general}, {_FOR_WHOM}.",
        ]
        if short_only := _short_only(reported):
            lines += ["", *short_only]
    return lines


def beside_and_longer(reported: Reported) -> list[str]:
    """Arms beside plain GRPO with as many rollouts at once, and variety in the long runs."""
    parts = (_table_beside_as_many_at_once(reported), _table_of_variety(reported))
    lines: list[str] = []
    for part in filter(None, parts):
        lines += ["", *part] if lines else part
    return lines or ["Not known yet."]


def state(reported: Reported) -> list[str]:
    """How many runs there are, and what is concluded: a list for each set that is complete."""
    lines = _progress(reported)
    for set_name, judged in _judged_sets(reported).items():
        lines.append(f"* {_set_in_words(reported, set_name, judged)}")
    return [*lines, *_short_only(reported)]


def _progress(reported: Reported) -> list[str]:
    """How many runs there are, where some are missing, and an empty line before what follows."""
    runs = reported.protocol.runs
    done = reported.number_that_count()
    if done == 0:
        return ["No run of it has been made yet."]
    if done == len(runs):
        return []
    lines = [f"It is under way: {done} of {len(runs)} runs count so far. {BEFORE_THE_END}"]
    return [*lines, ""] if _judged_sets(reported) else lines


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
    lines.append(f"* **If you know nothing of your questions**: {general}, {_FOR_WHOM}.")
    return [*lines, *_short_only(reported)]


def _short_only(reported: Reported) -> list[str]:
    """A line for each arm that loses too much variety in long runs, with how much."""
    rule = reported.protocol.values["advice"]
    most = float(rule["most_variety_lost"])
    measure = f"pass@{samples_of(reported.protocol, 'long')}"
    seconds = reported.protocol.stage("long")["seconds"]
    lines = []
    for arm, where in advice.for_short_budgets_only(reported).items():
        by_how_much = []
        for set_name in where:
            found = advice.variety(reported, set_name)[arm]
            words = f"on {set_name} it was {_in_points(found.from_start)} from its start"
            if found.from_other is not None:
                words += f" and {_in_points(found.from_other)} from {rule['variety_beside']}"
                if abs(found.from_other.mean + most) < _AT_THE_BOUND:
                    words += ", at the bound"
            by_how_much.append(words)
        lines.append(
            f"* **{arm} is for short budgets only, by the rule**: after {seconds} s a {measure} may"
            f" be at most {100 * most:g} points below its own start, and below that of"
            f" {rule['variety_beside']}; {'; '.join(by_how_much)}."
        )
    return lines


def _in_points(found: Difference) -> str:
    return f"{100 * found.mean:+.1f}"


def _advised_on(reported: Reported, set_name: str) -> str:
    """What is advised for questions like those of a set, and under which condition."""
    at_equal_time = advice.advice(reported, set_name)
    at_equal_rollouts = advice.advice(reported, set_name, "rollouts")
    ran = advice.results_of(reported, "reported", set_name, at_equal_time.arm) or []

    sentences = [
        f"**{_condition(reported, set_name)}** (set {set_name}): {_named(at_equal_time)}. Its g/u"
        f" was {ratio_in_words(ran)}."
    ]
    if at_equal_time.as_good:
        sentences.append(f"Not told apart from it: {', '.join(at_equal_time.as_good)}.")
    if not at_equal_time.is_run_long:
        sentences.append("Of longer runs of it nothing is known.")
    sentences += _beside_the_same_batch(reported, set_name, at_equal_time)
    if at_equal_rollouts.arm != at_equal_time.arm:
        sentences.append(
            f"Where generating takes nearly all the time: {_named(at_equal_rollouts)}."
        )
    return " ".join(sentences)


def _beside_the_same_batch(reported: Reported, set_name: str, found: advice.Advice) -> list[str]:
    """Whether an advised arm gains more than its batch does; nothing where that was not run."""
    beside = advice.beside_the_same_batch(reported, set_name, found.arm)
    if not found.is_shown_better or beside is None or beside.over_run is None:
        return []
    reference = reported.protocol.reference_of(SAME_BATCH)
    stage = str(reported.protocol.same_batch_on(set_name))
    steps = _mean_steps(reported, stage, set_name)
    return [
        f"Beside GRPO that generates as many rollouts at once for several updates ({reference}):"
        f" {beside.word} ({_mean_in_points(beside)} points; other runs, {steps:.0f} steps of"
        f" {reported.protocol.reference})."
    ]


def _named(found: advice.Advice) -> str:
    """The advised arm; of the reference, that nothing was shown to be better."""
    if found.is_shown_better:
        return found.arm
    but = " (for short budgets only by the rule, see below)" if found.is_for_short_budgets else ""
    return f"{found.arm}, as none was shown to be better{but}"


def _condition(reported: Reported, set_name: str) -> str:
    """What holds of the questions and of the length of the runs of a set."""
    protocol = reported.protocol
    start = at_start()[set_name]
    steps = _mean_steps(reported, "reported", set_name)
    return (
        f"{start['sampled']:.0%} of samples and {start['greedy']:.0%} of greedy answers right at"
        f" the start, answers of {start['tokens']:.0f} tokens,"
        f" {protocol.stage('reported')['seconds']} s of training, {steps:.0f} steps of"
        f" {protocol.reference}"
    )


def _mean_steps(reported: Reported, stage: str, set_name: str) -> float:
    """How many steps the comparison's reference made in a run of a stage."""
    ran = advice.results_of(reported, stage, set_name, reported.protocol.reference) or []
    return sum(float(result["steps"]) for result in ran) / len(ran)


def _judged_sets(reported: Reported) -> dict[str, Mapping[str, advice.Verdict]]:
    """The verdicts on the arms of each set of which all can be judged."""
    judged = {}
    for name in reported.protocol.sets_of("reported"):
        verdicts = advice.verdicts(reported, name)
        if advice.are_all_judged(verdicts):
            judged[name] = verdicts
    return judged


def _set_in_cells(
    reported: Reported, set_name: str, judged: Mapping[str, advice.Verdict]
) -> list[str]:
    """Which arms are better and worse than the reference on a set, and where PODS stands."""
    start = at_start()[set_name]
    pods = judged.get("pods")
    return [
        set_name,
        f"{start['sampled']:.0%}",
        f"{start['tokens']:.0f}",
        _with_points(judged, advice.BETTER) or "none",
        _with_points(judged, advice.WORSE) or "none",
        f"{pods.word} ({_mean_in_points(pods)})" if pods else "-",
        _at_equal_rollouts(reported, set_name),
    ]


def _set_in_words(reported: Reported, set_name: str, judged: Mapping[str, advice.Verdict]) -> str:
    """The arms by their verdicts, each with its difference from the reference, largest first."""
    protocol = reported.protocol
    ran = advice.results_of(reported, "reported", set_name, protocol.reference) or []
    level = 100 * sum(result["mean_over_run"] for result in ran) / len(ran)

    parts = []
    for word in (advice.BETTER, advice.UNDECIDED, advice.WORSE):
        parts.append(f"{word}: {_with_points(judged, word) or 'none'};")
    if ends := _ends_apart(judged):
        parts.append(f"no difference over the run, but at the end, for itself alone: {ends};")
    parts += _with_as_many_at_once(reported, set_name)
    parts.append(f"at equal rollouts {_at_equal_rollouts(reported, set_name)}.")
    head = (
        f"**{set_name}** ({_condition(reported, set_name)}): {protocol.reference} has"
        f" {level:.1f} % right over the run. In points beside it:"
    )
    return "\n    * ".join([head, *parts])


def _table_beside_as_many_at_once(reported: Reported) -> list[str]:
    """The arms beside plain GRPO that generates as many rollouts at once; nothing till known."""
    protocol = reported.protocol
    rows = []
    for set_name in protocol.sets_of(SAME_BATCH):
        judged = _judged_beside_as_many(reported, set_name)
        if judged:
            cells = [f"{verdict.word} ({_mean_in_points(verdict)})" for verdict in judged.values()]
            rows.append([set_name, *cells])
            arms = list(judged)
    if not rows:
        return []

    reference = protocol.reference_of(SAME_BATCH)
    batch = step_of(protocol, reference)
    alone = step_of(protocol, protocol.reference).rollouts
    explained = (
        f"Arms that choose rows generate {batch.rollouts} rollouts at once, which costs less than"
        f" {as_word(batch.rollouts // alone)} times {alone}. Plain GRPO can do that as well, and"
        f" make {as_word(batch.updates)} updates of them ({reference}: TRL's"
        " `steps_per_generation`). In points over the run beside it, with seeds of their own:"
    )
    return [explained, "", *table(["set", *arms], rows)]


def _with_as_many_at_once(reported: Reported, set_name: str) -> list[str]:
    """Who is better than plain GRPO that generates as many rollouts at once; nothing till known."""
    judged = _judged_beside_as_many(reported, set_name)
    if not judged:
        return []
    verdicts = []
    for word in (advice.BETTER, advice.UNDECIDED, advice.WORSE):
        verdicts.append(f"{word}: {_with_points(judged, word) or 'none'}")
    reference = reported.protocol.reference_of(SAME_BATCH)
    return [f"beside {reference}, which generates as many at once, {'; '.join(verdicts)};"]


def _judged_beside_as_many(reported: Reported, set_name: str) -> Mapping[str, advice.Verdict]:
    """The verdicts beside plain GRPO with the same batch of rollouts; none till all are there."""
    stage = reported.protocol.same_batch_on(set_name)
    if stage is None:
        return {}
    judged = advice.verdicts(reported, set_name, stage=stage)
    return judged if advice.are_all_judged(judged) else {}


def _with_points(judged: Mapping[str, advice.Verdict], word: str) -> str:
    """The arms of a verdict, with their differences over the run, the largest first."""
    points_of = {
        arm: 100 * verdict.over_run.mean
        for arm, verdict in judged.items()
        if verdict.word == word and verdict.over_run is not None
    }
    in_order = sorted(points_of, key=lambda arm: points_of[arm], reverse=True)
    return ", ".join(f"{arm} ({points_of[arm]:+.1f})" for arm in in_order)


def _mean_in_points(verdict: advice.Verdict) -> str:
    """The difference over the run that a verdict rests on."""
    return "not known" if verdict.over_run is None else _in_points(verdict.over_run)


def _ends_apart(judged: Mapping[str, advice.Verdict]) -> str:
    """Undecided arms whose own interval at the end leaves out 0; that of one arm alone."""
    apart = []
    for arm, verdict in judged.items():
        end = verdict.end
        if verdict.word == advice.UNDECIDED and end is not None and end.low * end.high > 0:
            apart.append(f"{arm} ({100 * end.mean:+.1f})")
    return ", ".join(apart)


def _at_equal_rollouts(reported: Reported, set_name: str) -> str:
    """How many arms are better and worse at as many rollouts."""
    judged = advice.verdicts(reported, set_name, "rollouts")
    words = [verdict.word for verdict in judged.values()]
    better = [arm for arm, verdict in judged.items() if verdict.word == advice.BETTER]
    who = "none" if not better else ", ".join(better)
    return (
        f"{who} of {len(words)} arms {'are' if len(better) > 1 else 'is'} better,"
        f" {words.count(advice.WORSE)} worse"
    )


def _table_of_variety(reported: Reported) -> list[str]:
    """Right samples, of one and of several, at the end of the long runs; nothing till known."""
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
        return []

    seconds = protocol.stage("long")["seconds"]
    return [
        f"What it costs in variety, in runs of {seconds} s: the share of right samples, and of"
        f" questions with a right one among {samples} (pass@{samples}):",
        "",
        *table(["set", "the start", *arms], rows),
    ]


def _right_samples(results: Sequence[Result], samples: int, point: int) -> str:
    """Pass@1 and pass@k at a measurement."""
    of_one, of_all = (
        sum(pass_at(result, k, point) for result in results) / len(results) for k in (1, samples)
    )
    return f"{of_one:.0%}, {of_all:.0%}"
