"""The outcome of a study, from its packed runs, beside what was foretold.

The runs of a study are packed in results/FOLDER/NAME.tar.xz, as `pods compare` left them.
`python -m benchmarks.pages` writes the tables.
"""

import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.folders import RESULTS
from benchmarks.markdown import table
from podslab.comparison.comparison import read_comparison
from podslab.comparison.decision import Decision, decide
from podslab.statistics.differences import OPEN
from podslab.statistics.run_curve import OVER_RUN, RunCurve
from podslab.statistics.worth import Ratio

#: The folder in results of each study.
FOLDERS = {
    "ratio-hard": "ratio",
    "long-prompts": "long-prompts",
}
#: The worths A and B that were foretold for each arm, as they were committed before the runs.
FORETOLD: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "ratio-hard": {
        "pods-2": (1.41, 1.24),
        "pods-4": (1.76, 1.44),
        "pods-8": (1.96, 1.56),
        "pods-16": (2.02, 1.60),
        "random-4": (1.0, 1.0),
    },
    "long-prompts": {"pods": (1.51, 1.31), "pods-16": (1.69, 1.42)},
}


def packed(study: str) -> Path:
    """The file with a study's runs."""
    return RESULTS / FOLDERS[study] / f"{study}.tar.xz"


@cache
def decision(study: str) -> tuple[Decision, Mapping[str, float]]:
    """The verdicts on a study's runs, by the rule of its plan, and the rates of its arms.

    Args:
        study: A name in `FOLDERS`.

    Raises:
        ValueError: No whole seed of the study has ended.
    """
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(packed(study)) as runs:
            runs.extractall(folder, filter="data")
        spec = read_comparison(Path(folder) / study)
        found = decide(spec)
        rates = spec.chosen_rates()
    if found is None:
        raise ValueError(f"no seed of {study} is whole")
    return found, rates


def learned(study: str) -> list[str]:
    """What each arm learned: right answers in %, the difference, and variety at the end."""
    found, rates = decision(study)
    says = {verdict.arm: verdict for verdict in found.verdicts}
    heads = ["arm", "rate", "at first", "at the end", "over the run", "points beside"]
    heads += ["p", "verdict", "pass@4 at the end"]

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
        rows.append([*row, _percent([_any_right(curve) for curve in curves])])
    return table(heads, rows)


def worths(study: str) -> list[str]:
    """The worth and the cost of a step of each arm, beside the forecasts of its worth."""
    found, _ = decision(study)
    heads = ["arm", "worth", "A", "B", "cost", "worth / cost"]
    heads += ["rollouts in a step", "rows with a pass"]

    rows = []
    for arm, runs in found.curves.items():
        value = found.worths.get(arm)
        if value is None:
            row = ["1", "", "", "1", "1"]
        else:
            numbers = FORETOLD[study].get(arm)
            row = [str(value.worth or value.undefined)]
            row += [beside(one, value.worth) for one in numbers] if numbers else ["", ""]
            row += [str(value.cost), f"**{value.gain}**" if value.gain else ""]
        rows.append([f"`{arm}`", *row, *_of_a_step(list(runs.values()))])
    return table(heads, rows)


def of_pods_in_short() -> list[str]:
    """The worth and the cost of a step of PODS in all studies, by its sizes."""
    rows = []
    for study in FOLDERS:
        found, _ = decision(study)
        for arm, value in found.worths.items():
            if arm.startswith("pods"):
                settings = found.spec.arms[arm]
                sizes = f"{settings['num_rollouts']} → {settings['num_generations']}"
                ratios = [str(value.worth), str(value.cost), f"**{value.gain}**"]
                rows.append([study, sizes, *ratios])
    return table(["study", "n → m", "worth", "cost", "worth / cost"], rows)


def _over_run(found: Decision, curve: RunCurve) -> float:
    spec = found.spec
    return float(np.nanmean(curve.value_P(OVER_RUN, spec.unit, spec.prices)))


def _any_right(curve: RunCurve) -> float:
    """The share of questions of which any of the samples at the end is right."""
    any_P = np.nanmax(curve.rewards_T_P_K[-1], axis=1) > 0
    return float(any_P.mean())


def _of_a_step(curves: list[RunCurve]) -> list[str]:
    """The rollouts and the rows with a pass of a step, over all runs."""
    steps = sum(curve.steps_T[-1] for curve in curves)
    of_runs = ("rollouts_T", "passed_T")
    return [f"{sum(getattr(one, name)[-1] for one in curves) / steps:.0f}" for name in of_runs]


def _percent(shares: Sequence[float]) -> str:
    """The mean of the runs' shares, in percent."""
    return f"{100 * float(np.mean(shares)):.1f}"


def beside(foretold: float, measured: Ratio | None) -> str:
    """A forecast, and whether the measured interval holds it."""
    if measured is None or measured.low is None or measured.high is None:
        return f"{foretold:.2f}"
    if foretold < measured.low:
        return f"{foretold:.2f}, too low"
    if foretold > measured.high:
        return f"{foretold:.2f}, too high"
    return f"{foretold:.2f}, inside"
