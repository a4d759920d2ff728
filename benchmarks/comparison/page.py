"""results/comparison/README.md, from the raw files alone, and the tables of the protocol's page."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.comparison import advice
from benchmarks.comparison.figure import draw
from benchmarks.comparison.foretold import foretold
from benchmarks.comparison.intervals import Difference, not_there_yet, time_to_level
from benchmarks.comparison.outcomes import Result, curve, ratio_in_words
from benchmarks.comparison.protocol import ON_GPU, PlannedRun, Protocol
from benchmarks.comparison.protocol_page import fill
from benchmarks.comparison.questions import Questions, guessing
from benchmarks.comparison.records import EARLIER, Attempt, Records, Reported
from benchmarks.markdown import table
from podslab.report.drawing import render
from podsrl.rollout_log.files import write_whole

#: What holds while runs are missing.
BEFORE_THE_END = (
    "Nothing is said of a set before all its reported runs ended. What longer runs cost in variety"
    " is not known before the long runs ended, and nothing is advised before all runs did."
)
#: A reader would ask how -3.0 can be lost.
_AT_THE_BOUND = (
    "*Lost* is by the rule: more than 3 points below, before rounding and read at the end of the"
    " planned time, on a straight line between two measurements. So what is shown as -3.0 can be"
    " either, and its interval says how little is known of it."
)
_HEAD = """# One comparison of ways to choose rows

On a model like this one, with right answers this rare and generation this expensive: which way of
choosing rows is worth it, and what does it cost in variety? [The protocol](protocol.md) was
committed before the runs, and there is no ratio to reach: "no difference shown" is a result.

`python -m benchmarks.comparison page` makes this page from the files in `raw/`.
`python -m benchmarks.comparison one ARM SET SEED` repeats one reported run.
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
        parts += _advice(reported)
        parts += _figure(reported, records.folder / "curves.png")
        for set_name in records.protocol.sets:
            parts += _set(reported, set_name)
        parts += _foretold(reported)
        parts += _long(reported)
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


def _advice(reported: Reported) -> list[str]:
    lines = ["## Advice", "", "By [the rule in the protocol](protocol.md#the-advice).", ""]
    rows = []
    for set_name in reported.protocol.sets_of("reported"):
        for axis in ("seconds", "rollouts"):
            found = advice.advice(reported, set_name, axis)
            rows.append(
                [
                    set_name,
                    "time" if axis == "seconds" else "rollouts",
                    found.arm if found.is_complete else "not complete",
                    ("yes" if found.is_run_long else "no") if found.is_complete else "",
                    ", ".join(found.as_good) if found.is_complete else "",
                    ", ".join(found.short_only) if found.is_complete else "",
                ]
            )
    heads = ["set", "at equal", "advised", "was run long, too", "not told apart from it"]
    lines += [*table([*heads, "better, for short runs only"], rows), ""]

    general = advice.general_advice(reported)
    known = f"**{general}**" if general else "not complete"
    lines += [f"For who knows nothing of the questions, at equal time: {known}.", ""]
    for arm, sets in advice.for_short_budgets_only(reported).items():
        lines += [
            f"**{arm}** is for short budgets only: it loses variety on {', '.join(sets)}.",
            "",
        ]
    return lines


def _complete_results(reported: Reported, set_name: str) -> dict[str, list[Result]]:
    """The reported runs of the arms of a set that have all their seeds."""
    found = {}
    for arm in reported.protocol.arms_of("reported"):
        results = advice.results_of(reported, "reported", set_name, arm)
        if results is not None:
            found[arm] = results
    return found


def _figure(reported: Reported, file: Path) -> list[str]:
    """Draw what there is into the file; nothing where there is nothing."""
    by_set = {}
    for set_name in reported.protocol.sets_of("reported"):
        if results := _complete_results(reported, set_name):
            by_set[set_name] = results
    if not by_set:
        return []
    write_whole(file, render(draw(by_set), "png"))
    return [f"![Greedy accuracy over training time, mean over seeds]({file.name})", ""]


def _set(reported: Reported, set_name: str) -> list[str]:
    protocol = reported.protocol
    results_of_arms = _complete_results(reported, set_name)
    if protocol.reference not in results_of_arms:
        return [f"## The set {set_name}", "", "Not complete.", ""]

    lines = [f"## The set {set_name}", "", *_condition(protocol, set_name, results_of_arms), ""]
    lines += ["Right, in %, beside the reference, in points (95 % by t; by bootstrap):", ""]
    lines += [*_compared(reported, set_name, results_of_arms), ""]
    lines += [*_detectable(reported, set_name), ""]
    lines += ["Variety, at the end of the runs; ± are 95 % by t over seeds:", ""]
    lines += [*_variety(protocol, results_of_arms), ""]
    lines += [
        "Where the time goes, over whole runs. *Probe* is the median time of a fixed piece of work"
        " just before each run, *NaN* the number of runs with a gradient that was not finite:",
        "",
    ]
    lines += [*_costs(results_of_arms), ""]
    lines += _survival(reported, set_name, results_of_arms)
    return lines


def _condition(
    protocol: Protocol, set_name: str, results_of_arms: dict[str, list[Result]]
) -> list[str]:
    """What the questions, the model and the costs were like."""
    results = results_of_arms[protocol.reference]
    task = Questions(kinds=protocol.sets[set_name]["kinds"], **protocol.values["questions"])
    guessed = guessing(task, "test")
    greedy = curve(results[0], "greedy").values_T_Q[0].mean()
    pass_1 = np.mean([curve(result, "pass_1").values_T_Q[0].mean() for result in results])
    length = results[0]["measured"][0]["length"]
    return [
        f"Right at the start: {pass_1:.1%} of samples, {greedy:.1%} of greedy answers. Guessing:"
        f" {guessed['constant']:.1%} by one constant answer for each kind,"
        f" {guessed['informed']:.1%} by picking among what is shown. Answers have {length:.0f}"
        f" tokens at the start. Generating a rollout takes {ratio_in_words(results)} of the time of"
        f" updating on a row ({protocol.reference})."
    ]


def _compared(
    reported: Reported, set_name: str, results_of_arms: dict[str, list[Result]]
) -> list[str]:
    by_time = advice.verdicts(reported, set_name)
    by_rollouts = advice.verdicts(reported, set_name, "rollouts")
    rows = []
    for arm, results in results_of_arms.items():
        end = [float(result["seconds"]) for result in results]
        greedy = [curve(result, "greedy") for result in results]
        last = np.mean([one.value(at).mean() for one, at in zip(greedy, end, strict=True)])
        over = np.mean([result["mean_over_run"] for result in results])
        cells = [arm, f"{results[0]['rate']:.0e}", f"{100 * last:.1f}", f"{100 * over:.1f}"]
        time = by_time.get(arm)
        rollouts = by_rollouts.get(arm)
        if time is None or rollouts is None:
            cells += ["reference", "", "", "", "", ""]
        else:
            cells += [points(time.over_run), points(time.end), _p(time.p), time.word]
            cells += [points(rollouts.over_run), rollouts.word]
        rows.append(cells)
    heads = ["arm", "rate", "end", "over run", "time: over run", "time: end", "p", "verdict"]
    return table([*heads, "rollouts: over run", "verdict"], rows)


def _detectable(reported: Reported, set_name: str) -> list[str]:
    """The least difference that the runs could have shown, by the spread between seeds."""
    from scipy import stats

    verdicts = advice.verdicts(reported, set_name).values()
    halves = []
    for verdict in verdicts:
        if verdict.over_run is not None:
            halves.append((verdict.over_run.high - verdict.over_run.low) / 2)
    if not halves:
        return []

    degrees = len(reported.protocol.stage("reported")["seeds"]) - 1
    level = float(reported.protocol.values["advice"]["level"])
    of_first_step = stats.t.ppf(1 - level / 2 / len(halves), degrees)
    widened = of_first_step / stats.t.ppf(0.975, degrees)
    return [
        f"A single difference over the run had to be about {100 * np.median(halves) * widened:.1f}"
        " points to be shown (the median over arms, at Holm's first step). Smaller ones may be"
        " there."
    ]


def points(difference: Difference | None) -> str:
    """A difference of shares in points, with both its intervals."""
    if difference is None:
        return ""
    by_t = f"{100 * difference.low:+.1f} to {100 * difference.high:+.1f}"
    wide = f"{100 * difference.wide_low:+.1f} to {100 * difference.wide_high:+.1f}"
    return f"{100 * difference.mean:+.1f} ({by_t}; {wide})"


def _p(p: float | None) -> str:
    return "" if p is None else f"{p:.3f}"


def _variety(protocol: Protocol, results_of_arms: dict[str, list[Result]]) -> list[str]:
    rows = [["the start", *_variety_cells(results_of_arms[protocol.reference], 0)]]
    for arm, results in results_of_arms.items():
        rows.append([arm, *_variety_cells(results, -1)])
    heads = ["arm", "pass@1", "pass@16", "distinct answers of 16", "entropy (nats)", "tokens"]
    return table(heads, rows, align_right=True)


def _variety_cells(results: Sequence[Result], point: int) -> list[str]:
    cells = []
    for measure, factor in (("pass_1", 100), ("pass_k", 100), ("distinct", 1), ("entropy", 1)):
        values = [factor * curve(result, measure).values_T_Q[point].mean() for result in results]
        cells.append(_with_spread(values))
    lengths = []
    for result in results:
        sampled = [one["sampled_length"] for one in result["measured"] if "sampled_length" in one]
        lengths.append(sampled[point])
    return [*cells, _with_spread(lengths)]


def _with_spread(values: Sequence[float]) -> str:
    """A mean over seeds, with half the length of its 95 % interval by t."""
    from scipy import stats

    mean = float(np.mean(values))
    if len(values) < 2 or np.ptp(values) == 0:
        return f"{mean:.2f}"
    half = stats.sem(values) * stats.t.ppf(0.975, len(values) - 1)
    return f"{mean:.2f} ± {half:.2f}"


def _costs(results_of_arms: dict[str, list[Result]]) -> list[str]:
    rows = []
    for arm, results in results_of_arms.items():
        total = sum(sum(result["phases"].values()) for result in results)
        shares = []
        for phase in results[0]["phases"]:
            spent = sum(result["phases"][phase] for result in results)
            shares.append(f"{spent / total:.0%}")
        rows.append(
            [
                arm,
                f"{np.mean([result['steps'] for result in results]):.0f}",
                f"{np.mean([result['measured'][-1]['rollouts'] for result in results]):.0f}",
                *shares,
                ratio_in_words(results),
                f"{np.mean([result['teaching_prompts'] for result in results]):.0%}",
                f"{np.mean([result['teaching_rows'] for result in results]):.0%}",
                f"{np.median([result['probe_seconds'] for result in results]):.3f}",
                str(sum(not result["has_not_diverged"] for result in results)),
            ]
        )
    some = next(iter(results_of_arms.values()))[0]
    heads = ["arm", "steps", "rollouts", *some["phases"], "g/u", "mixed prompts", "rows that teach"]
    return table([*heads, "probe, s", "NaN"], rows, align_right=True)


def level_of(reported: Reported, set_name: str) -> float | None:
    """The level of a set: the start on test questions, and what the reference gained in tuning."""
    protocol = reported.protocol
    tuned = reported.tuned(set_name, protocol.reference)
    starts = advice.results_of(reported, "reported", set_name, protocol.reference)
    if not tuned or starts is None:
        return None

    gains = []
    for result in tuned:
        greedy = curve(result, "greedy")
        gains.append(greedy.value(result["seconds"]).mean() - greedy.values_T_Q[0].mean())
    start = curve(starts[0], "greedy").values_T_Q[0].mean()
    return float(start + np.mean(gains))


def _survival(
    reported: Reported, set_name: str, results_of_arms: dict[str, list[Result]]
) -> list[str]:
    level = level_of(reported, set_name)
    if level is None:
        return []
    schedule = reported.protocol.schedule_of("reported", set_name, reported.protocol.reference)
    every = float(schedule["greedy_every"])
    end = float(reported.protocol.stage("reported")["seconds"])
    marks = [every * (place + 1) for place in range(round(end / every))]
    rows = []
    for arm, results in results_of_arms.items():
        # An evaluation waits for its step, so that a time is the mark that it was due at.
        times = []
        for result in results:
            greedy = curve(result, "greedy")
            values = [greedy.value(mark).mean() for mark in marks]
            times.append(time_to_level(marks, values, level))
        shares = not_there_yet(times, end, marks)
        restricted = _with_spread([min(time, end) for time in times])
        rows.append([arm, *(f"{share:.0%}" for share in shares), restricted])
    heads = ["arm", *(f"{mark:.0f} s" for mark in marks), "mean seconds, at most the run's"]
    return [
        f"Share of runs that have not yet {level:.1%} right, the start and what the reference"
        " gained in tuning:",
        "",
        *table(heads, rows, align_right=True),
        "",
    ]


def _foretold(reported: Reported) -> list[str]:
    lines = ["## What `pods recommend` foretold", ""]
    rows = []
    for set_name in reported.protocol.sets_of("reported"):
        found = foretold(reported, set_name)
        if found is None:
            continue
        cells = [set_name, f"{found.ratio:.2f}", found.arm, "not complete", ""]
        if found.place is not None:
            number = len(reported.protocol.arms_of("reported"))
            cells[3:] = [f"{found.place} of {number}", "yes" if found.is_as_good else "no"]
        rows.append(cells)
    if not rows:
        return []
    heads = ["set", "g/u in tuning", "it names", "place by the mean over the run"]
    return [*lines, *table([*heads, "advised, or not told apart from that"], rows), ""]


def _long(reported: Reported) -> list[str]:
    protocol = reported.protocol
    beside = protocol.values["advice"]["variety_beside"]
    lines = ["## Long runs", ""]
    heads = ["arm", "greedy, best", "greedy, end", "pass@1", "pass@16", "from the start"]
    for set_name in protocol.sets_of("long"):
        rows = []
        for arm, lost in advice.variety(reported, set_name).items():
            results = advice.results_of(reported, "long", set_name, arm) or []
            greedy_S_T = [curve(result, "greedy").values_T_Q.mean(axis=1) for result in results]
            rows.append(
                [
                    arm,
                    _with_spread([100 * float(values_T.max()) for values_T in greedy_S_T]),
                    _with_spread([100 * float(values_T[-1]) for values_T in greedy_S_T]),
                    *_variety_cells(results, -1)[:2],
                    points(lost.from_start),
                    points(lost.from_other),
                    "lost" if lost.is_lost else "kept",
                ]
            )
        lines += [f"On the set {set_name}:", ""]
        if rows:
            lines += table([*heads, f"beside {beside}", "variety"], rows)
            lines += ["", _AT_THE_BOUND]
        else:
            lines += ["Not complete."]
        lines += [""]
    return lines


def _on_gpu(reported: Reported) -> list[str]:
    """The runs on a GPU, of each set that has any; nothing where there are none."""
    lines = []
    for set_name in reported.protocol.sets_of(ON_GPU):
        rows = []
        for arm, verdict in advice.verdicts(reported, set_name, stage=ON_GPU).items():
            results = advice.results_of(reported, ON_GPU, set_name, arm)
            if results is None or verdict.over_run is None:
                continue
            over = np.mean([result["mean_over_run"] for result in results])
            cells = [arm, f"{100 * over:.1f}", points(verdict.over_run), points(verdict.end)]
            rows.append([*cells, _p(verdict.p), verdict.word, ratio_in_words(results)])
        if rows:
            heads = ["arm", "over run", "time: over run", "time: end", "p", "verdict", "g/u"]
            lines += [f"The set {set_name}:", "", *table(heads, rows), ""]
    return ["## On a GPU", "", *lines] if lines else []


def _tuning(reported: Reported) -> list[str]:
    protocol = reported.protocol
    rates = protocol.stage("tuning")["rates"]
    lines = ["## Tuning", "", "Right over the run, in %, on tuning questions, mean over seeds.", ""]
    rows = []
    for set_name in protocol.sets_of("tuning"):
        for arm in protocol.arms_of("tuning"):
            cells = [_tuned(reported, set_name, arm, rate) for rate in rates]
            chosen = reported.chosen_rate(set_name, arm)
            word = "" if chosen is None else f"{chosen:.0e}"
            if chosen in (min(rates), max(rates)):
                word += ", at the edge"
            rows.append([set_name, arm, *cells, word])
    return [*lines, *table(["set", "arm", *(f"{r:.0e}" for r in rates), "chosen"], rows), ""]


def _tuned(reported: Reported, set_name: str, arm: str, rate: float) -> str:
    values = []
    for seed in reported.protocol.stage("tuning")["seeds"]:
        result = reported.result(PlannedRun("tuning", set_name, arm, seed, rate))
        if result is None:
            return ""
        values.append(100 * float(result["mean_over_run"]))
    return f"{np.mean(values):.1f}"


def _attempts(reported: Reported, attempts: Sequence[Attempt]) -> list[str]:
    """Every attempt that was begun is in the ledger; here are those that don't count."""
    counts = Counter(attempt.state for attempt in attempts)
    planned = (*reported.protocol.runs, *reported.protocol.gpu_runs)
    counting = {id(reported.result(run)) for run in planned}
    lines = [
        "## Every run that was started",
        "",
        f"[The ledger](ledger.jsonl) has a line for each, written as it began: {len(attempts)}."
        f" Of them {counts['ended']} ended, {counts['failed']} failed with an error of their own,"
        f" {counts['stopped']} were stopped from outside or are at work, {counts[EARLIER]} are"
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
