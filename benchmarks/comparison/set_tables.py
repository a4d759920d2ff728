"""What the reported runs of one set show, table by table."""

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.comparison import advice
from benchmarks.comparison.cells import (
    INTERVALS,
    as_word,
    made_on,
    p_value,
    points,
    points_by_t,
    with_range,
    with_spread,
)
from benchmarks.comparison.intervals import Floats, difference, not_there_yet
from benchmarks.comparison.outcomes import (
    Result,
    compared,
    curve,
    ratio_in_words,
    steps_at_equal_rollouts,
    time_to_level,
)
from benchmarks.comparison.protocol import Protocol
from benchmarks.comparison.protocol_page import step_of
from benchmarks.comparison.questions import Questions, guessing
from benchmarks.comparison.records import Reported
from benchmarks.markdown import table

#: The runs of each arm that has all its seeds.
ResultsOfArms = Mapping[str, Sequence[Result]]
#: Arms that generate as many rollouts in a step as those that choose rows, and choose none.
_CONTROLS = ("grpo-ga", "random-row")
_MILLISECONDS = 1000.0


def set_in_tables(reported: Reported, set_name: str) -> list[str]:
    """All that the page says of a set."""
    protocol = reported.protocol
    results_of_arms = advice.complete_results(reported, "reported", set_name)
    head = [f"## The set {set_name}", ""]
    if protocol.reference not in results_of_arms:
        return [*head, "Not complete.", ""]

    parts = (
        _at_equal_time(reported, set_name, results_of_arms),
        _at_equal_rollouts(reported, set_name, results_of_arms),
        _beside_controls(protocol, results_of_arms),
        _by_kind(protocol, set_name, results_of_arms),
        _variety(protocol, results_of_arms),
        _costs(results_of_arms),
        _what_teaches(results_of_arms),
        _survival(reported, set_name, results_of_arms),
    )
    lines = [*head, *_condition(protocol, set_name, results_of_arms), ""]
    for part in parts:
        if part:
            lines += [*part, ""]
    return lines


def _condition(protocol: Protocol, set_name: str, results_of_arms: ResultsOfArms) -> list[str]:
    """What the questions, the model and the costs were like."""
    results = results_of_arms[protocol.reference]
    guessed = guessing(_questions(protocol, set_name), "test")
    greedy = curve(results[0], "greedy").values_T_Q[0].mean()
    samples = [curve(result, "pass_1").values_T_Q[0] for result in results]
    length = results[0]["measured"][0]["length"]
    return [
        f"On the test questions {greedy:.1%} of greedy answers are right at the start, and"
        f" {np.mean(samples):.1%} of the samples of the first {len(samples[0])}. Guessing:"
        f" {guessed['constant']:.1%} by one constant answer for each kind,"
        f" {guessed['informed']:.1%} by picking among what is shown. Answers have {length:.0f}"
        f" tokens at the start. Generating a rollout takes {ratio_in_words(results)} of the time of"
        f" updating on a row ({protocol.reference}). Made on: {made_on(results)}. Another processor"
        " makes another number of steps in the same time, so sets are not compared with each other."
    ]


def _questions(protocol: Protocol, set_name: str) -> Questions:
    return Questions(kinds=protocol.sets[set_name]["kinds"], **protocol.values["questions"])


def _at_equal_time(reported: Reported, set_name: str, results_of_arms: ResultsOfArms) -> list[str]:
    verdicts = advice.verdicts(reported, set_name)
    rows = []
    for arm, results in results_of_arms.items():
        ends = []
        for result in results:
            ends.append(100 * curve(result, "greedy").value(float(result["seconds"])).mean())
        over = [100 * result["mean_over_run"] for result in results]
        cells = [arm, f"{results[0]['rate']:.0e}", f"{np.mean(ends):.1f}", f"{np.mean(over):.1f}"]
        rows.append([*cells, *verdict_cells(verdicts.get(arm))])

    heads = ["arm", "rate", "right at the end, %", "right over the run, %"]
    return [
        "### At equal time",
        "",
        f"Greedy answers, and beside {reported.protocol.reference} in points. {INTERVALS} They are"
        " for one arm alone; p is of the difference over the run, and allows for all arms of the"
        " table (Holm), as the verdict does.",
        "",
        *table([*heads, "over the run", "at the end", "p", "verdict"], rows),
        *_detectable(reported, verdicts),
    ]


def verdict_cells(verdict: advice.Verdict | None) -> list[str]:
    """Both differences, p and the word of a verdict; None is that of the reference."""
    if verdict is None:
        return ["the reference", "", "", ""]
    word = f"{verdict.word} ({verdict.why})" if verdict.why else verdict.word
    return [points(verdict.over_run), points(verdict.end), p_value(verdict.p), word]


def _detectable(reported: Reported, verdicts: Mapping[str, advice.Verdict]) -> list[str]:
    """The least difference that the runs could have shown, by the spread between seeds."""
    from scipy import stats

    halves = []
    for verdict in verdicts.values():
        if verdict.over_run is not None:
            halves.append((verdict.over_run.high - verdict.over_run.low) / 2)
    if not halves:
        return []

    degrees = len(reported.protocol.stage("reported")["seeds"]) - 1
    level = float(reported.protocol.values["advice"]["level"])
    of_first_step = stats.t.ppf(1 - level / 2 / len(halves), degrees)
    least = 100 * np.median(halves) * of_first_step / stats.t.ppf(0.975, degrees)
    return [
        "",
        f"A single difference over the run had to come out at {least:.1f} points or more to be"
        " shown (the median over arms, at Holm's first step): a true difference of that size is"
        " found about every second time.",
    ]


def _at_equal_rollouts(
    reported: Reported, set_name: str, results_of_arms: ResultsOfArms
) -> list[str]:
    reference = results_of_arms[reported.protocol.reference]
    rows = []
    for arm, verdict in advice.verdicts(reported, set_name, "rollouts").items():
        if arm not in results_of_arms:
            continue
        steps_S = [
            steps_at_equal_rollouts(result, other)
            for result, other in zip(results_of_arms[arm], reference, strict=True)
        ]
        own, others = np.mean(steps_S, axis=0)
        rows.append([arm, f"{own:.0f} and {others:.0f}", *verdict_cells(verdict)])
    return [
        "### At equal rollouts",
        "",
        "As above, read where the run of the two that generated fewer rollouts ends. *Steps*: how"
        f" many the arm and {reported.protocol.reference} had made there. An arm whose step has"
        " more rollouts makes fewer of them out of as many rollouts.",
        "",
        *table(["arm", "steps", "over the run", "at the end", "p", "verdict"], rows),
    ]


def _beside_controls(protocol: Protocol, results_of_arms: ResultsOfArms) -> list[str]:
    """Beside arms that have the same discount on a rollout, as many are generated at once."""
    controls = {arm: results_of_arms[arm] for arm in _CONTROLS if arm in results_of_arms}
    if not controls:
        return []

    sizes = {_rollouts_of_step(results) for results in controls.values()}
    rows = []
    for arm, results in results_of_arms.items():
        if arm in controls or _rollouts_of_step(results) not in sizes:
            continue
        cells = [arm]
        for control in controls.values():
            cells.append(points_by_t(difference(compared(results, control, over_run=True))))
        rows.append(cells)
    drawn_from = as_word(step_of(protocol, "random-row").generated)
    return [
        "### Beside arms that generate as many rollouts in a step",
        "",
        "A rollout costs less where more are generated at once, so part of a difference from the"
        " reference is the size of the batch. These two controls have the same size: all rows of"
        f" it, and a random one of every {drawn_from}. Over the run at equal time, in points (95 %"
        " by t, for one difference alone; no verdict rests on it):",
        "",
        *table(["arm", *(f"beside {control}" for control in controls)], rows),
    ]


def _rollouts_of_step(results: Sequence[Result]) -> int:
    last = results[0]["measured"][-1]
    return round(last["rollouts"] / last["step"])


def _by_kind(protocol: Protocol, set_name: str, results_of_arms: ResultsOfArms) -> list[str]:
    """The difference over the run on the questions of each kind; nothing where there is one."""
    kinds_Q = np.array([row["kind"] for row in _questions(protocol, set_name).load("test")])
    kinds = list(dict.fromkeys(kinds_Q.tolist()))
    if len(kinds) < 2:
        return []

    reference = results_of_arms[protocol.reference]
    rows = []
    for arm, results in results_of_arms.items():
        end = float(results[0]["seconds"])
        differences_S_Q = compared(results, reference, over_run=True)
        cells = [arm]
        for kind in kinds:
            is_kind_Q = kinds_Q == kind
            ends = [curve(one, "greedy").value(end)[is_kind_Q].mean() for one in results]
            cells.append(f"{100 * np.mean(ends):.1f}")
            if arm == protocol.reference:
                cells.append("the reference")
            else:
                cells.append(points_by_t(difference(differences_S_Q[:, is_kind_Q])))
        rows.append(cells)
    heads = ["arm"]
    for kind in kinds:
        heads += [f"{kind}: right at the end, %", f"{kind}: over the run"]
    return [
        "### By kind of question",
        "",
        "In points over the run, at equal time (95 % by t, for one difference alone; no verdict"
        " rests on it):",
        "",
        *table(heads, rows),
    ]


def _variety(protocol: Protocol, results_of_arms: ResultsOfArms) -> list[str]:
    reference = results_of_arms[protocol.reference]
    questions = len(curve(reference[0], "pass_k").values_T_Q[0])
    samples = samples_of(protocol, "reported")
    rows = [["the start", *variety_cells(reference, 0), ""]]
    for arm, results in results_of_arms.items():
        beside = "the reference"
        if arm != protocol.reference:
            beside = points_by_t(difference(_pass_1_beside(results, reference)))
        rows.append([arm, *variety_cells(results, -1), beside])
    heads = ["arm", "pass@1, %", f"pass@{samples}, %", f"distinct answers of {samples}"]
    return [
        "### Variety",
        "",
        f"Of {samples} samples of each of the first {questions} test questions, at the end of the"
        f" runs; ± is 95 % by t over seeds. *Pass@{samples}* is the share of questions with a right"
        " one among them. As a question has one right answer, distinct answers and entropy say how"
        f" many different *wrong* ones there are. The last column is paired by seeds and questions,"
        " in points (95 % by t, for one difference alone; no verdict rests on it).",
        "",
        *table(
            [*heads, "entropy, nats", "tokens", f"pass@1 beside {protocol.reference}"],
            rows,
            align_right=True,
        ),
    ]


def _pass_1_beside(results: Sequence[Result], reference: Sequence[Result]) -> Floats:
    """How far the share of right samples ends above the reference's, shape (S, Q)."""
    ends = []
    for result, other in zip(results, reference, strict=True):
        own = curve(result, "pass_1").values_T_Q[-1]
        ends.append(own - curve(other, "pass_1").values_T_Q[-1])
    return np.array(ends)


def samples_of(protocol: Protocol, stage: str) -> int:
    """How many samples a question has in the runs of a stage, the k of their pass@k."""
    return int(protocol.stage(stage)["measured"]["samples"])


def variety_cells(results: Sequence[Result], point: int) -> list[str]:
    """Pass@1, pass@k, distinct answers, entropy and length of the samples at a measurement."""
    cells = []
    for measure, factor in (("pass_1", 100), ("pass_k", 100), ("distinct", 1), ("entropy", 1)):
        values = [factor * curve(result, measure).values_T_Q[point].mean() for result in results]
        cells.append(with_spread(values))
    lengths = []
    for result in results:
        sampled = [one["sampled_length"] for one in result["measured"] if "sampled_length" in one]
        lengths.append(sampled[point])
    return [*cells, with_spread(lengths)]


def _costs(results_of_arms: ResultsOfArms) -> list[str]:
    phases = list(next(iter(results_of_arms.values()))[0]["phases"])
    rows = []
    for arm, results in results_of_arms.items():
        total = _seconds(results, *phases)
        rollouts = [result["measured"][-1]["rollouts"] for result in results]
        with_pass = sum(
            result["measured"][-1]["rows"] * result["teaching_rows"] for result in results
        )
        generating = _seconds(results, *(phase for phase in phases if phase != "update"))
        steps = sum(result["steps"] for result in results)
        warm_up = results[0]["settings"]["warmup_steps"] * total / steps
        cells = [arm, f"{steps / len(results):.0f}", with_range(rollouts), f"{warm_up:.1f}"]
        cells += [f"{_seconds(results, phase) / total:.0%}" for phase in phases]
        cells += [_milliseconds_of_each(generating, sum(rollouts))]
        cells += [_milliseconds_of_each(_seconds(results, "update"), with_pass)]
        rows.append([*cells, ratio_in_words(results)])
    heads = ["arm", "steps", "rollouts", "warm-up, s", *phases]
    return [
        "### Where the time goes",
        "",
        "Over whole runs; of rollouts the median over seeds, the fewest and the most. *Warm-up*:"
        " how long the learning rate rises. *Ms a rollout*: generating, scoring and selecting; *ms"
        " a row*: updating, for each row that had a pass. *g/u* is the first over the second,"
        " without the first step; the median over seeds.",
        "",
        *table([*heads, "ms a rollout", "ms a row", "g/u"], rows, align_right=True),
    ]


def _milliseconds_of_each(seconds: float, count: float) -> str:
    """Seconds over what they were spent on; "-" where there was nothing of it."""
    return f"{_MILLISECONDS * seconds / count:.1f}" if count else "-"


def _seconds(results: Sequence[Result], *phases: str) -> float:
    return sum(float(result["phases"][phase]) for result in results for phase in phases)


def _what_teaches(results_of_arms: ResultsOfArms) -> list[str]:
    rows = []
    for arm, results in results_of_arms.items():
        probes = [_MILLISECONDS * result["probe_seconds"] for result in results]
        rows.append(
            [
                arm,
                f"{np.mean([result['teaching_prompts'] for result in results]):.0%}",
                f"{np.mean([result['teaching_rows'] for result in results]):.0%}",
                with_range(probes),
                str(sum(not result["has_not_diverged"] for result in results)),
            ]
        )
    heads = ["arm", "mixed prompts", "rows that teach", "probe, ms", "NaN"]
    return [
        "### What teaches, and how fast the machine was",
        "",
        "*Mixed prompts* have right and wrong rollouts; *rows that teach* have an advantage other"
        " than 0. *Probe*: a fixed piece of work just before each run; the median, the fastest and"
        " the slowest. *NaN*: runs with a gradient that was not finite.",
        "",
        *table(heads, rows, align_right=True),
    ]


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


def _survival(reported: Reported, set_name: str, results_of_arms: ResultsOfArms) -> list[str]:
    level = level_of(reported, set_name)
    if level is None:
        return []
    schedule = reported.protocol.schedule_of("reported", set_name, reported.protocol.reference)
    every = float(schedule["greedy_every"])
    end = float(reported.protocol.stage("reported")["seconds"])
    marks = [every * (place + 1) for place in range(round(end / every))]
    rows = []
    for arm, results in results_of_arms.items():
        times = [time_to_level(result, level) for result in results]
        shares = not_there_yet(times, end, marks)
        restricted = with_spread([min(time, end) for time in times], digits=1)
        rows.append([arm, *(f"{share:.0%}" for share in shares), restricted])
    heads = ["arm", *(f"after {mark:.0f} s" for mark in marks), "mean, s"]
    return [
        "### Time to a level",
        "",
        f"The level is {level:.1%} right: the start, and what the reference gained in its tuning"
        " runs. The share of runs that are not there yet, and the mean of the times, each at most"
        " the length of the run; ± is 95 % by t over seeds.",
        "",
        *table(heads, rows, align_right=True),
    ]
