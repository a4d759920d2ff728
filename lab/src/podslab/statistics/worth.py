"""The worth and the cost of a step of a method, beside a step of a reference.

**Worth.** Let R(b) be the mean accuracy of the reference after b of its steps, and A(k) that of the
method after k steps of its own. If each step of the method counts as X steps of the reference, its
curve becomes A(b / X). The worth is the X for which both curves have the same area

    integral from 0 to B of A(b / X) db  =  integral from 0 to B of R(b) db,

where B, the largest budget that both reach, is the smaller of the reference's steps and X times the
method's. Others call it the efficiency of a step, or of samples if samples are counted.

**Cost.** The seconds of a step of the method, over those of a step of the reference.

A method pays where its worth is above its cost, so the worth is also the cost at which it breaks
even. Worth does not depend on the machine, and cost hardly on the seeds.

**Intervals** are Student's t on a logarithmic scale. The variance of each arm's part is that of a
bootstrap over its runs, times S / (S - 1) for S runs, and the degrees of freedom are Welch's. So
few runs give a wide interval, which a percentile bootstrap does not.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from podslab.statistics.curves import ArmCurves, Floats
from podslab.statistics.differences import LEVEL
from podslab.statistics.speedup import Speedup, rise, speed_up

#: Worths beyond these are not told apart.
LEAST, MOST = 1 / 16, 16.0
_POINTS = 400  # of a curve, and of the search
_RESAMPLES = 500  # of each arm


@dataclass(frozen=True)
class Ratio:
    """A ratio to the reference, with its 95 % interval.

    Args:
        value: The ratio.
        low, high: The interval; None with a single run of an arm. An end is 0 or infinity where
            too many resamples have no worth between `LEAST` and `MOST`.
    """

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.2f}"
        high = f"to {self.high:.2f}" if math.isfinite(self.high) else "or more"
        return f"{self.value:.2f} ({self.low:.2f} {high})"


@dataclass(frozen=True)
class StepValue:
    """The worth and the cost of a method's step, beside a step of a reference.

    Args:
        worth: In steps of the reference; None where it is not defined.
        cost: In steps of the reference, by seconds; None where seconds are not known.
        gain: The worth over the cost; None where one of them is.
        undefined: Why there is no worth; "" where there is one.
        budget: The steps of the reference over which areas are compared; 0 without a worth.
    """

    worth: Ratio | None
    cost: Ratio | None
    gain: Ratio | None
    undefined: str = ""
    budget: float = 0.0

    @property
    def pays(self) -> bool | None:
        """Whether worth is above cost, by the interval of their quotient; None: open."""
        if self.gain is None or self.gain.low is None or self.gain.high is None:
            return None
        if self.gain.low > 1:
            return True
        return False if self.gain.high < 1 else None


@dataclass(frozen=True)
class _Runs:
    """The runs of an arm, read at the same steps.

    Args:
        steps: The steps that all of its runs reach.
        accuracy_S_G: At `_POINTS` + 1 even places from 0 to there.
        last_steps_S, last_seconds_S: At the end of each run.
    """

    steps: float
    accuracy_S_G: Floats
    last_steps_S: Floats
    last_seconds_S: Floats

    @classmethod
    def of(cls, curves: ArmCurves) -> "_Runs":
        """Read the runs on straight lines between their measurements.

        A run is level before its first measurement, where the untrained model was not measured.
        """
        runs = [_measured(curves, place) for place in range(len(curves.seeds))]
        steps = min(float(steps_T[-1]) for steps_T, _, _ in runs)
        places_G = np.linspace(0.0, steps, _POINTS + 1)
        return cls(
            steps=steps,
            accuracy_S_G=np.array([np.interp(places_G, at_T, of_T) for at_T, of_T, _ in runs]),
            last_steps_S=np.array([steps_T[-1] for steps_T, _, _ in runs]),
            last_seconds_S=np.array([seconds for _, _, seconds in runs]),
        )

    @property
    def number(self) -> int:
        """The number of runs."""
        return len(self.accuracy_S_G)

    def area_until(self, places_X: Floats) -> Floats:
        """The area under the curve of each run, from 0 to each place; shape (S, X)."""
        places_G = np.linspace(0.0, self.steps, _POINTS + 1)
        heights_S_G = (self.accuracy_S_G[:, 1:] + self.accuracy_S_G[:, :-1]) / 2
        areas_S_G = np.cumsum(heights_S_G, axis=1) * self.steps / _POINTS
        areas_S_G = np.pad(areas_S_G, [(0, 0), (1, 0)])
        return np.array([np.interp(places_X, places_G, areas_G) for areas_G in areas_S_G])

    def seconds_of_a_step(self, shares_S: Floats) -> float:
        """The mean training time of a step."""
        return float(shares_S @ self.last_seconds_S / (shares_S @ self.last_steps_S))


def _measured(curves: ArmCurves, place: int) -> tuple[Floats, Floats, float]:
    """The steps and accuracies of a run, and its seconds at the end."""
    is_there_T = ~(np.isnan(curves.steps[place]) | np.isnan(curves.accuracy[place]))
    # An export may hold the same measurement twice.
    steps_T, first_T = np.unique(curves.steps[place][is_there_T], return_index=True)
    accuracy_T = curves.accuracy[place][is_there_T][first_T]
    return steps_T, accuracy_T, float(curves.seconds[place][is_there_T][-1])


#: The worths that are tried, evenly on a logarithmic scale.
_TRIED_X = np.geomspace(LEAST, MOST, _POINTS + 1)


def step_value(reference: ArmCurves, arm: ArmCurves, until: float = 1.0) -> StepValue:
    """The worth of an arm's step, its cost, and their quotient.

    Args:
        reference: The arm whose step is 1.
        arm: The arm that is judged.
        until: The share of the reference's steps that the areas go to at most.
    """
    for curves in (reference, arm):
        if not _has_steps(curves):
            return StepValue(None, None, None, f"the steps of {curves.arm} are not known")

    pair = _Pair.of(_Runs.of(reference), _Runs.of(arm), until)
    cost = _ratio(pair, pair.log_cost) if pair.has_seconds else None
    undefined = _why_undefined(reference, pair)
    if undefined:
        return StepValue(None, cost, None, undefined)

    (log_worth,) = pair.log_worths(pair.all_runs)

    def log_worth_of(sample: _Sample) -> float:
        # Where several fit a resample, the one that belongs to that of all runs.
        return min(pair.log_worths(sample), key=lambda one: abs(one - log_worth))

    def log_gain_of(sample: _Sample) -> float:
        return log_worth_of(sample) - pair.log_cost(sample)

    worth = _ratio(pair, log_worth_of)
    return StepValue(
        worth=worth,
        cost=cost,
        gain=_ratio(pair, log_gain_of) if pair.has_seconds else None,
        budget=min(pair.most_budget, worth.value * pair.arm.steps),
    )


def worth_by_level(reference: ArmCurves, arm: ArmCurves) -> Speedup:
    """The ratio of the reference's steps to the arm's, up to 99 % of the reference's best accuracy.

    The other measure of a step's worth: that of `speed_up`, with steps in place of seconds.
    """
    return speed_up(replace(reference, seconds=reference.steps), replace(arm, seconds=arm.steps))


def _has_steps(curves: ArmCurves) -> bool:
    """Whether every run was measured after a known number of steps, above 0."""
    is_after_steps_S_T = (curves.steps > 0) & ~np.isnan(curves.accuracy)
    return bool(is_after_steps_S_T.any(axis=1).all())


def _why_undefined(reference: ArmCurves, pair: "_Pair") -> str:
    """Why no worth can be told; "" where one can."""
    if not rise(reference).learned:
        return f"{reference.arm} learned no more than noise"

    found = pair.log_worths(pair.all_runs)
    if len(found) > 1:
        worths = ", ".join(f"{math.exp(one):.2f}" for one in found)
        return f"a curve falls, so that several worths fit: {worths}"
    if found[0] == math.inf:
        return f"above {MOST:g}: {reference.arm} never gets so far"
    if found[0] == -math.inf:
        return f"below {LEAST:.2g}: it never gets as far as {reference.arm}"
    return ""


@dataclass(frozen=True)
class _Sample:
    """The share that each run has in a sample of both arms, shape (S,) each."""

    reference_S: Floats
    arm_S: Floats


@dataclass(frozen=True)
class _Pair:
    """Two arms that are compared.

    Args:
        reference, arm: Their runs.
        most_budget: The largest budget, in steps of the reference.
        reference_S_X, arm_S_X: The mean accuracy of each run over the budget that both reach, for
            each worth that is tried.
    """

    reference: _Runs
    arm: _Runs
    most_budget: float
    reference_S_X: Floats
    arm_S_X: Floats

    @classmethod
    def of(cls, reference: _Runs, arm: _Runs, until: float) -> "_Pair":
        """Compare areas up to a share of the reference's steps at most."""
        most_budget = until * reference.steps
        budget_X = np.minimum(most_budget, _TRIED_X * arm.steps)
        return cls(
            reference=reference,
            arm=arm,
            most_budget=most_budget,
            reference_S_X=reference.area_until(budget_X) / budget_X,
            arm_S_X=arm.area_until(budget_X / _TRIED_X) * _TRIED_X / budget_X,
        )

    @property
    def has_seconds(self) -> bool:
        """Whether both arms' training times are known."""
        both = np.concatenate([self.reference.last_seconds_S, self.arm.last_seconds_S])
        return bool((both > 0).all())

    @property
    def all_runs(self) -> _Sample:
        """All runs, with the same share each."""
        return _Sample(_alike(self.reference.number), _alike(self.arm.number))

    def log_cost(self, sample: _Sample) -> float:
        """The logarithm of the cost."""
        mine = self.arm.seconds_of_a_step(sample.arm_S)
        return math.log(mine / self.reference.seconds_of_a_step(sample.reference_S))

    def log_worths(self, sample: _Sample) -> list[float]:
        """The logarithm of every worth at which areas are equal; infinite where none is."""
        # How far the arm is ahead if each of its steps counts as so many of the reference.
        lead_X = sample.arm_S @ self.arm_S_X - sample.reference_S @ self.reference_S_X
        ends = np.flatnonzero((lead_X[:-1] > 0) & (lead_X[1:] <= 0))
        if len(ends) == 0:
            return [math.inf if lead_X[-1] > 0 else -math.inf]

        log_X = np.log(_TRIED_X)
        share = lead_X[ends] / (lead_X[ends] - lead_X[ends + 1])
        found: list[float] = (log_X[ends] + share * (log_X[ends + 1] - log_X[ends])).tolist()
        return found

    def resamples(self) -> list[list[_Sample]]:
        """Samples in which the runs of the reference are drawn anew, and those of the arm."""
        draw = np.random.default_rng(0)
        everything = self.all_runs
        of_reference = [
            replace(everything, reference_S=shares_S)
            for shares_S in _drawn_anew(draw, self.reference.number)
        ]
        of_arm = [
            replace(everything, arm_S=shares_S) for shares_S in _drawn_anew(draw, self.arm.number)
        ]
        return [of_reference, of_arm]


def _alike(number: int) -> Floats:
    return np.full(number, 1 / number)


def _drawn_anew(draw: np.random.Generator, number: int) -> Floats:
    """The shares of so many runs in each resample, shape (B, S)."""
    shares: Floats = draw.multinomial(number, _alike(number), size=_RESAMPLES) / number
    return shares


def _ratio(pair: _Pair, log_of: Callable[[_Sample], float]) -> Ratio:
    """A ratio with its interval, given by its logarithm in a sample."""
    from scipy.special import stdtrit

    log = log_of(pair.all_runs)
    numbers = (pair.reference.number, pair.arm.number)
    if min(numbers) < 2:
        return Ratio(math.exp(log))

    variances = []
    share_below = share_above = 0.0
    for number, samples in zip(numbers, pair.resamples(), strict=True):
        values_B = np.array([log_of(sample) for sample in samples])
        share_below += float(np.mean(values_B == -math.inf))
        share_above += float(np.mean(values_B == math.inf))
        is_finite_B = np.isfinite(values_B)
        spread = float(np.var(values_B[is_finite_B])) if is_finite_B.any() else 0.0
        variances.append(spread * number / (number - 1))

    # Welch's degrees of freedom; without any spread the interval is a point.
    variance = sum(variances)
    if variance > 0:
        free = variance**2 / sum(
            of_arm**2 / (number - 1) for of_arm, number in zip(variances, numbers, strict=True)
        )
        reach = float(stdtrit(free, (1 + LEVEL) / 2)) * math.sqrt(variance)
    else:
        reach = 0.0

    outside = (1 - LEVEL) / 2
    return Ratio(
        value=math.exp(log),
        low=0.0 if share_below > outside else math.exp(log - reach),
        high=math.inf if share_above > outside else math.exp(min(log + reach, 700.0)),
    )
