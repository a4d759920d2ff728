"""results/comparison/README.md, from the raw files alone, and the tables of the protocol's page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.comparison import advice
from benchmarks.comparison.cells import INTERVALS, as_word, made_on
from benchmarks.comparison.figure import draw
from benchmarks.comparison.foretold import foretold
from benchmarks.comparison.long_tables import long_in_tables
from benchmarks.comparison.outcomes import ratio_in_words
from benchmarks.comparison.protocol import (
    ON_GPU,
    SAME_BATCH,
    SAME_BATCH_AGAIN,
    TUNING,
    PlannedRun,
    Protocol,
)
from benchmarks.comparison.protocol_page import fill, step_of
from benchmarks.comparison.records import EARLIER, Attempt, Records, Reported
from benchmarks.comparison.set_tables import (
    samples_of,
    set_in_tables,
    variety_cells,
    verdict_cells,
)
from benchmarks.markdown import table
from podslab.report.drawing import render
from podsrl.rollout_log.files import write_whole

#: What holds while runs are missing.
BEFORE_THE_END = (
    "Nothing is said of a set before all its reported runs ended. What longer runs cost in variety"
    " is not known before the long runs ended, and nothing is advised before all runs did."
)
_HEAD = """# One comparison of ways to choose rows

On a model like this one, with right answers this rare and generation this expensive: which way of
choosing rows is worth it, and what does it cost in variety? [The protocol](protocol.md) was
committed before the runs, and there is no ratio to reach: "no difference shown" is a result.

`python -m benchmarks.comparison page` makes this page from the files in `raw/`.
`python -m benchmarks.comparison one ARM SET SEED` repeats one reported run.
"""
#: What holds whatever the runs show, and a reader should know before the tables. What the protocol
#: says is filled in: see `_before_the_tables`.
_BEFORE_THE_TABLES = """## Before you read the tables

* **Over the run** is the mean of the share of right greedy answers over training time, the area
  under its curve. The verdict rests on it. It is measured
  [at set times](protocol.md#what-is-measured), with a straight line in between.
* **Training time** is processor time of one thread. Arms that generate {larger} rollouts at once
  pay less for each than the reference, which generates {smaller}. So what an arm gains beside the
  reference, it gains *with* its batch. Each set has a table beside two controls of the same batch,
  and {sets} sets have plain GRPO that generates {larger} and makes {updates} updates of them.
* **Equal rollouts** take this discount away, and most updates with it: out of as many rollouts an
  arm of {larger} makes one step where the reference makes {times}.
* **A verdict** allows for all arms of its table, and an interval for its own arm alone. So an
  interval may leave out 0 where no difference is shown. A verdict does not allow for the other
  sets, and *not told apart* allows for nothing. All differences share the runs of the reference.
* **Whose arms these are.** max_contrast is the project's own, and the rule on variety measures
  the other long arms by it. rejection-sampling keeps the rows that RAFT keeps, but weighs them by
  their advantage over all {best_of}, which is 0 where all are right; RAFT weighs them alike.
* **Tuning** chose among {rates} rates, each about {apart} times the one before. An arm whose best
  rate lies between two of them does worse here than it could. Sizes were not tuned.
* **The machines** differ in speed from run to run, by what else runs on them. The order of the
  arms is drawn, so this is part of the spread between seeds. The tables show rollouts and probes
  with their ranges.
"""


def write_page(records: Records) -> Path:
    """Write README.md into the folder of the records.

    Raises:
        PodsError: A raw file is of a run, or has settings, that the protocol does not name.
    """
    attempts = records.attempts()
    reported = Reported(records.protocol, attempts)
    reported.check_rates()
    parts = [_HEAD, *_state(reported, attempts)]
    if any(attempt.state == "ended" for attempt in attempts):
        parts += _in_short(reported)
        parts += _advice(reported)
        parts += _figure(reported, records.folder / "curves.png")
        parts.append(_before_the_tables(records.protocol))
        for set_name in records.protocol.sets:
            parts += set_in_tables(reported, set_name)
        parts += _foretold(reported)
        parts += long_in_tables(reported)
        parts += _same_batch(reported)
        parts += _tuning(reported)
        parts += _on_gpu(reported)
    parts += _attempts(reported, attempts)

    file = records.folder / "README.md"
    write_whole(file, ("\n".join(parts).rstrip("\n") + "\n").encode())
    return file


def progress(reported: Reported) -> list[str]:
    """How many runs of each stage count already."""
    protocol = reported.protocol
    planned = Counter(run.stage for run in protocol.runs)
    done = Counter(run.stage for run in protocol.runs if reported.result(run) is not None)
    rows = [[stage, str(done[stage]), str(count)] for stage, count in planned.items()]
    return table(["stage", "runs that count", "planned"], rows, align_right=True)


def _before_the_tables(protocol: Protocol) -> str:
    """What a reader should know before the tables, with the sizes and counts of the protocol."""
    reference = step_of(protocol, protocol.reference)
    batch = step_of(protocol, protocol.reference_of(SAME_BATCH))
    rates = protocol.stage(TUNING)["rates"]
    return _BEFORE_THE_TABLES.format(
        smaller=reference.rollouts,
        larger=batch.rollouts,
        times=as_word(batch.rollouts // reference.rollouts),
        updates=as_word(batch.updates),
        sets=as_word(len(protocol.sets_of(SAME_BATCH))),
        best_of=as_word(step_of(protocol, "rejection-sampling").generated),
        rates=as_word(len(rates)),
        apart=as_word(round(rates[1] / rates[0])),
    )


def _state(reported: Reported, attempts: Sequence[Attempt]) -> list[str]:
    lines = ["## State", ""]
    done = reported.number_that_count()
    if not attempts:
        lines += ["**No run has been made yet.** What follows are plans alone.", ""]
    elif done < len(reported.protocol.runs):
        lines += [
            f"**Not complete.** {BEFORE_THE_END}",
            "",
        ]
    return [*lines, *progress(reported), ""]


def _in_short(reported: Reported) -> list[str]:
    """On how many sets each arm is better and worse; nothing while a set can't be judged."""
    sets = reported.protocol.sets_of("reported")
    at_equal_time = [advice.verdicts(reported, set_name) for set_name in sets]
    at_equal_rollouts = [advice.verdicts(reported, set_name, "rollouts") for set_name in sets]
    if not all(map(advice.are_all_judged, at_equal_time)):
        return []

    other = set(advice.arms_with(at_equal_time, advice.BETTER))
    other |= set(advice.arms_with(at_equal_time, advice.WORSE))
    undecided = [arm for arm in at_equal_time[0] if arm not in other]
    return [
        "## In short",
        "",
        f"Beside {reported.protocol.reference}, by greedy answers over the run, of {len(sets)}"
        " sets:",
        "",
        f"* **At equal time** better: {_on_sets(at_equal_time, advice.BETTER)}. Worse:"
        f" {_on_sets(at_equal_time, advice.WORSE)}. No difference shown on any:"
        f" {', '.join(undecided) or 'none'}.",
        f"* **At equal rollouts** better: {_on_sets(at_equal_rollouts, advice.BETTER)}. Worse:"
        f" {_on_sets(at_equal_rollouts, advice.WORSE)}.",
        "",
    ]


def _on_sets(verdicts_of_sets: Sequence[Mapping[str, advice.Verdict]], word: str) -> str:
    """The arms that have a verdict on any set, with the number of sets."""
    counts = advice.arms_with(verdicts_of_sets, word)
    return ", ".join(f"{arm} (on {count})" for arm, count in counts.items()) or "none"


def _advice(reported: Reported) -> list[str]:
    lines = ["## Advice", "", "By [the rule in the protocol](protocol.md#the-advice).", ""]
    rows = []
    for set_name in reported.protocol.sets_of("reported"):
        for axis in ("seconds", "rollouts"):
            found = advice.advice(reported, set_name, axis)
            cells = [set_name, "time" if axis == "seconds" else "rollouts"]
            if found.is_complete:
                run_long = "no"
                if found.is_run_long:
                    run_long = f"on {', '.join(reported.protocol.sets_of('long'))}"
                cells += [_advised(reported, set_name, found), run_long]
                cells += [", ".join(found.as_good), ", ".join(found.short_only)]
            else:
                cells += ["not complete", "", "", ""]
            rows.append(cells)
    heads = ["set", "at equal", "advised", "was run long, too", "not told apart from it"]
    lines += [*table([*heads, "better, for short runs only"], rows), ""]

    general = advice.general_advice(reported)
    known = f"**{general}**" if general else "not complete"
    lines += [f"For who knows nothing of the questions, at equal time: {known}.", ""]
    samples = samples_of(reported.protocol, "long")
    for arm, sets in advice.for_short_budgets_only(reported).items():
        lines += [
            f"By the rule **{arm}** is for short budgets only: in the long runs its pass@{samples}"
            f" ends too low on {', '.join(sets)} ([by how much](#long-runs)).",
            "",
        ]
    return lines


def _advised(reported: Reported, set_name: str, found: advice.Advice) -> str:
    """The advised arm, and what has to be known of it."""
    words = [] if found.is_shown_better else ["none was shown to be better"]
    beside = advice.beside_the_same_batch(reported, set_name, found.arm)
    if found.is_shown_better and beside is not None and beside.over_run is not None:
        reference = reported.protocol.reference_of(SAME_BATCH)
        words.append(f"{beside.word} beside {reference}")
    if found.is_for_short_budgets:
        words.append("itself for short budgets only")
    return f"{found.arm} ({'; '.join(words)})" if words else found.arm


def _figure(reported: Reported, file: Path) -> list[str]:
    """Draw what there is into the file; nothing where there is nothing."""
    by_set = {}
    for set_name in reported.protocol.sets_of("reported"):
        if results := advice.complete_results(reported, "reported", set_name):
            by_set[set_name] = results
    if not by_set:
        return []
    write_whole(file, render(draw(by_set), "png"))
    return [
        "![Greedy accuracy over training time, mean over seeds; right of the curves the ends, with"
        f" 95 % by t over seeds]({file.name})",
        "",
    ]


def _foretold(reported: Reported) -> list[str]:
    lines = ["## What `pods recommend` foretold", ""]
    rows = []
    for set_name in reported.protocol.sets_of("reported"):
        found = foretold(reported, set_name)
        if found is None:
            continue
        number = len(reported.protocol.arms_of("reported"))
        place = "not complete" if found.place is None else f"{found.place} of {number}"
        is_as_good = "not complete"
        if found.is_as_good is not None:
            is_as_good = "yes" if found.is_as_good else "no"
        rows.append([set_name, f"{found.ratio:.2f}", found.arm, place, is_as_good])
    if not rows:
        return []
    heads = ["set", "g/u in tuning", "it names", "place by the mean over the run"]
    as_good = [row[-1] for row in rows].count("yes")
    return [
        *lines,
        *table([*heads, "advised, or not told apart from that"], rows),
        "",
        f"So by g/u alone it named the advised arm, or one as good, on {as_good} of {len(rows)}"
        " sets. The command names none by g/u any more.",
        "",
    ]


def _same_batch(reported: Reported) -> list[str]:
    """Arms beside plain GRPO that generates as many rollouts at once as they do."""
    reference = reported.protocol.reference_of(SAME_BATCH)
    step = step_of(reported.protocol, reference)
    lines = [
        "## Beside plain GRPO that generates as many at once",
        "",
        f"{reference} generates {step.rollouts} rollouts at once, as the arms that choose among"
        f" them do, and trains on all of them, in {as_word(step.updates)} updates. Runs with seeds"
        f" of their own. In points beside {reference}. {INTERVALS}",
        "",
    ]
    for stage in (SAME_BATCH, SAME_BATCH_AGAIN):
        if stage not in reported.protocol.stages:
            continue
        for set_name in reported.protocol.sets_of(stage):
            rows = _judged(reported, set_name, stage)
            lines += [f"### The stage {stage} on the set {set_name}", ""]
            lines += [*(rows or ["Not complete."]), ""]
    return lines


def _on_gpu(reported: Reported) -> list[str]:
    """The runs on a GPU, of each set that has any; where there are none, what they would take."""
    protocol = reported.protocol
    lines = []
    for set_name in protocol.sets_of(ON_GPU):
        if rows := _judged(reported, set_name, ON_GPU):
            beside = f"beside {protocol.reference} in points. {INTERVALS}"
            lines += [f"The set {set_name}, {beside}", "", *rows, ""]
    if not lines:
        number = len(protocol.gpu_runs)
        minutes = number * protocol.stage(ON_GPU)["seconds"] / 60
        lines = [
            f"None of the {number} planned runs has been made. They are {minutes:.0f} minutes of"
            " training alone, less where [several run side by side](protocol.md#the-runs), and no"
            " GPU could be had for so long.",
            "",
        ]
    return ["## On a GPU", "", *lines]


def _judged(reported: Reported, set_name: str, stage: str) -> list[str]:
    """A table of the arms that have all their runs of a stage; nothing where there are none."""
    verdicts = advice.verdicts(reported, set_name, stage=stage)
    results_of_arms = advice.complete_results(reported, stage, set_name)
    rows = []
    for arm, results in results_of_arms.items():
        over = np.mean([result["mean_over_run"] for result in results])
        steps = np.mean([result["steps"] for result in results])
        cells = [arm, f"{results[0]['rate']:.0e}", f"{steps:.0f}", f"{100 * over:.1f}"]
        cells += [*verdict_cells(verdicts.get(arm)), *variety_cells(results, -1)[:2]]
        rows.append([*cells, ratio_in_words(results)])
    if not rows:
        return []
    heads = ["arm", "rate", "steps", "right over the run, %", "over the run", "at the end", "p"]
    heads += ["verdict", "pass@1, %", f"pass@{samples_of(reported.protocol, stage)}, %", "g/u"]
    machines = made_on(next(iter(results_of_arms.values())))
    return [f"Made on: {machines}.", "", *table(heads, rows)]


def _tuning(reported: Reported) -> list[str]:
    lines = [
        "## Tuning",
        "",
        "Right greedy answers over the run, in %, on tuning questions: the mean over seeds, and"
        " each seed in brackets. A rate suits a number of steps, and so a processor.",
        "",
    ]
    for stage in filter(reported.protocol.is_tuning, reported.protocol.stages):
        lines += [f"The stage {stage}:", "", *_tuning_table(reported, stage), ""]
    return lines


def _tuning_table(reported: Reported, stage: str) -> list[str]:
    protocol = reported.protocol
    rates = protocol.stage(stage)["rates"]
    rows = []
    for set_name in protocol.sets_of(stage):
        for arm in protocol.arms_of(stage):
            if set_name not in protocol.sets_of_arm(arm):
                continue
            results_of_rates = [
                _tuned(reported, stage, set_name, arm, rate) for rate in sorted(rates)
            ]
            chosen = reported.chosen_rate(set_name, arm, stage)
            word = "" if chosen is None else f"{chosen:.0e}"
            if chosen in (min(rates), max(rates)):
                word += ", at the edge"
            machines = {result["machine"]["cpu"] for of in results_of_rates for result in of}
            rows.append(
                [
                    set_name,
                    arm,
                    *map(_mean_and_seeds, results_of_rates),
                    word,
                    ", ".join(sorted(machines)),
                ]
            )
    return table(["set", "arm", *(f"{r:.0e}" for r in sorted(rates)), "chosen", "made on"], rows)


def _tuned(
    reported: Reported, stage: str, set_name: str, arm: str, rate: float
) -> list[Mapping[str, Any]]:
    """The runs of a rate, one for each seed; none while one is missing."""
    seeds = reported.protocol.stage(stage)["seeds"]
    results = [reported.result(PlannedRun(stage, set_name, arm, seed, rate)) for seed in seeds]
    found = [result for result in results if result is not None]
    return found if len(found) == len(seeds) else []


def _mean_and_seeds(results: Sequence[Mapping[str, Any]]) -> str:
    if not results:
        return ""
    values = [100 * float(result["mean_over_run"]) for result in results]
    return f"{np.mean(values):.1f} ({', '.join(f'{value:.1f}' for value in values)})"


def _attempts(reported: Reported, attempts: Sequence[Attempt]) -> list[str]:
    """Every attempt that was begun is in the ledger; here are those that don't count."""
    counts = Counter(attempt.state for attempt in attempts)
    planned = (*reported.protocol.runs, *reported.protocol.gpu_runs)
    counting = {id(reported.result(run)) for run in planned}
    are_missing = reported.number_that_count() < len(reported.protocol.runs)
    at_work = " or are at work" if are_missing else ""
    lines = [
        "## Every run that was started",
        "",
        f"[The ledger](ledger.jsonl) has a line for each, written as it began: {len(attempts)}."
        f" Of them {counts['ended']} ended, {counts['failed']} failed with an error of their own,"
        f" {counts['stopped']} were stopped from outside{at_work}, {counts[EARLIER]} are"
        f" {EARLIER}."
        if attempts
        else "None. The ledger gets a line for each, written as it begins.",
        "",
    ]
    rows = []
    for attempt in attempts:
        if attempt.state == "ended" and id(attempt.result) in counting:
            continue
        why = attempt.state
        if attempt.state == "ended":
            why = "its block is not complete, or counts from another machine"
        elif attempt.state == "failed" and attempt.result is not None:
            why = f"failed: {attempt.result['error']}"
        rows.append([attempt.run, str(attempt.number), attempt.started, attempt.machine, why])
    if attempts:
        lines += [*_codes(attempts), ""]
    if rows:
        lines += ["Those that do not count:", ""]
        lines += table(["run", "attempt", "started (UTC)", "machine", "why"], rows)
    return lines


def _codes(attempts: Sequence[Attempt]) -> list[str]:
    """By which commit and protocol how many attempts were made."""
    counts = Counter((attempt.commit[:8], attempt.protocol[:8]) for attempt in attempts)
    rows = [[commit, protocol, str(count)] for (commit, protocol), count in counts.items()]
    return table(["commit", "SHA-256 of protocol.yaml", "attempts"], rows)


def write_protocol_page(records: Records) -> Path:
    """Write the tables of protocol.md anew, in the folder of the records."""
    file = records.folder / "protocol.md"
    text = file.read_text(encoding="utf-8")
    write_whole(file, fill(text, records.protocol).encode())
    return file
