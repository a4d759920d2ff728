"""A comparison as a table and sentences for people who see one for the first time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from podslab.columns import aligned
from podslab.evaluation.records import Evaluation
from podslab.report.load_runs import Comparison, Run
from podslab.statistics.worth import StepValue

#: What the usual arms are called.
LABELS = {"grpo": "GRPO", "grpo_ga": "GRPO-GA", "pods": "PODS"}
_SURE = 2.0  # standard errors; a smaller difference of two shares is called level


@dataclass(frozen=True)
class ArmRow:
    """The numbers of one arm that the table shows; one entry per seed, in the order of the seeds.

    generated, trained: rollouts and rows of one batch.
    steps: optimiser steps done.
    start, early, end: the share of right answers before training, after a quarter of the training
        time, and after all of it.
    generating, updating: the seconds of these two phases.
    answers: how many answers each share was counted on.
    """

    label: str
    generated: int
    trained: int
    steps: Sequence[int]
    start: Sequence[float]
    early: Sequence[float]
    end: Sequence[float]
    generating: Sequence[float]
    updating: Sequence[float]
    answers: int


def arm_rows(comparison: Comparison, labels: Mapping[str, str] = LABELS) -> list[ArmRow]:
    """The numbers of each arm, read from its runs."""
    of_arm: dict[str, list[Run]] = {}
    for run in comparison.runs:
        of_arm.setdefault(run.arm, []).append(run)
    return [_arm(labels.get(name, name), runs, comparison.measure) for name, runs in of_arm.items()]


def _arm(label: str, runs: Sequence[Run], measure: str) -> ArmRow:
    first = runs[0]
    last = [run.evaluations[-1] for run in runs]
    # a batch is passed num_iterations times, with as many optimiser steps
    passes = int(first.config.get("num_iterations") or 1)
    batches = max(1, math.ceil(last[0].step / passes))
    return ArmRow(
        label=label,
        generated=round(last[0].rollouts_generated / batches),
        trained=round(last[0].rollouts_trained / batches),
        steps=[point.step for point in last],
        start=[run.evaluations[0].mean(measure) for run in runs],
        early=[_after_a_quarter(run.evaluations).mean(measure) for run in runs],
        end=[point.mean(measure) for point in last],
        generating=[_seconds(run, "generate") for run in runs],
        updating=[_seconds(run, "update") for run in runs],
        answers=last[0].problems * last[0].repeats,
    )


def _after_a_quarter(points: Sequence[Evaluation]) -> Evaluation:
    """The evaluation that lies nearest to a quarter of the training time."""
    quarter = points[-1].training_seconds / 4
    return min(points[1:], key=lambda point: abs(point.training_seconds - quarter))


def _seconds(run: Run, phase: str) -> float:
    return sum(row.get(f"pods/seconds_{phase}") or 0.0 for row in run.metrics)


def table(arms: Sequence[ArmRow], seconds: float) -> str:
    """One line for each arm; of several seeds the mean, with the least and the most."""
    heads = ["", "rollouts → rows", "steps", "at first", f"after {seconds / 4:g} s"]
    heads += [f"after {seconds:g} s", "generating", "updating"]
    lines = [heads]
    for arm in arms:
        shares = [_share(values) for values in (arm.start, arm.early, arm.end)]
        phases = [f"{fmean(values):.0f} s" for values in (arm.generating, arm.updating)]
        sizes = f"{arm.generated} → {arm.trained}"
        lines.append([arm.label, sizes, f"{fmean(arm.steps):.0f}", *shares, *phases])
    return aligned(lines, numbers=True)


def _share(values: Sequence[float]) -> str:
    mean = f"{100 * fmean(values):.0f} %"
    if len(values) == 1:
        return mean
    return f"{mean} ({100 * min(values):.0f}-{100 * max(values):.0f})"


def verdict(arms: Sequence[ArmRow], when: str, shares: Mapping[str, Sequence[float]]) -> str:
    """Who leads at one moment, and where PODS stands, computed from the numbers.

    Two arms are level if they differ by less than two standard errors of what was counted, or if
    not all seeds have them in the same order.

    Args:
        arms: all arms, among them one that is labelled PODS.
        when: the moment in words, such as "After 10 s".
        shares: the share of right answers of each arm at that moment, one per seed, by label.

    Returns:
        One or two sentences, such as "After 10 s max_contrast has the most right answers, 41 %.
        PODS does not lead: it has 29 %, level with GRPO (22 %), behind max_contrast (41 %)."
    """
    answers = next(arm.answers for arm in arms if arm.label == "PODS")
    mean = {label: fmean(values) for label, values in shares.items()}
    stands: dict[str, list[str]] = {"ahead of": [], "level with": [], "behind": []}
    for label, values in shares.items():
        if label != "PODS":
            how = _stands(shares["PODS"], values, answers)
            stands[how].append(f"{label} ({100 * mean[label]:.0f} %)")
    others = ", ".join(f"{how} {_listed(names)}" for how, names in stands.items() if names)

    best = max(mean, key=lambda label: mean[label])
    leads = f"{when} {best} has the most right answers, {100 * mean[best]:.0f} %"
    if best == "PODS":
        return f"{leads}: {others}."
    return f"{leads}. PODS does not lead: it has {100 * mean['PODS']:.0f} %, {others}."


def meaning_of_level(arms: Sequence[ArmRow]) -> str:
    """The sentence that says when `verdict` calls two arms level."""
    seeds = len(arms[0].end)
    said = f"Level: closer than {arms[0].answers * seeds} answers can tell (two standard errors)"
    return f"{said}, or not in the same order in all seeds." if seeds > 1 else f"{said}."


def worth_sentence(value: StepValue) -> str:
    """The sentence on the worth of a step of PODS, and on how much longer it took."""
    if value.worth is None or value.cost is None:
        return f"What a step of PODS was worth can't be told from these runs: {value.undefined}."
    worth, cost = value.worth.value, value.cost.value
    return f"A step of PODS was worth {worth:.1f} of GRPO's, and took {cost:.1f} times as long."


def _stands(pods: Sequence[float], others: Sequence[float], answers: int) -> str:
    """Where PODS stands to another arm: ahead of it, level with it, or behind it."""
    differences = [mine - theirs for mine, theirs in zip(pods, others, strict=True)]
    counted = answers * len(differences)
    variance = sum(share * (1.0 - share) / counted for share in (fmean(pods), fmean(others)))
    if abs(fmean(differences)) <= _SURE * math.sqrt(variance):
        return "level with"
    if all(difference > 0.0 for difference in differences):
        return "ahead of"
    return "behind" if all(difference < 0.0 for difference in differences) else "level with"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if names[1:] else names[0]
