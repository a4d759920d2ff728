"""What the runs of an arm did, at equal time and at equal rollouts, question by question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.comparison.intervals import Floats

Result = Mapping[str, Any]
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

    def mean_until(self, end: float) -> Floats:
        """The mean of the questions' values from the start to a place: the area under the curve."""
        inside = self.at_T[self.at_T < end]
        places = np.append(inside, end)
        values_T_Q = np.array([self.value(place) for place in places])
        area_Q: Floats = np.trapezoid(values_T_Q, places, axis=0) / (end - places[0])
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


def mean_over_run(result: Result, seconds: float) -> float:
    """The share of right greedy answers, averaged over the time of a run."""
    return float(curve(result, "greedy").mean_until(seconds).mean())


def compared(
    results_S: Sequence[Result],
    others_S: Sequence[Result],
    *,
    measure: str = "greedy",
    axis: str = "seconds",
    over_run: bool = False,
) -> Floats:
    """How far the runs of an arm are above those of another one, of each seed and question.

    The two runs of a seed are compared at the end of the one that ended first on the axis; with
    `over_run`, by their means up to there.

    Args:
        results_S: The runs of the arm, one for each seed.
        others_S: Those of the other arm, of the same seeds.
        measure: One of `MEASURES`.
        axis: One of `AXES`.
        over_run: Whether means over the run are compared.

    Returns:
        Shape (S, Q).
    """
    differences = []
    for result, other in zip(results_S, others_S, strict=True):
        curves = [curve(run, measure, axis) for run in (result, other)]
        end = min(one.at_T[-1] for one in curves)
        if axis == "seconds":
            end = min(end, float(result["seconds"]))
        mine, theirs = (one.mean_until(end) if over_run else one.value(end) for one in curves)
        differences.append(mine - theirs)
    return np.array(differences)


def from_start(results_S: Sequence[Result], measure: str) -> Floats:
    """How far the runs end above their own start, of each seed and question; shape (S, Q)."""
    rises = []
    for result in results_S:
        own = curve(result, measure)
        rises.append(own.values_T_Q[-1] - own.values_T_Q[0])
    return np.array(rises)


def median_ratio(results: Sequence[Result]) -> float | None:
    """The median g/u of runs: the time to generate a rollout over that to update on a row.

    None where no run updated on any row.
    """
    ratios = [result["g_over_u"] for result in results if result["g_over_u"] is not None]
    return float(np.median(ratios)) if ratios else None


def ratio_in_words(results: Sequence[Result]) -> str:
    """The median g/u, with two digits."""
    ratio = median_ratio(results)
    return "-" if ratio is None else f"{ratio:.2f}"
