"""One run's measurements, question by question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podslab.engine.budget import Prices
from podslab.evaluation.records import Evaluation, are_right_or_wrong
from podslab.statistics.curves import ArmCurves, Floats

#: How a run is judged: by its last measurement, or by the mean over it.
AT_END, OVER_RUN = "end", "run"


def mean_of_scored(rewards: Floats, axis: int | tuple[int, ...] | None = None) -> Any:
    """The mean of the rewards that are numbers; NaN where none is.

    >>> mean_of_scored(np.array([[1.0, np.nan], [np.nan, np.nan]]), axis=1)
    array([ 1., nan])
    """
    is_scored = np.isfinite(rewards)
    number = is_scored.sum(axis=axis)
    total = np.where(is_scored, rewards, 0.0).sum(axis=axis)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


@dataclass(frozen=True)
class RunCurve:
    """The measurements of one run: T points, P questions, K sampled answers to each.

    Args:
        seconds_T: The training time until each measurement.
        steps_T: The optimiser steps until then.
        rollouts_T: The rollouts that were generated until then.
        rows_T: The rows that the update saw until then.
        passed_T: The rows that had a pass until then, counted in every pass.
        rewards_T_P_K: The rewards of the answers; NaN where an answer could not be scored.
        greedy_T_P: The rewards of the likeliest answers; None where they were not measured.
    """

    seconds_T: Floats
    steps_T: Floats
    rollouts_T: Floats
    rows_T: Floats
    passed_T: Floats
    rewards_T_P_K: Floats
    greedy_T_P: Floats | None = None

    @classmethod
    def of(cls, points: Sequence[Evaluation]) -> "RunCurve":
        """The curve of a run's evaluations, which hold the reward of every answer."""
        greedy = [point.greedy_rewards for point in points]
        return cls(
            seconds_T=np.array([point.training_seconds for point in points], dtype=float),
            steps_T=np.array([point.step for point in points], dtype=float),
            rollouts_T=np.array([point.rollouts_generated for point in points], dtype=float),
            rows_T=np.array([point.rollouts_trained for point in points], dtype=float),
            passed_T=np.array([point.rows_passed for point in points], dtype=float),
            rewards_T_P_K=np.array([point.rewards for point in points], dtype=float),
            greedy_T_P=np.array(greedy, dtype=float) if all(greedy) else None,
        )

    @property
    def rewards_T(self) -> Floats:
        """The mean reward at each measurement."""
        mean: Floats = mean_of_scored(self.rewards_T_P_K, axis=(1, 2))
        return mean

    def along_T(self, unit: str, prices: Prices | None = None) -> Floats:
        """The spending until each measurement.

        Args:
            unit: "training_seconds", "steps", "rollouts" or "price".
            prices: The prices of a rollout and of a row, for "price".
        """
        if unit == "price":
            assert prices is not None  # a budget by price has them
            return prices.rollout * self.rollouts_T + prices.row * self.passed_T
        axes = {
            "training_seconds": self.seconds_T,
            "steps": self.steps_T,
            "rollouts": self.rollouts_T,
        }
        return axes[unit]

    def value_P(
        self, by: str, unit: str = "training_seconds", prices: Prices | None = None
    ) -> Floats:
        """The mean reward of each question, by which runs are compared.

        A mean over the run goes to its last measurement, at the end of the step in which the budget
        was spent. So it covers up to a step more than the budget, and a method with longer steps
        covers more: of two runs with the same reward at every second, the one of 9 steps had 0.005
        more than the one of 29, while rewards rose by 0.5.

        Args:
            by: `AT_END`, or `OVER_RUN`, the area under the question's curve over its length.
            unit: As in `along_T`, the axis of that area.
            prices: As in `along_T`.
        """
        rewards_T_P: Floats = mean_of_scored(self.rewards_T_P_K, axis=-1)
        along_T = self.along_T(unit, prices)
        if by == AT_END or along_T[-1] == along_T[0]:
            at_end_P: Floats = rewards_T_P[-1]
            return at_end_P
        mean_P: Floats = np.trapezoid(rewards_T_P, along_T, axis=0) / (along_T[-1] - along_T[0])
        return mean_P


def arm_curves(arm: str, runs: Mapping[int, RunCurve], prices: Prices | None = None) -> ArmCurves:
    """The learning curves of an arm, by the mean reward of the sampled answers.

    Args:
        arm: The arm's name.
        runs: Its runs by their seeds.
        prices: Where they are given, prices stand in place of seconds.
    """
    curves = [runs[seed] for seed in sorted(runs)]
    longest = max(len(curve.steps_T) for curve in curves)

    def table(values_of_runs: Sequence[Floats]) -> Floats:
        # A run that lacks a measurement has NaN in its place.
        return np.array(
            [
                np.pad(values_T, (0, longest - len(values_T)), constant_values=np.nan)
                for values_T in values_of_runs
            ]
        )

    # Only of rights and wrongs it is known how far chance moves their share.
    rewards = np.concatenate([curve.rewards_T_P_K.ravel() for curve in curves])
    is_known = are_right_or_wrong(rewards)
    answers = float(curves[0].rewards_T_P_K[0].size) if is_known else np.nan
    shape = (len(curves), longest)
    seconds = [
        curve.seconds_T if prices is None else curve.along_T("price", prices) for curve in curves
    ]
    return ArmCurves(
        arm=arm,
        seeds=tuple(sorted(runs)),
        steps=table([curve.steps_T for curve in curves]),
        seconds=table(seconds),
        generated=table([curve.rollouts_T for curve in curves]),
        trained=table([curve.rows_T for curve in curves]),
        accuracy=table([curve.rewards_T for curve in curves]),
        length=np.full(shape, np.nan),
        answers=np.full(shape, answers),
    )
