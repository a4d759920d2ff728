"""What the runs say: which method, at which rate, reached what, and how sure that is."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from podslab.columns import aligned
from podslab.durations import duration
from podslab.evaluation.records import evaluations
from podslab.own_script.job import MINIBATCHES, YOURS, Arm
from podslab.own_script.plan import EVALUATIONS, Plan
from podslab.recommend.answer import over_cost
from podslab.recommend.known_worth import MeasuredWorth
from podslab.recommend.measured_steps import MeasuredSteps
from podslab.report.drawing import looks, render, style
from podslab.report.summary import UNKNOWN
from podslab.statistics.curves import ArmCurves
from podslab.statistics.worth import step_value
from podsrl.errors import listed
from podsrl.rollout_log import files
from podsrl.rollout_log.run_folder import PHASES, RunFolder

#: What methods are compared with, where it is one of them; else the first one.
_REFERENCE = "grpo"
#: How often an interval holds the truth.
_LEVEL = 0.95


def mean_of_scored(rewards: np.ndarray, axis: int | tuple[int, ...] | None = None) -> np.ndarray:
    """The mean of the rewards that are numbers; NaN where none is.

    >>> mean_of_scored(np.array([[1.0, np.nan], [np.nan, np.nan]]), axis=1)
    array([ 1., nan])
    """
    is_scored = np.isfinite(rewards)
    number = is_scored.sum(axis=axis)
    total = np.where(is_scored, rewards, 0.0).sum(axis=axis)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


@dataclass(frozen=True)
class Curve:
    """A run of one method and seed.

    Args:
        seconds_T: The training time of each measurement.
        steps_T: The optimiser steps until then.
        rewards_T_P_K: The rewards of K answers to each of P questions, at T measurements; NaN of
            an answer that could not be scored.
        greedy_T_P: Those of the likeliest answers.
        phases: Seconds of training by phase.
        config: The run's settings.
    """

    seconds_T: np.ndarray
    steps_T: np.ndarray
    rewards_T_P_K: np.ndarray
    greedy_T_P: np.ndarray
    phases: Mapping[str, float]
    config: Mapping[str, Any]

    @property
    def steps(self) -> int:
        """Optimiser steps in all."""
        return int(self.steps_T[-1])

    @property
    def rewards_T(self) -> np.ndarray:
        """The mean reward at each measurement."""
        return mean_of_scored(self.rewards_T_P_K, axis=(1, 2))

    @classmethod
    def of(cls, folder: RunFolder) -> "Curve":
        """Read a finished run."""
        points = evaluations(folder)
        rows = folder.metrics()
        phases = {}
        for phase in PHASES:
            phases[phase] = sum(row.get(f"pods/seconds_{phase}") or 0.0 for row in rows)

        return cls(
            seconds_T=np.array([point.training_seconds for point in points]),
            steps_T=np.array([point.step for point in points]),
            rewards_T_P_K=np.array([point.rewards for point in points], dtype=float),
            greedy_T_P=np.array([point.greedy_rewards for point in points], dtype=float),
            phases=phases,
            config=folder.config(),
        )


@dataclass(frozen=True)
class Measured:
    """All methods at one seed."""

    seed: int
    curves: Mapping[str, Curve]

    @classmethod
    def of(cls, seed: int, runs: Mapping[str, RunFolder]) -> "Measured":
        """Read the runs of a seed, which are finished."""
        return cls(seed, {method: Curve.of(folder) for method, folder in runs.items()})


@dataclass(frozen=True)
class Difference:
    """How much more reward a method has at the end than another, with a 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def is_certain(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


def arm_curves(by_seed: Sequence[Measured], method: str) -> ArmCurves:
    """The learning curves of a method, by the mean reward of the sampled answers."""
    curves = [seed.curves[method] for seed in by_seed]
    longest = max(len(curve.steps_T) for curve in curves)

    def table(values_of_curves: Sequence[np.ndarray]) -> np.ndarray:
        # A run that lacks a measurement has NaN in its place.
        return np.array(
            [
                np.pad(values, (0, longest - len(values)), constant_values=np.nan)
                for values in values_of_curves
            ]
        )

    rewards = np.concatenate([curve.rewards_T_P_K.ravel() for curve in curves])
    is_binary = np.isin(rewards[np.isfinite(rewards)], (0.0, 1.0)).all()
    answers = float(curves[0].rewards_T_P_K[0].size) if is_binary else np.nan
    unknown = np.full((len(curves), longest), np.nan)
    return ArmCurves(
        arm=method,
        seeds=tuple(seed.seed for seed in by_seed),
        steps=table([curve.steps_T.astype(float) for curve in curves]),
        seconds=table([curve.seconds_T for curve in curves]),
        generated=unknown,
        trained=unknown,
        accuracy=table([curve.rewards_T for curve in curves]),
        length=unknown,
        # Only of rights and wrongs it is known how far chance moves their share.
        answers=np.full((len(curves), longest), answers),
    )


def difference(by_seed: Sequence[Measured], method: str, reference: str) -> Difference:
    """The paired difference of two methods, at the end.

    Two things could be otherwise: the seeds, by Student's t over their differences, and the
    questions, by the spread of a question's difference. The wider interval of the two counts.
    """
    from scipy.special import ndtri, stdtrit

    # Of each seed and question, over answers: shape (S, P).
    ends = [
        mean_of_scored(seed.curves[method].rewards_T_P_K[-1], axis=-1)
        - mean_of_scored(seed.curves[reference].rewards_T_P_K[-1], axis=-1)
        for seed in by_seed
    ]
    difference_S_P = np.array(ends)
    mean = float(mean_of_scored(difference_S_P))
    per_question_P = mean_of_scored(difference_S_P, axis=0)
    per_question_P = per_question_P[np.isfinite(per_question_P)]
    if len(per_question_P) < 2:
        return Difference(mean, -math.inf, math.inf)

    quantile = 1 - (1 - _LEVEL) / 2
    error = ndtri(quantile) * per_question_P.std(ddof=1) / math.sqrt(len(per_question_P))
    seeds = len(difference_S_P)
    if seeds > 1:
        per_seed_S = mean_of_scored(difference_S_P, axis=1)
        of_seeds = stdtrit(seeds - 1, quantile) * per_seed_S.std(ddof=1) / math.sqrt(seeds)
        error = max(error, of_seeds)
    return Difference(mean, mean - float(error), mean + float(error))


def is_certain(by_seed: Sequence[Measured]) -> bool:
    """Whether the intervals of all pairs of methods leave out 0."""
    if not by_seed:
        return False
    pairs = itertools.combinations(by_seed[0].curves, 2)
    return all(difference(by_seed, one, other).is_certain for one, other in pairs)


def noise_of(rewards_P_K: np.ndarray, questions: int) -> float:
    """The difference in reward that two equally good methods may show over so many questions.

    Twice the standard error of the difference of two means, by the spread over P questions.
    """
    per_question_P = mean_of_scored(rewards_P_K, axis=1)
    per_question_P = per_question_P[np.isfinite(per_question_P)]
    return float(2 * math.sqrt(2) * per_question_P.std(ddof=1) / math.sqrt(questions))


@dataclass(frozen=True)
class Answer:
    """What the runs of a plan say.

    Args:
        plan: What was run.
        best: The arm of each method, with the rate that was chosen.
        by_seed: The reported runs.
        failed: Why runs failed, by their names.
        elsewhere: The costs of steps that `pods recommend` measured into the same folder, such as
            on a larger machine.
    """

    plan: Plan
    best: Mapping[str, Arm]
    by_seed: Sequence[Measured]
    failed: Mapping[str, str]
    elsewhere: MeasuredSteps | None = None

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def reference(self) -> str:
        """What others are compared with."""
        return _REFERENCE if _REFERENCE in self.best else next(iter(self.best))

    def lines(self) -> list[str]:
        """The table, the conclusions, and the fields to paste."""
        failures = [f"Failed: {name}: {why}" for name, why in self.failed.items()]
        if len(self.best) < 2 or not self.by_seed:
            nothing = (
                "Fewer than two methods have a whole run of the same seed, so nothing is compared."
            )
            return [nothing, *failures]
        lines = [self.table(), "", *self.conclusions(), *failures]
        if not self._nothing_varies():
            lines += ["", *self.what_steps_are_worth()]
        return lines if self._nothing_varies() else [*lines, "", *self.to_paste()]

    def table(self) -> str:
        """One line for each method; means over seeds, in brackets the least and the most."""
        heads = [
            "",
            "rate",
            "steps",
            "reward at first",
            "at the end",
            "mean over the run",
            self._best_of_k,
            "greedy",
            "generating",
            "updating",
        ]

        rows = [heads]
        for method, arm in self.best.items():
            curves = [seed.curves[method] for seed in self.by_seed]
            phases = [curve.phases for curve in curves]
            rewards = [curve.rewards_T_P_K for curve in curves]
            rows.append(
                [
                    method,
                    f"{arm.learning_rate:.3g}",
                    f"{np.mean([curve.steps for curve in curves]):.0f}",
                    _over_seeds([of_seed[0] for of_seed in rewards]),
                    _over_seeds([of_seed[-1] for of_seed in rewards]),
                    _over_seeds([of_seed[1:] for of_seed in rewards]),
                    _over_seeds([np.fmax.reduce(of_seed[-1], axis=-1) for of_seed in rewards]),
                    _over_seeds([curve.greedy_T_P[-1] for curve in curves]),
                    _share(phases, "generate"),
                    _share(phases, "update"),
                ]
            )

        return aligned(rows, numbers=True)

    def worths(self) -> list[MeasuredWorth]:
        """What a step of each method is worth, beside one of the reference; () without runs."""
        if len(self.best) < 2 or not self.by_seed or self._nothing_varies():
            return []

        reference = arm_curves(self.by_seed, self.reference)
        found = []
        for method in self.best:
            if method == self.reference:
                continue
            config = self.by_seed[0].curves[method].config
            found.append(
                MeasuredWorth(
                    method=method,
                    rollouts_per_row=config["num_rollouts"] / config["num_generations"],
                    value=step_value(reference, arm_curves(self.by_seed, method)),
                )
            )
        return found

    def what_steps_are_worth(self) -> list[str]:
        """A line for each method: worth, cost, quotient, and where it would break even."""
        curves = [seed.curves[self.reference] for seed in self.by_seed]
        seconds = sum(curve.seconds_T[-1] for curve in curves) / sum(
            curve.steps for curve in curves
        )
        rows = [["", "worth", "cost", "worth / cost", "breaks even at"]]
        undefined = []
        for one in self.worths():
            found = one.value
            if found.worth is None:
                undefined.append(f"{one.method}: no worth can be told: {found.undefined}")
            rows.append(
                [
                    one.method,
                    str(found.worth or UNKNOWN),
                    str(found.cost or UNKNOWN),
                    str(found.gain or UNKNOWN),
                    duration(found.worth.value * seconds) + " a step" if found.worth else UNKNOWN,
                ]
            )
        return [
            f"What a step is worth and costs, in steps of {self.reference}, which take"
            f" {duration(seconds)}; a method pays where worth / cost is above 1:",
            aligned(rows, numbers=True),
            *undefined,
            *self._elsewhere(),
        ]

    def _elsewhere(self) -> list[str]:
        """The same worths beside the costs that were measured on another machine."""
        if self.elsewhere is None or self.elsewhere.grpo is None or self.reference != _REFERENCE:
            return []
        lines = []
        for one in self.worths():
            for step in self.elsewhere.steps:
                is_same = (step.method, step.rollouts_per_row) == (one.method, one.rollouts_per_row)
                if is_same and step.steps and one.value.worth is not None:
                    cost = step.cost(self.elsewhere.grpo)
                    gain = over_cost(one.value.worth, cost)
                    lines.append(
                        f"On {self.elsewhere.machine} a step of {one.method} costs {cost:.2f}"
                        f" (steps.json), so worth / cost is {gain} there."
                    )
        return lines

    @property
    def _best_of_k(self) -> str:
        """The share of questions with a right answer among K, where rewards are 0 or 1."""
        answers = self.plan.answers
        is_binary = np.isin(self._scored(), (0.0, 1.0)).all()
        return f"pass@{answers}" if is_binary else f"best of {answers}"

    def conclusions(self) -> list[str]:
        """What is certain, and what these runs can't show."""
        first = next(iter(self.by_seed[0].curves.values()))
        questions = first.rewards_T_P_K.shape[1]
        seeds = len(self.by_seed)
        many = "one seed" if seeds == 1 else f"{seeds} seeds"

        lines = [
            f"After {duration(self.plan.seconds)} of training, {many}, {questions} questions,"
            f" {self.plan.answers} answers to each:"
        ]
        scored = self._scored()
        if len(scored) == 0:
            return [*lines, "no answer could be scored in any run: look at your reward function"]
        if self._nothing_varies():
            lines.append(
                "every answer to every question got the same reward in all runs: this reward can't"
                " tell answers apart, so no method can learn from it"
            )
            return lines

        for method in self.best:
            if method == self.reference:
                continue
            found = difference(self.by_seed, method, self.reference)
            interval = f"(95 % interval {found.low:+.3f} to {found.high:+.3f})"
            if found.is_certain:
                how = "more" if found.mean > 0 else "less"
                lines.append(
                    f"{method} has {abs(found.mean):.3f} {how} reward than {self.reference}"
                    f" {interval}"
                )
            else:
                lines.append(
                    f"{method} and {self.reference}: no difference that these runs can show"
                    f" {interval}"
                )

        lines += self._rates_at_the_edge()
        answers = sum(curve.rewards_T_P_K.size for curve in self._curves())
        if len(scored) < answers:
            lines.append(
                f"{1 - len(scored) / answers:.1%} of the answers could not be scored, and are left"
                " out"
            )
        if seeds < 3:
            lines.append("few seeds: more --hours make the intervals narrower")
        return lines

    def _rates_at_the_edge(self) -> list[str]:
        """Methods whose best rate is the lowest or the highest that was tried."""
        tried = sorted({arm.learning_rate for arm in self.plan.arms_to_tune})
        ends = {tried[0]: ("lowest", "lower"), tried[-1]: ("highest", "higher")}
        lines = []
        for method, arm in self.best.items():
            if arm.learning_rate in ends:
                end, beyond = ends[arm.learning_rate]
                lines.append(
                    f"{method} was best at the {end} rate that was tried, {arm.learning_rate:.3g}:"
                    f" a {beyond} one may be better still"
                )
        return lines

    def _nothing_varies(self) -> bool:
        scored = self._scored()
        return len(scored) == 0 or float(np.ptp(scored)) == 0.0

    def _scored(self) -> np.ndarray:
        """The rewards of all answers of the reported runs that could be scored, in a row."""
        rewards = np.concatenate([curve.rewards_T_P_K.ravel() for curve in self._curves()])
        return rewards[np.isfinite(rewards)]

    def _curves(self) -> list[Curve]:
        """The curves of all methods and seeds."""
        return [seed.curves[method] for seed in self.by_seed for method in self.best]

    def to_paste(self) -> list[str]:
        """The fields of the method that is certainly best, or advice to stay with the script's."""
        best = max(self.best, key=self._reward_at_the_end)
        if not self._is_certainly_better(best, self.reference):
            rate = self.best[self.reference].learning_rate
            return [
                f"Nothing is certainly better than {self.reference}: stay with it, at"
                f" learning_rate={rate:.3g}",
                *self._how_grpo_is_spared(),
            ]

        others = [method for method in self.best if method not in (best, self.reference)]
        as_good = [method for method in others if not self._is_certainly_better(best, method)]
        level = f" ({listed(as_good)} may be as good)" if as_good else ""
        rate = self.best[best].learning_rate
        if best == YOURS:
            return [f"Your own settings are the best{level}, at learning_rate={rate:.3g}"]
        name = "grpo" if best == MINIBATCHES else best
        return [
            f"To paste{level}:",
            f'    PODSConfig(..., method="{name}", {self._fields(best)}learning_rate={rate:.3g})',
        ]

    def _reward_at_the_end(self, method: str) -> float:
        """The mean over questions, answers and seeds; the least where nothing could be scored."""
        ends = [seed.curves[method].rewards_T[-1] for seed in self.by_seed]
        mean = float(np.mean(ends))
        return mean if math.isfinite(mean) else -math.inf

    def _is_certainly_better(self, best: str, other: str) -> bool:
        """Whether the runs show that the method with the highest reward has more than another."""
        return best != other and difference(self.by_seed, best, other).is_certain

    def _how_grpo_is_spared(self) -> list[str]:
        """TRL's own trainer has passes over rows that teach nothing, unlike GRPO as it ran here."""
        config = self.by_seed[0].curves[self.reference].config
        if self.reference != _REFERENCE or not config.get("skip_zero_advantage"):
            return []
        return [
            "GRPO ran here without passes over rows of advantage 0:"
            ' PODSConfig(..., method="grpo", skip_zero_advantage=True)'
        ]

    def _fields(self, method: str) -> str:
        """What a method's name leaves open, as it ran."""
        config = self.by_seed[0].curves[method].config
        names = ["num_rollouts", "num_generations"]
        if method == MINIBATCHES:
            names += ["steps_per_generation", "skip_zero_advantage"]
        return "".join(f"{name}={config[name]}, " for name in names)

    def draw(self, path: Path) -> None:
        """The rewards of all methods over training time as a PNG: every seed, and the mean."""
        with style():
            figure = Figure(figsize=(7.0, 4.0), layout="constrained")
            axes = figure.add_subplot()

            for method, look in looks(self.best).items():
                curves = [seed.curves[method] for seed in self.by_seed]
                for curve in curves:
                    axes.plot(curve.seconds_T, curve.rewards_T, color=look.color, alpha=0.3)
                # A step that was long can take a measurement from a run, so they are not paired.
                seconds_T = np.linspace(0.0, self.plan.seconds, EVALUATIONS + 1)
                at_these = [
                    np.interp(seconds_T, curve.seconds_T, curve.rewards_T) for curve in curves
                ]
                axes.plot(
                    seconds_T,
                    np.mean(at_these, axis=0),
                    color=look.color,
                    marker=look.marker,
                    label=method,
                )

            axes.set_xlabel("training time, s")
            axes.set_ylabel("mean reward of held-out questions")
            axes.legend()

        files.write_whole(path, render(figure, "png"))


def _over_seeds(rewards: Sequence[np.ndarray]) -> str:
    """The mean of each seed's rewards over seeds, with the least and the most."""
    values = [float(mean_of_scored(of_seed)) for of_seed in rewards]
    mean = f"{np.mean(values):.3f}"
    if len(values) == 1:
        return mean
    return f"{mean} ({min(values):.3f}-{max(values):.3f})"


def _share(phases: Sequence[Mapping[str, float]], phase: str) -> str:
    total = sum(sum(of_run.values()) for of_run in phases)
    share = sum(of_run[phase] for of_run in phases) / total if total else 0.0
    return f"{100 * share:.0f} %"
