"""The answer of the runs: the reward of each method at its rate, and how sure that is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from podslab.columns import aligned
from podslab.durations import duration
from podslab.evaluation.records import are_right_or_wrong, evaluations
from podslab.own_script.job import MINIBATCHES, YOURS, Arm
from podslab.own_script.plan import EVALUATIONS, LOOKS, Plan
from podslab.recommend.answer import over_cost
from podslab.recommend.known_worth import MeasuredWorth
from podslab.recommend.measured_steps import MeasuredSteps
from podslab.report.drawing import looks, render, style
from podslab.report.summary import UNKNOWN
from podslab.statistics.curves import ArmCurves
from podslab.statistics.differences import BETTER, OPEN, WORSE, Verdict, verdicts
from podslab.statistics.run_curve import OVER_RUN, RunCurve, arm_curves, mean_of_scored
from podslab.statistics.worth import step_value
from podsrl.errors import listed
from podsrl.rollout_log import files
from podsrl.rollout_log.run_folder import PHASES, RunFolder

#: What methods are compared with, where it is one of them; else the first one.
_REFERENCE = "grpo"
#: What methods are judged by: a mean over the run tells which one learns faster, too, where all
#: come to the best reward in the end.
_BY = OVER_RUN
#: An interval that is as wide as this share of all rewards that were seen tells nothing.
_TELLS_NOTHING = 1.0


@dataclass(frozen=True)
class ReportedRun:
    """A run of one method and seed.

    Args:
        curve: Its measurements.
        phases: Seconds of training by phase.
        config: The run's settings.
    """

    curve: RunCurve
    phases: Mapping[str, float]
    config: Mapping[str, Any]

    @property
    def steps(self) -> int:
        """Optimiser steps in all."""
        return int(self.curve.steps_T[-1])

    @classmethod
    def of(cls, folder: RunFolder) -> "ReportedRun":
        """Read a finished run."""
        rows = folder.metrics()
        phases = {}
        for phase in PHASES:
            phases[phase] = sum(row.get(f"pods/seconds_{phase}") or 0.0 for row in rows)
        return cls(RunCurve.of(evaluations(folder)), phases, folder.config())


@dataclass(frozen=True)
class Measured:
    """All methods at one seed."""

    seed: int
    runs: Mapping[str, ReportedRun]

    @classmethod
    def of(cls, seed: int, folders: Mapping[str, RunFolder]) -> "Measured":
        """Read the runs of a seed, which are finished."""
        return cls(seed, {method: ReportedRun.of(folder) for method, folder in folders.items()})


def noise_of(rewards_P_K: np.ndarray, questions: int | None = None) -> float:
    """The difference in reward that two equally good methods may show over so many questions.

    Twice the standard error of the difference of two means, by the spread over P questions; P of
    them, unless a number is given.
    """
    per_question_P = mean_of_scored(rewards_P_K, axis=1)
    per_question_P = per_question_P[np.isfinite(per_question_P)]
    if len(per_question_P) < 2:
        return math.inf
    questions = questions or len(per_question_P)
    return float(2 * math.sqrt(2) * per_question_P.std(ddof=1) / math.sqrt(questions))


@dataclass(frozen=True)
class Answer:
    """The answer that the runs of a plan give.

    Args:
        plan: What was run.
        seconds: The training time of each run.
        best: The arm of each method, with the rate that was chosen.
        by_seed: The reported runs.
        level: The level of the look that they are judged at, over all methods.
        failed: Why runs failed, by their names.
        earlier: The numbers of seeds after which fewer hours gave an answer before.
        elsewhere: The costs of steps that `pods recommend` measured into the same folder, such as
            on a larger machine.
    """

    plan: Plan
    seconds: float
    best: Mapping[str, Arm]
    by_seed: Sequence[Measured]
    level: float
    failed: Mapping[str, str]
    earlier: Sequence[int] = ()
    elsewhere: MeasuredSteps | None = None

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def reference(self) -> str:
        """The method that the others are compared with."""
        return _REFERENCE if _REFERENCE in self.best else next(iter(self.best))

    @property
    def is_decided(self) -> bool:
        """Whether every method is better or worse than the reference."""
        if not self.by_seed:
            return False
        return all(verdict.says != OPEN for verdict in self._verdicts(self.reference).values())

    def _verdicts(self, reference: str) -> dict[str, Verdict]:
        """The verdict on each method beside another one."""
        values = {
            method: np.array([seed.runs[method].curve.value_P(_BY) for seed in self.by_seed])
            for method in self.best
        }
        return {found.arm: found for found in verdicts(values, reference, self.level)}

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
            runs = [seed.runs[method] for seed in self.by_seed]
            curves = [run.curve for run in runs]
            phases = [run.phases for run in runs]
            rewards = [curve.rewards_T_P_K for curve in curves]
            greedy = [curve.greedy_T_P[-1] for curve in curves if curve.greedy_T_P is not None]
            rows.append(
                [
                    method,
                    f"{arm.learning_rate:.3g}",
                    f"{np.mean([run.steps for run in runs]):.0f}",
                    _over_seeds([of_seed[0] for of_seed in rewards]),
                    _over_seeds([of_seed[-1] for of_seed in rewards]),
                    _over_seeds([curve.value_P(_BY) for curve in curves]),
                    _over_seeds([np.fmax.reduce(of_seed[-1], axis=-1) for of_seed in rewards]),
                    _over_seeds(greedy),
                    _share(phases, "generate"),
                    _share(phases, "update"),
                ]
            )

        return aligned(rows, numbers=True)

    def worths(self) -> list[MeasuredWorth]:
        """The worth of each method's step, beside one of the reference; () without runs."""
        if len(self.best) < 2 or not self.by_seed or self._nothing_varies():
            return []

        reference = self._arm_curves(self.reference)
        found = []
        for method in self.best:
            if method == self.reference:
                continue
            config = self.by_seed[0].runs[method].config
            found.append(
                MeasuredWorth(
                    method=method,
                    reference=self.reference,
                    rollouts_per_row=config["num_rollouts"] / config["num_generations"],
                    value=step_value(reference, self._arm_curves(method)),
                )
            )
        return found

    def _arm_curves(self, method: str) -> ArmCurves:
        return arm_curves(method, {seed.seed: seed.runs[method].curve for seed in self.by_seed})

    def what_steps_are_worth(self) -> list[str]:
        """A line for each method: worth, cost, quotient, and where it would break even."""
        runs = [seed.runs[self.reference] for seed in self.by_seed]
        all_seconds = sum(run.curve.seconds_T[-1] for run in runs)
        seconds = all_seconds / sum(run.steps for run in runs)

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
        is_share = are_right_or_wrong(self._scored())
        return f"pass@{answers}" if is_share else f"best of {answers}"

    def conclusions(self) -> list[str]:
        """The conclusions that are certain, and those that these runs can't give."""
        questions = self._curves()[0].rewards_T_P_K.shape[1]
        seeds = len(self.by_seed)
        many = "one seed" if seeds == 1 else f"{seeds} seeds"
        lines = [
            f"Over {duration(self.seconds)} of training, {many}, {questions} questions,"
            f" {self.plan.answers} answers to each; judged by the mean reward over the run:"
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

        lines += [self._conclusion(found) for found in self._verdicts(self.reference).values()]
        lines.append(
            f"A false difference in any of these is at most as likely as {self.level:.2g}."
            " Intervals are of 95 %, by seeds and by questions, and the wider one is shown."
        )
        if self.earlier:
            lines.append(
                "That holds for this answer alone. With fewer hours there was one after"
                f" {', '.join(map(str, self.earlier))} seeds; whoever stops at the answer that"
                " pleases is wrong more often."
            )
        lines += [*self._collapsed(), *self._rates_at_the_edge()]
        answers = sum(curve.rewards_T_P_K.size for curve in self._curves())
        if len(scored) < answers:
            lines.append(
                f"{1 - len(scored) / answers:.1%} of the answers could not be scored, and are left"
                " out"
            )
        if seeds < LOOKS.seeds[1]:
            lines.append("few seeds: more --hours train more of them")
        return lines

    def _conclusion(self, found: Verdict) -> str:
        """One line: how a method stands to the reference, and how sure that is."""
        low = min(found.difference.low, found.difference.wide_low)
        high = max(found.difference.high, found.difference.wide_high)
        interval = f"(95 % interval {low:+.3f} to {high:+.3f})"
        if high - low > _TELLS_NOTHING * np.ptp(self._scored()):
            interval = "(their seeds lie so far apart that these runs tell nothing)"

        beside = f"{found.arm} and {self.reference}"
        if found.says == OPEN:
            return f"{beside}: no difference that these runs can show {interval}"
        how = "more" if found.says == BETTER else "less"
        return (
            f"{found.arm} has {abs(found.difference.mean):.3f} {how} reward than {self.reference}"
            f" {interval}"
        )

    def _collapsed(self) -> list[str]:
        """Runs that end below where they began, by their names."""
        lines = []
        for seed in self.by_seed:
            for method, run in seed.runs.items():
                first, last = run.curve.rewards_T[0], run.curve.rewards_T[-1]
                if last < first - noise_of(run.curve.rewards_T_P_K[0]):
                    lines.append(
                        f"{method} collapsed with seed {seed.seed}: {first:.3f} at first,"
                        f" {last:.3f} at the end, at {self.best[method].learning_rate:.3g}; a lower"
                        " rate is safer"
                    )
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

    def _curves(self) -> list[RunCurve]:
        """The curves of all methods and seeds."""
        return [seed.runs[method].curve for seed in self.by_seed for method in self.best]

    def to_paste(self) -> list[str]:
        """The fields of the best method that is certainly better, or advice to stay as it is."""
        beside_reference = self._verdicts(self.reference).values()
        better = [found for found in beside_reference if found.says == BETTER]
        if not better:
            rate = self.best[self.reference].learning_rate
            return [
                f"Nothing is certainly better than {self.reference}: stay with it, at"
                f" learning_rate={rate:.3g}",
                *self._how_grpo_is_spared(),
            ]

        best = max(better, key=lambda found: found.difference.mean).arm
        as_good = [
            method
            for method, found in self._verdicts(best).items()
            if method != self.reference and found.says != WORSE
        ]
        level = f" ({listed(as_good)} may be as good)" if as_good else ""
        rate = self.best[best].learning_rate
        if best == YOURS:
            return [f"Your own settings are the best{level}, at learning_rate={rate:.3g}"]
        name = "grpo" if best == MINIBATCHES else best
        return [
            f"To paste{level}:",
            f'    PODSConfig(..., method="{name}", {self._fields(best)}learning_rate={rate:.3g})',
        ]

    def _how_grpo_is_spared(self) -> list[str]:
        """TRL's own trainer has passes over rows that teach nothing, unlike GRPO as it ran here."""
        config = self.by_seed[0].runs[self.reference].config
        if self.reference != _REFERENCE or not config.get("skip_zero_advantage"):
            return []
        return [
            "GRPO ran here without passes over rows of advantage 0:"
            ' PODSConfig(..., method="grpo", skip_zero_advantage=True)'
        ]

    def _fields(self, method: str) -> str:
        """The fields that a method's name leaves open, as it ran."""
        config = self.by_seed[0].runs[method].config
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
                curves = [seed.runs[method].curve for seed in self.by_seed]
                for curve in curves:
                    axes.plot(curve.seconds_T, curve.rewards_T, color=look.color, alpha=0.3)
                # A step that was long can take a measurement from a run, so they are not paired.
                seconds_T = np.linspace(0.0, self.seconds, EVALUATIONS + 1)
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
