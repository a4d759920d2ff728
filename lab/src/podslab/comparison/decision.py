"""The verdicts of a comparison, by the rule of decision in its plan."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from podslab.columns import aligned
from podslab.comparison.comparison import ComparisonSpec, RunKey
from podslab.engine.folder import TUNING
from podslab.engine.ledger import ENDED, Attempt
from podslab.evaluation.records import evaluations
from podslab.statistics.curves import Floats
from podslab.statistics.differences import OPEN, Difference, Verdict, verdicts
from podslab.statistics.run_curve import AT_END, OVER_RUN, RunCurve, arm_curves, mean_of_scored
from podslab.statistics.worth import StepValue, step_value
from podsrl.rollout_log import files

#: The file with the verdicts as numbers.
DECISION = "decision.json"
_UNKNOWN = "-"

#: The runs of each arm, by their seeds.
Curves = Mapping[str, Mapping[int, RunCurve]]


@dataclass(frozen=True)
class Decision:
    """The verdicts of a comparison.

    Args:
        spec: The plan.
        curves: The runs that were judged.
        level: The level of the look that they were judged at.
        verdicts: What is said of each arm beside the reference.
        worths: What a step of each arm is worth and costs.
        notes: What does not follow from the plan, such as arms that were added later.
    """

    spec: ComparisonSpec
    curves: Curves
    level: float
    verdicts: Sequence[Verdict]
    worths: Mapping[str, StepValue]
    notes: Sequence[str] = ()

    @property
    def is_decided(self) -> bool:
        """Whether every arm is better or worse than the reference."""
        return all(verdict.says != OPEN for verdict in self.verdicts)

    def lines(self) -> list[str]:
        """The table, with what its numbers are."""
        rule = self.spec.decision
        seeds = len(next(iter(self.curves.values())))
        value = "at the end" if rule.by == AT_END else "mean over the run"
        return [
            f"Judged by the {value}, over {seeds} seeds, beside {rule.reference}; a false alarm in"
            f" any arm is at most as likely as {self.level:.3g}.",
            aligned(self._rows(), numbers=True),
            "Intervals of 95 %: over seeds; over seeds and questions. p is adjusted for the number"
            " of arms (Holm).",
            *self.notes,
        ]

    def _rows(self) -> list[list[str]]:
        """One row for each arm."""
        heads = ["", "at first", "at the end", "over the run", "difference", "over seeds"]
        heads += ["seeds and questions", "p", "", "worth", "cost", "worth / cost"]
        beside = {verdict.arm: self._beside_reference(verdict) for verdict in self.verdicts}
        of_reference = [""] * 8

        rows = [heads]
        for arm in self.curves:
            rows.append([arm, *self._means(arm), *beside.get(arm, of_reference)])
        return rows

    def _means(self, arm: str) -> list[str]:
        """The mean reward of an arm at first, at the end, and over the run, as text."""
        firsts = []
        ends = []
        over_run = []
        for curve in self.curves[arm].values():
            firsts.append(float(curve.rewards_T[0]))
            ends.append(float(curve.rewards_T[-1]))
            over_run.append(float(np.nanmean(self._over_run_P(curve))))
        return [_mean(firsts), _mean(ends), _mean(over_run)]

    def _beside_reference(self, verdict: Verdict) -> list[str]:
        """The cells of an arm's difference, its verdict, and its worth and cost."""
        value = self.worths[verdict.arm]
        ratios = [str(ratio or _UNKNOWN) for ratio in (value.worth, value.cost, value.gain)]
        return [
            f"{verdict.difference.mean:+.3f}",
            *_intervals(verdict.difference),
            f"{verdict.p:.3f}",
            verdict.says,
            *ratios,
        ]

    def _over_run_P(self, curve: RunCurve) -> Floats:
        return curve.value_P(OVER_RUN, self.spec.unit, self.spec.prices)

    def as_numbers(self) -> dict[str, Any]:
        """The verdicts, for a program."""
        return {
            "reference": self.spec.decision.reference,
            "by": self.spec.decision.by,
            "level": self.level,
            "seeds": list(next(iter(self.curves.values()))),
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            "worths": {arm: asdict(value) for arm, value in self.worths.items()},
            "notes": list(self.notes),
        }

    def write(self, folder: Path) -> None:
        """Write decision.json."""
        files.write_json(folder / DECISION, self.as_numbers())


def decide(
    spec: ComparisonSpec, seeds: int | None = None, level: float | None = None
) -> Decision | None:
    """Judge the arms by the plan's rule, over the seeds that all of them have.

    Args:
        spec: The plan.
        seeds: The number of seeds that are looked at; None looks at all that there are.
        level: The level of this look; by default that of the last one.

    Returns:
        The decision; None where the plan has no reference, or no whole seed has the answers of each
        question.
    """
    curves = _curves(spec, spec.seeds[:seeds])
    reference = spec.decision.reference
    if reference is None or len(spec.arms) < 2 or not curves[reference]:
        return None

    number = len(curves[reference])
    if level is None:
        level = spec.looks.level_at(number, is_last=True)
    values = {
        arm: np.array([_value_P(spec, curve) for curve in runs.values()])
        for arm, runs in curves.items()
    }
    arms = {arm: arm_curves(arm, runs, spec.prices) for arm, runs in curves.items()}
    return Decision(
        spec=spec,
        curves=curves,
        level=level,
        verdicts=verdicts(values, reference, level, spec.decision.margin),
        worths={
            arm: step_value(arms[reference], of_arm)
            for arm, of_arm in arms.items()
            if arm != reference
        },
        notes=_notes(spec),
    )


def _value_P(spec: ComparisonSpec, curve: RunCurve) -> Floats:
    """The value by which a run is compared, question by question."""
    return curve.value_P(spec.decision.by, spec.unit, spec.prices)


def _curves(spec: ComparisonSpec, seeds: Sequence[int]) -> Curves:
    """The finished runs of whole seeds, whose evaluations hold the answers of each question."""
    curves: dict[str, dict[int, RunCurve]] = {arm: {} for arm in spec.arms}
    for seed in seeds:
        of_seed = {arm: _curve(spec, RunKey(arm, seed)) for arm in spec.arms}
        for arm, curve in of_seed.items():
            if curve is not None and None not in of_seed.values():
                curves[arm][seed] = curve
    return curves


def _curve(spec: ComparisonSpec, run: RunKey) -> RunCurve | None:
    folder = spec.run_folder(run)
    if folder.finished() is None:
        return None
    points = evaluations(folder)
    return RunCurve.of(points) if points and all(point.rewards for point in points) else None


def _notes(spec: ComparisonSpec) -> list[str]:
    """The notes that follow from the ledger."""
    ledger = spec.ledger()
    attempts = [one for one in ledger.attempts() if not one.run.startswith(f"{TUNING} ")]
    notes = []
    earlier = [one for one in attempts if one.plan != ledger.plan and one.state == ENDED]
    if earlier:
        notes.append(
            f"The plan was changed after {len(earlier)} of these runs: the level holds for what"
            " was planned at first alone."
        )
    if len({one.code for one in attempts}) > 1:
        notes.append("The runs were made by several versions of the code (ledger.jsonl).")
    again = [one for one in attempts if one.state != ENDED]
    if again:
        notes.append(f"{len(again)} attempts did not end: {_listed(again)}.")
    return notes


def _listed(attempts: Sequence[Attempt]) -> str:
    return ", ".join(f"{one.run} ({one.state})" for one in attempts)


def _mean(values: Sequence[float]) -> str:
    return f"{float(mean_of_scored(np.array(values))):.3f}"


def _intervals(found: Difference) -> list[str]:
    return [
        f"{found.low:+.3f} to {found.high:+.3f}",
        f"{found.wide_low:+.3f} to {found.wide_high:+.3f}",
    ]
