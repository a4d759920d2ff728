"""What a published speed-up consists of: answers, their form, and both, beside each other."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from podslab.report.curves import ArmCurves, Floats
from podslab.report.load_runs import Comparison
from podslab.report.statistics import best_point, mean_over_seeds, speed_up
from podslab.report.summary import interval, speed

_NAMES = {"answer_accuracy": "answers", "format_accuracy": "form", "both_accuracy": "both at once"}
#: A difference in form that is so many times that in answers is called the larger part.
MUCH = 2.0


def remarks(comparison: Comparison) -> Iterable[str]:
    """Sentences on each arm beside the reference, from the same result files."""
    reference = comparison.arms[0].curves
    if len(reference.measures) < 2:
        yield "These exports hold answers only: what form has to do with it can't be told."
        return
    for arm in comparison.arms[1:]:
        yield from _beside(reference, arm.curves)


def _beside(reference: ArmCurves, arm: ArmCurves) -> Iterable[str]:
    for measure in reference.measures:
        own, other = (replace(of, accuracy=of.measures[measure]) for of in (arm, reference))
        found = speed_up(other, own)
        yield (
            f"By {_NAMES[measure]}: best {_best(own)} with {arm.arm}, {_best(other)} with"
            f" {other.arm}; "
            + (
                f"speed-up of {arm.arm} {speed(found)} ({interval(found)})."
                if found.learned
                else f"{other.arm} did not learn it by more than the noise."
            )
        )
    answers, form = (
        _end(arm.measures[m]) - _end(reference.measures[m])
        for m in ("answer_accuracy", "format_accuracy")
    )
    yield (
        f"At the end {arm.arm} has {_points(answers)} answers right than {reference.arm}, and"
        f" {_points(form)} in the asked format ({_range(arm)} over its checkpoints,"
        f" {_range(reference)} with {reference.arm})."
        + (
            " The rewards pay for form too: most of what sets the two apart is form."
            if abs(form) > MUCH * abs(answers)
            else " So the difference is in the answers at least as much as in their form."
        )
    )


def _best(curves: ArmCurves) -> str:
    return f"{100 * mean_over_seeds(curves.accuracy)[best_point(curves)]:.1f} %"


def _end(values_S_T: Floats) -> float:
    mean_T = mean_over_seeds(values_S_T)
    return float(mean_T[~np.isnan(mean_T)][-1])


def _points(difference: float) -> str:
    return f"{100 * abs(difference):.1f} points {'more' if difference >= 0 else 'fewer'}"


def _range(curves: ArmCurves) -> str:
    form_T = mean_over_seeds(curves.measures["format_accuracy"])
    form_T = form_T[mean_over_seeds(curves.seconds) > 0]
    return f"{100 * np.nanmin(form_T):.0f} to {100 * np.nanmax(form_T):.0f} %"
