"""What the long runs show: who falls back, and who loses variety."""

from collections.abc import Sequence

import numpy as np

from benchmarks.comparison import advice
from benchmarks.comparison.cells import INTERVALS, made_on, points, points_by_t, with_spread
from benchmarks.comparison.intervals import difference
from benchmarks.comparison.outcomes import Result, compared, curve, pass_at
from benchmarks.comparison.records import Reported
from benchmarks.comparison.set_tables import samples_of, variety_cells
from benchmarks.markdown import table

#: The k of pass@k beside all samples of a question, where it has more.
_FEWER = (1, 2, 4, 8)


def long_in_tables(reported: Reported) -> list[str]:
    """The section of the long runs."""
    stage = reported.protocol.stage("long")
    lines = [
        "## Long runs",
        "",
        f"Runs of {stage['seconds']} s, with seeds of their own, at the rates of the short ones.",
        "",
    ]
    for set_name in reported.protocol.sets_of("long"):
        results_of_arms = advice.complete_results(reported, "long", set_name)
        lines += [f"### Long runs on the set {set_name}", ""]
        if reported.protocol.reference in results_of_arms:
            reference = results_of_arms[reported.protocol.reference]
            lines += [f"Made on: {made_on(reference)}.", ""]
            lines += _greedy(reported, results_of_arms)
            lines += _samples(reported, results_of_arms)
            lines += _variety(reported, set_name, results_of_arms)
        else:
            lines += ["Not complete.", ""]
    return lines


def _greedy(reported: Reported, results_of_arms: dict[str, list[Result]]) -> list[str]:
    """Who falls back, and whether what the short runs showed comes again."""
    protocol = reported.protocol
    short = float(protocol.stage("reported")["seconds"])
    end = float(protocol.stage("long")["seconds"])
    reference = results_of_arms[protocol.reference]
    rows = []
    for arm, results in results_of_arms.items():
        greedy_S_T = [100 * curve(result, "greedy").values_T_Q.mean(axis=1) for result in results]
        cells = [arm, with_spread([values_T.max() for values_T in greedy_S_T], digits=1)]
        cells += [with_spread([values_T[-1] for values_T in greedy_S_T], digits=1)]
        if arm == protocol.reference:
            cells += ["the reference", "", ""]
        else:
            first = compared(results, reference, over_run=True, until=short)
            whole = compared(results, reference, over_run=True)
            cells += [points_by_t(difference(first)), points_by_t(difference(whole))]
            cells += [points_by_t(difference(compared(results, reference)))]
        rows.append(cells)
    heads = ["arm", "highest, %", "last, %", f"over the first {short:.0f} s"]
    return [
        f"Right greedy answers: the highest of all measurements, the last one, and beside"
        f" {protocol.reference} in points (95 % by t, for one difference alone). The first"
        f" {short:.0f} s repeat the reported runs with other seeds:",
        "",
        *table([*heads, f"over {end:.0f} s", f"at {end:.0f} s"], rows),
        "",
    ]


def _samples(reported: Reported, results_of_arms: dict[str, list[Result]]) -> list[str]:
    reference = results_of_arms[reported.protocol.reference]
    samples = samples_of(reported.protocol, "long")
    ks = [*(k for k in _FEWER if k < samples), samples]
    rows = [["the start", *_pass_cells(reference, ks, 0), *variety_cells(reference, 0)[2:4]]]
    for arm, results in results_of_arms.items():
        rows.append([arm, *_pass_cells(results, ks, -1), *variety_cells(results, -1)[2:4]])
    questions = len(curve(reference[0], "pass_k").values_T_Q[0])
    heads = ["arm", *(f"pass@{k}, %" for k in ks), f"distinct answers of {samples}"]
    return [
        f"Of {samples} samples of each of the first {questions} test questions, as last measured."
        " *Pass@k* is the chance that one of k samples is right; ± is 95 % by t over seeds:",
        "",
        *table([*heads, "entropy, nats"], rows, align_right=True),
        "",
    ]


def _pass_cells(results: Sequence[Result], ks: Sequence[int], point: int) -> list[str]:
    cells = []
    for k in ks:
        cells.append(with_spread([100 * pass_at(result, k, point) for result in results], digits=1))
    return cells


def _variety(
    reported: Reported, set_name: str, results_of_arms: dict[str, list[Result]]
) -> list[str]:
    other = reported.protocol.values["advice"]["variety_beside"]
    most = 100 * float(reported.protocol.values["advice"]["most_variety_lost"])
    measure = f"pass@{samples_of(reported.protocol, 'long')}"
    rows = []
    for arm, found in advice.variety(reported, set_name).items():
        beside = points(found.from_other) if found.from_other else "the same"
        rows.append([arm, points(found.from_start), beside, "lost" if found.is_lost else "kept"])
    if not rows:
        return []
    return [
        f"By the rule an arm loses variety if its {measure} ends more than {most:.0f} points below"
        f" its own start, or below {other}. {INTERVALS} The rule asks for the mean alone:",
        "",
        *table(["arm", f"{measure} above its start", f"{measure} beside {other}", "variety"], rows),
        "",
        *_near_the_bound(reported, set_name, results_of_arms),
    ]


def _near_the_bound(
    reported: Reported, set_name: str, results_of_arms: dict[str, list[Result]]
) -> list[str]:
    """Where the last measurement, and a line to the end of the planned time, decide otherwise."""
    rule = reported.protocol.values["advice"]
    most = float(rule["most_variety_lost"])
    lines = []
    for arm, found in advice.variety(reported, set_name).items():
        if found.from_other is None:
            continue
        other = results_of_arms[rule["variety_beside"]]
        # Rounding takes away what adding shares of few questions leaves behind.
        last = round(_last_pass_k(results_of_arms[arm]) - _last_pass_k(other), 9)
        if (last < -most) != (found.from_other.mean < -most):
            lines += [
                f"{arm} is at the bound: {100 * found.from_other.mean:+.6f} points beside"
                f" {rule['variety_beside']} at the end of the planned time, on a straight line"
                f" between two measurements, and {100 * last:+.6f} as last measured, which would"
                f" count as {'lost' if last < -most else 'kept'}.",
                "",
            ]
    return lines


def _last_pass_k(results: Sequence[Result]) -> float:
    """The mean pass@k of the last measurement of each run."""
    return float(np.mean([curve(result, "pass_k").values_T_Q[-1].mean() for result in results]))
