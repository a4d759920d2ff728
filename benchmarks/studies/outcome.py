"""The outcome of a study, from its packed runs, beside what was foretold.

The runs of a study are packed in results/FOLDER/NAME.tar.xz, as `pods compare` left them.
`python -m benchmarks.pages` writes the tables.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.folders import RESULTS, unpack
from benchmarks.markdown import table
from podslab.comparison.comparison import ComparisonSpec, RunKey, read_comparison
from podslab.comparison.decision import Decision, decide
from podslab.evaluation.records import Evaluation, evaluations
from podslab.statistics.curves import ArmCurves, Floats
from podslab.statistics.differences import OPEN, Difference, difference
from podslab.statistics.run_curve import OVER_RUN, RunCurve, arm_curves
from podslab.statistics.worth import Ratio, StepValue, step_value
from podsrl.methods import complete_selection

#: The folder in results of each study.
FOLDERS = {
    "ratio-hard": "ratio",
    "ratio-easy": "ratio",
    "long-prompts": "long-prompts",
    "controls-hard": "controls",
    "sums-18": "shares",
    "sums-53": "shares",
    "sums-83": "shares",
    "prompts-hard": "prompts",
    "grid-hard": "prompts",
    "methods-easy": "methods-in-steps",
    "methods-hard": "methods-in-steps",
    "methods-53": "methods-by-share",
    "methods-83": "methods-by-share",
    "form-none": "form",
    "form-wrong": "form",
    "form-every": "form",
    "clock-easy": "clock-easy",
    "clock-hard": "long-answers",
    "parity-answer": "wrong-working",
    "parity-working": "wrong-working",
    "stories": "stories",
}
#: Pairs of arms that several studies have.
_LEAD = (("rejection-sampling", "pods"),)
_BY_THE_CLOCK = (("rejection-sampling", "max_contrast"), *_LEAD, ("pods", "grpo_ga"))
_METHODS = (
    ("rejection-sampling", "max_contrast"),
    ("max_contrast", "pods"),
    ("cppo", "pods"),
    ("reinforce-ada", "pods"),
    ("pods", "grpo_ga"),
    ("pods", "pods-unspared"),
)
_WRONG_WORKING = (
    ("contrast-right", "max_contrast"),
    *_LEAD,
    ("rejection-sampling", "max_contrast"),
)
#: The pairs of arms that a study's page compares, the first minus the second.
PAIRS: Mapping[str, Sequence[tuple[str, str]]] = {
    "controls-hard": (
        ("contrast-right", "max_contrast"),
        ("random-tenth", "grpo"),
        ("rejection-alike", "rejection-sampling"),
        ("contrast-right", "rejection-sampling"),
        ("rejection-sampling", "rejection-few"),
    ),
    "sums-18": _LEAD,
    "sums-53": _LEAD,
    "sums-83": _LEAD,
    "prompts-hard": (
        ("pods-m2", "pods-m4"),
        ("pods-m4", "pods"),
        ("pods", "pods-m16"),
        ("pods-m2", "pods"),
        ("pods-m2", "pods-m16"),
        ("pods-m2", "2-grpo"),
    ),
    "methods-easy": (
        ("rejection-sampling", "max_contrast"),
        ("rejection-sampling", "pods"),
        ("pods", "pods-unspared"),
        ("pods-form", "pods"),
        ("grpo-form", "grpo"),
        ("pods-form", "grpo-form"),
    ),
    "grid-hard": (
        ("pods-m4-2", "pods-m16-2"),
        ("pods-m4-8", "pods-m16-8"),
        ("pods-m4-16", "pods-m16-16"),
        ("pods-m4-16", "pods-m4-2"),
        ("pods-m16-16", "pods-m16-2"),
    ),
    "methods-hard": (
        ("rejection-sampling", "pods"),
        ("reinforce-ada", "pods"),
        ("cppo", "pods"),
        ("pods", "grpo_ga"),
    ),
    "methods-53": _METHODS,
    "methods-83": _METHODS,
    "form-none": _LEAD,
    "form-wrong": _LEAD,
    "form-every": _LEAD,
    "clock-easy": _BY_THE_CLOCK,
    "clock-hard": _BY_THE_CLOCK,
    "stories": _LEAD,
    "parity-working": _WRONG_WORKING,
    "parity-answer": _WRONG_WORKING,
}
#: The worths of the arms that each formula foretold, as they were committed before the runs.
FORETOLD: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "ratio-hard": {
        "A": {"pods-2": 1.41, "pods-4": 1.76, "pods-8": 1.96, "pods-16": 2.02, "random-4": 1.0},
        "B": {"pods-2": 1.24, "pods-4": 1.44, "pods-8": 1.56, "pods-16": 1.60, "random-4": 1.0},
    },
    "ratio-easy": {
        "A": {"pods-2": 1.21, "pods-4": 1.30, "pods-8": 1.33, "pods-16": 1.34, "random-4": 1.0},
        "B": {"pods-2": 1.15, "pods-4": 1.21, "pods-8": 1.24, "pods-16": 1.24, "random-4": 1.0},
    },
    "long-prompts": {
        "A": {"pods": 1.51, "pods-16": 1.69},
        "B": {"pods": 1.31, "pods-16": 1.42},
    },
    "sums-18": {"A": {"pods": 1.55}, "B": {"pods": 1.35}},
    "sums-53": {"A": {"pods": 1.15}, "B": {"pods": 1.13}},
    "sums-83": {"A": {"pods": 1.59}, "B": {"pods": 1.37}},
    "prompts-hard": {
        "B": {"2-grpo": 0.77, "pods-m2": 1.25, "pods-m4": 1.36, "pods": 1.40, "pods-m16": 1.43},
        "C": {"2-grpo": 1.53, "pods-m2": 2.50, "pods-m4": 1.92, "pods": 1.40, "pods-m16": 1.01},
    },
    "grid-hard": {
        "B": {
            **{"pods-m4-2": 1.17, "pods-m4-8": 1.50, "pods-m4-16": 1.57},
            **{"pods-m16-2": 1.24, "pods-m16-8": 1.56, "pods-m16-16": 1.58},
        },
        "C": {
            **{"pods-m4-2": 1.65, "pods-m4-8": 2.12, "pods-m4-16": 2.22},
            **{"pods-m16-2": 0.88, "pods-m16-8": 1.10, "pods-m16-16": 1.12},
        },
    },
    "methods-hard": {
        "A": {"pods": 1.80, "grpo-16": 1.17, "reinforce-ada": 1.60},
        "B": {"pods": 1.45, "grpo-16": 1.02, "reinforce-ada": 1.40},
        "C": {"pods": 1.45, "grpo-16": 0.72, "reinforce-ada": 1.98},
    },
    "methods-53": {
        "A": {"pods": 1.13, "grpo-16": 1.05, "2-grpo": 0.53, "reinforce-ada": 1.13},
        "B": {"pods": 1.12, "grpo-16": 1.04, "2-grpo": 0.76, "reinforce-ada": 1.11},
        "C": {"pods": 1.12, "grpo-16": 0.73, "2-grpo": 1.52, "reinforce-ada": 1.58},
    },
    "methods-83": {
        "A": {"pods": 1.61, "grpo-16": 1.13, "2-grpo": 0.47, "reinforce-ada": 1.48},
        "B": {"pods": 1.38, "grpo-16": 1.02, "2-grpo": 0.77, "reinforce-ada": 1.34},
        "C": {"pods": 1.38, "grpo-16": 0.72, "2-grpo": 1.53, "reinforce-ada": 1.89},
    },
    "form-none": {"A": {"pods": 1.55}, "B": {"pods": 1.36}},
    "form-wrong": {"A": {"pods": 1.58}, "B": {"pods": 1.58}},
    "form-every": {"A": {"pods": 1.58}, "B": {"pods": 1.57}},
    "stories": {"A": {"pods": 1.79}, "B": {"pods": 1.39}},
    "parity-answer": {"A": {"pods": 1.26}, "B": {"pods": 1.19}},
    "parity-working": {"A": {"pods": 1.42}, "B": {"pods": 1.27}},
    "methods-easy": {
        "A": {"pods": 1.28, "grpo-16": 1.08, "2-grpo": 0.51},
        "B": {"pods": 1.20, "grpo-16": 1.03, "2-grpo": 0.76},
    },
}
#: The arms of the table in short, of which a study has one or none.
PODS = ("pods", "pods-4")
REJECTION = ("rejection-sampling",)


def packed(study: str) -> Path:
    """The file with a study's runs."""
    return RESULTS / FOLDERS[study] / f"{study}.tar.xz"


@contextmanager
def _unpacked(study: str) -> Iterator[ComparisonSpec]:
    """A study's plan beside its runs, which lie unpacked for as long."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(packed(study), Path(folder))
        yield read_comparison(Path(folder) / study)


@cache
def decision(study: str) -> tuple[Decision, Mapping[str, float]]:
    """The verdicts on a study's runs, by the rule of its plan, and the rates of its arms.

    Args:
        study: A name in `FOLDERS`.

    Raises:
        ValueError: No whole seed of the study has ended.
    """
    with _unpacked(study) as spec:
        found = decide(spec)
        rates = spec.chosen_rates()
    if found is None:
        raise ValueError(f"no seed of {study} is whole")
    return found, rates


def runs_of_reference(study: str) -> list[RunCurve]:
    """The curves of the runs that the other arms of a study are compared with."""
    found, _ = decision(study)
    return _of_reference(found)


def learned(study: str) -> list[str]:
    """What each arm learned: right answers in %, the difference, and variety at the end."""
    found, rates = decision(study)
    says = {verdict.arm: verdict for verdict in found.verdicts}
    any_curve = _of_reference(found)[0]
    samples = any_curve.rewards_T_P_K.shape[-1]
    has_greedy = any_curve.greedy_T_P is not None

    heads = ["arm", "rate", "at first", "at the end", "over the run", "points beside"]
    heads += ["p", "verdict", f"pass@{samples} at the end"]
    if has_greedy:
        heads += ["greedy at first", "at the end"]

    rows = []
    for arm, runs in found.curves.items():
        curves = list(runs.values())
        row = [f"`{arm}`", f"{rates[arm]:g}"]
        row += [_percent([curve.rewards_T[place] for curve in curves]) for place in (0, -1)]
        row.append(_percent([_over_run(found, curve) for curve in curves]))
        if arm in says:
            verdict = says[arm]
            by_seeds = verdict.difference
            row += [
                f"{100 * by_seeds.mean:+.1f} ({100 * by_seeds.low:+.1f} to"
                f" {100 * by_seeds.high:+.1f})",
                f"{verdict.p:.3f}" if verdict.p >= 0.001 else "< 0.001",
                "" if verdict.says == OPEN else f"**{verdict.says}**",
            ]
        else:
            row += ["", "", ""]
        row.append(_percent([_any_right(curve) for curve in curves]))
        if has_greedy:
            row += [_percent([_greedy(curve, place) for curve in curves]) for place in (0, -1)]
        rows.append(row)
    return table(heads, rows)


def worths(study: str) -> list[str]:
    """The worth and the cost of a step of each arm, beside the forecasts of its worth, if any."""
    found, _ = decision(study)
    foretold = FORETOLD.get(study, {})
    heads = ["arm", "worth", *foretold, "cost", "worth / cost"]
    heads += ["rollouts in a step", "rows with a pass"]

    rows = []
    for arm, runs in found.curves.items():
        value = found.worths.get(arm)
        if value is None:
            row = ["1", *("" for _ in foretold), "1", "1"]
        else:
            row = [str(value.worth or value.undefined)]
            row += [beside(of_arm.get(arm), value.worth) for of_arm in foretold.values()]
            row += [str(value.cost), f"**{value.gain}**" if value.gain else ""]
        rows.append([f"`{arm}`", *row, *_of_a_step(list(runs.values()))])
    return table(heads, rows)


def greedy_worths(study: str) -> list[str]:
    """The worth of a step of each arm by the likeliest answers, and these at the end, in %."""
    found, _ = decision(study)
    reference = _reference(found)
    arms = {arm: arm_curves(arm, _by_likeliest(runs)) for arm, runs in found.curves.items()}

    rows = []
    for arm, runs in found.curves.items():
        worth = "1" if arm == reference else str(step_value(arms[reference], arms[arm]).worth)
        at_end = _percent([_greedy(curve, -1) for curve in runs.values()])
        rows.append([f"`{arm}`", worth, at_end])
    return table(["arm", "worth by greedy answers", "greedy at the end"], rows)


def _by_likeliest(runs: Mapping[int, RunCurve]) -> dict[int, RunCurve]:
    """The runs with their likeliest answers in place of the sampled ones."""
    by_seed = {}
    for seed, curve in runs.items():
        assert curve.greedy_T_P is not None
        by_seed[seed] = replace(curve, rewards_T_P_K=curve.greedy_T_P[:, :, None])
    return by_seed


def differences(study: str) -> list[str]:
    """The differences over the run, in points, of the pairs that a study's page compares.

    Paired by seeds and by questions, with intervals for each pair by itself.
    """
    rows = []
    for first, second in PAIRS[study]:
        by = paired(study, first, second)
        rows.append(
            [
                f"`{first}` - `{second}`",
                f"{100 * by.mean:+.1f}",
                f"{100 * by.low:+.1f} to {100 * by.high:+.1f}",
                f"{100 * by.wide_low:+.1f} to {100 * by.wide_high:+.1f}",
            ]
        )
    return table(["arms", "points over the run", "over seeds", "seeds and questions"], rows)


def paired(study: str, first: str, second: str) -> Difference:
    """The difference of two arms over the run, the first minus the second."""
    found, _ = decision(study)
    first_S_P, second_S_P = (
        np.array([_over_run_P(found, curve) for curve in found.curves[arm].values()])
        for arm in (first, second)
    )
    return difference(first_S_P - second_S_P)


def workings(study: str) -> list[str]:
    """The right answers of each arm in %, and how many of them have the right working, too."""
    heads = ["arm", "right at first", "with the right working", "of the right ones"]
    heads += ["right at the end", "with the right working", "of the right ones"]
    rows = []
    for arm, of_runs in _measured(study).items():
        row = [f"`{arm}`"]
        for place in (0, -1):
            points = [of_run[place] for of_run in of_runs.values()]
            right = [point.mean("answer_accuracy") for point in points]
            worked = [point.mean("both_accuracy") for point in points]
            row += [_percent(right), _percent(worked)]
            row.append(_percent([sum(worked) / sum(right)]))
        rows.append(row)
    return table(heads, rows)


def forms(study: str) -> list[str]:
    """The samples of each arm in the form that is asked for, in %, at every measurement.

    Behind them what a step is worth by the form alone, and by answers that are right and in it.
    """
    in_form = by_measure(study, "format_accuracy")
    in_both = by_measure(study, "both_accuracy")
    found, _ = decision(study)
    reference = _reference(found)

    rows = []
    for arm, curves in in_form.items():
        row = [f"`{arm}`"]
        row += [_percent([*shares_S]) for shares_S in curves.accuracy.T]
        for of_arms in (in_form, in_both):
            value = step_value(of_arms[reference], of_arms[arm])
            row.append("1" if arm == reference else str(value.worth or value.undefined))
        rows.append(row)

    steps = [int(step) for step in in_form[reference].steps[0]]
    heads = ["arm", *(f"in the form at step {step}" for step in steps)]
    return table([*heads, "worth by the form", "worth by right answers in the form"], rows)


def by_measure(study: str, name: str) -> Mapping[str, ArmCurves]:
    """The curves of a study's arms by another share of their samples than that of right ones.

    Args:
        study: A name in `FOLDERS`.
        name: "format_accuracy" or "both_accuracy", of those in the form, and of right ones in it.
    """
    found, _ = decision(study)
    of_arms = {}
    for arm, of_runs in _measured(study).items():
        by_seed = {}
        for seed, points in of_runs.items():
            shares_T_K = np.array([getattr(point, name) for point in points])
            curve = found.curves[arm][seed]
            by_seed[seed] = replace(curve, rewards_T_P_K=shares_T_K[:, None, :])
        of_arms[arm] = arm_curves(arm, by_seed)
    return of_arms


@cache
def _measured(study: str) -> Mapping[str, Mapping[int, Sequence[Evaluation]]]:
    """The measurements of each arm's runs, by their seeds."""
    found, _ = decision(study)
    with _unpacked(study) as spec:
        return {
            arm: {seed: evaluations(spec.run_folder(RunKey(arm, seed))) for seed in runs}
            for arm, runs in found.curves.items()
        }


def in_short() -> list[str]:
    """The step of PODS and that of rejection sampling beside GRPO's, in each study that has one."""
    heads = ["study", "right at first, %", "PODS", "worth", "worth / cost"]
    heads += ["rejection sampling", "worth", "worth / cost"]
    rows = []
    for study in FOLDERS:
        found, _ = decision(study)
        cells = [*_step_in_short(found, PODS), *_step_in_short(found, REJECTION)]
        if any(cells):
            rows.append([study, _percent([right_at_first(study)]), *cells])
    return table(heads, rows)


def of_studies(names: Sequence[str]) -> dict[str, StepValue]:
    """The step of the first of these arms that a study has, of each study that has one."""
    values = {}
    for study in FOLDERS:
        found, _ = decision(study)
        if (arm := _first_of(found, names)) is not None:
            values[study] = found.worths[arm]
    return values


def right_at_first(study: str) -> float:
    """The share of a study's samples that is right before training."""
    return float(np.mean([curve.rewards_T[0] for curve in runs_of_reference(study)]))


def _step_in_short(found: Decision, names: Sequence[str]) -> list[str]:
    """The sizes of the first of these arms that a study has, with its ratios; else nothing."""
    arm = _first_of(found, names)
    if arm is None:
        return ["", "", ""]
    n, m = _sizes(found, arm)
    prompts = found.spec.arms[arm]["per_device_train_batch_size"] // m
    value = found.worths[arm]
    return [f"{n} → {m}, {prompts} prompts", str(value.worth), f"**{value.gain}**"]


def _first_of(found: Decision, names: Sequence[str]) -> str | None:
    """The first of these arms that a study has."""
    return next((arm for arm in names if arm in found.worths), None)


def of_pods(n: int, m: int) -> dict[str, list[StepValue]]:
    """The worth and the cost of a step of PODS of these sizes, by the study that has it.

    A study may have it in several arms, such as with unspared passes.
    """
    by_study = {}
    for study in FOLDERS:
        found, _ = decision(study)
        values = [
            value
            for arm, value in found.worths.items()
            if arm.startswith("pods") and _sizes(found, arm) == (n, m)
        ]
        if values:
            by_study[study] = values
    return by_study


def _sizes(found: Decision, arm: str) -> tuple[int, int]:
    """The n and the m of an arm, which may be its method's own."""
    settings = found.spec.arms[arm]
    selection = complete_selection(
        settings.get("method"),
        num_rollouts=settings.get("num_rollouts"),
        num_kept=settings.get("num_generations"),
    )
    return selection.num_rollouts, selection.num_kept


def _reference(found: Decision) -> str:
    reference = found.spec.decision.reference
    assert reference is not None  # every study has one
    return reference


def _of_reference(found: Decision) -> list[RunCurve]:
    return list(found.curves[_reference(found)].values())


def _over_run(found: Decision, curve: RunCurve) -> float:
    return float(np.nanmean(_over_run_P(found, curve)))


def _over_run_P(found: Decision, curve: RunCurve) -> Floats:
    """The mean over the run of each question."""
    return curve.value_P(OVER_RUN, found.spec.unit, found.spec.prices)


def _any_right(curve: RunCurve) -> float:
    """The share of questions of which any of the samples at the end is right."""
    any_P = np.nanmax(curve.rewards_T_P_K[-1], axis=1) > 0
    return float(any_P.mean())


def _greedy(curve: RunCurve, place: int) -> float:
    """The share of questions whose likeliest answer is right."""
    assert curve.greedy_T_P is not None
    return float(np.nanmean(curve.greedy_T_P[place]))


def _of_a_step(curves: list[RunCurve]) -> list[str]:
    """The rollouts and the rows with a pass of a step, over all runs."""
    steps = sum(curve.steps_T[-1] for curve in curves)
    of_runs = ("rollouts_T", "passed_T")
    return [f"{sum(getattr(one, name)[-1] for one in curves) / steps:.0f}" for name in of_runs]


def _percent(shares: Sequence[float]) -> str:
    """The mean of the runs' shares, in percent."""
    return f"{100 * float(np.mean(shares)):.1f}"


def beside(foretold: float | None, measured: Ratio | None) -> str:
    """A forecast, if there is one, and whether the measured interval holds it."""
    if foretold is None:
        return ""
    if measured is None or measured.low is None or measured.high is None:
        return f"{foretold:.2f}"
    if foretold < measured.low:
        return f"{foretold:.2f}, too low"
    if foretold > measured.high:
        return f"{foretold:.2f}, too high"
    return f"{foretold:.2f}, inside"
