"""The results of an arm's runs, at equal time and at equal rollouts, question by question."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from benchmarks.frozen.records import Result
from podslab.statistics.curves import Floats

#: What a run may be read along.
AXES = ("seconds", "rollouts")
#: What is measured of each question, and what makes a value of what the file holds.
MEASURES = ("greedy", "pass_1", "pass_k", "entropy", "distinct")


@dataclass(frozen=True)
class Curve:
    """A measure of one run, along an axis.

    Args:
        at_T: The places of the measurements, in seconds of training or in rollouts.
        values_T_Q: The values of each question, shape (T, Q).
    """

    at_T: Floats
    values_T_Q: Floats

    def value(self, at: float) -> Floats:
        """The values of the questions at a place, on a straight line between measurements."""
        right = int(np.clip(np.searchsorted(self.at_T, at), 1, len(self.at_T) - 1))
        left = right - 1
        span = self.at_T[right] - self.at_T[left]
        share = float(np.clip((at - self.at_T[left]) / span, 0.0, 1.0))
        values: Floats = (1 - share) * self.values_T_Q[left] + share * self.values_T_Q[right]
        return values

    def places_until(self, end: float) -> Floats:
        """The places of its measurements before an end, and the end."""
        return np.append(self.at_T[self.at_T < end], end)

    def mean_until(self, end: float) -> Floats:
        """The mean of the questions' values from the start to a place: the area under the curve."""
        return self.mean_over(self.places_until(end))

    def mean_over(self, places: Floats) -> Floats:
        """The same, of the curve as it looks if it is read at some places alone."""
        values_T_Q = np.array([self.value(place) for place in places])
        area_Q: Floats = np.trapezoid(values_T_Q, places, axis=0) / (places[-1] - places[0])
        return area_Q


def curve(result: Result, measure: str, axis: str = "seconds") -> Curve:
    """A measure of a run along an axis.

    Args:
        result: The content of its raw file.
        measure: One of `MEASURES`.
        axis: One of `AXES`.
    """
    key = "right" if measure in ("pass_1", "pass_k") else measure
    points = [point for point in result["measured"] if key in point]
    samples = result["schedule"]["samples"]
    values = [_values(point[key], measure, samples) for point in points]
    return Curve(
        at_T=np.array([float(point[axis]) for point in points]),
        values_T_Q=np.array(values, dtype=np.float64),
    )


def _values(raw: Any, measure: str, samples: int) -> list[float]:
    if measure == "greedy":
        return [float(character) for character in raw]
    if measure == "pass_1":
        return [count / samples for count in raw]
    if measure == "pass_k":
        return [float(count > 0) for count in raw]
    return [float(value) for value in raw]


def compared(
    results_S: Sequence[Result],
    others_S: Sequence[Result],
    *,
    measure: str = "greedy",
    axis: str = "seconds",
    over_run: bool = False,
    until: float = float("inf"),
) -> Floats:
    """The differences of the runs of an arm from those of another one, by seed and question.

    The two runs of a seed are compared at the end of the one that ended first on the axis; with
    `over_run`, by their means up to there. All runs are measured at the same times, but not at the
    same numbers of rollouts. So by rollouts both means are of what one sees at the places of the
    run that was measured there less often: a curve that rises ever more slowly looks lower where
    it is read at fewer places.

    Args:
        results_S: The runs of the arm, one for each seed.
        others_S: Those of the other arm, of the same seeds.
        measure: One of `MEASURES`.
        axis: One of `AXES`.
        over_run: Whether means over the run are compared.
        until: A place on the axis at which both are read, if neither has ended there.

    Returns:
        Shape (S, Q).
    """
    differences = []
    for result, other in zip(results_S, others_S, strict=True):
        curves = [curve(run, measure, axis) for run in (result, other)]
        end = min(until, *(one.at_T[-1] for one in curves))
        if axis == "seconds":
            end = min(end, float(result["seconds"]))
        if not over_run:
            mine, theirs = (one.value(end) for one in curves)
        elif axis == "rollouts":
            places = min((one.places_until(end) for one in curves), key=len)
            mine, theirs = (one.mean_over(places) for one in curves)
        else:
            mine, theirs = (one.mean_until(end) for one in curves)
        differences.append(mine - theirs)
    return np.array(differences)


def pass_at(result: Result, k: int, point: int = -1) -> float:
    """Pass@k at a measurement: the chance that one of k samples of a question is right.

    Of the 16 samples of each question k are drawn without putting them back (the unbiased estimate
    of Chen et al., arXiv 2107.03374, section 2.1), and the mean is over the questions.
    """
    samples = int(result["schedule"]["samples"])
    sampled = [one["right"] for one in result["measured"] if "right" in one]
    shares = [1 - comb(samples - right, k) / comb(samples, k) for right in sampled[point]]
    return float(np.mean(shares))
