"""results/ratio: what a step is worth by n/m, beside what was foretold.

The runs of a set of questions are packed in results/ratio/ratio-SET.tar.xz, as `pods compare` left
them. `python -m benchmarks.pages` writes the tables.
"""

import tarfile
import tempfile
from functools import cache
from pathlib import Path

from benchmarks.folders import RESULTS
from benchmarks.markdown import table
from podslab.comparison.comparison import read_comparison
from podslab.comparison.decision import Decision, decide
from podslab.statistics.worth import Ratio

FOLDER = RESULTS / "ratio"
#: The forecasts A and B of each set, as they were committed before the runs.
FORETOLD = {
    "hard": {
        "pods-2": (1.41, 1.24),
        "pods-4": (1.76, 1.44),
        "pods-8": (1.96, 1.56),
        "pods-16": (2.02, 1.60),
        "random-4": (1.0, 1.0),
    },
    "easy": {
        "pods-2": (1.21, 1.15),
        "pods-4": (1.30, 1.21),
        "pods-8": (1.33, 1.24),
        "pods-16": (1.34, 1.24),
        "random-4": (1.0, 1.0),
    },
}


@cache
def decision(name: str) -> Decision:
    """The verdicts on a set's runs, by the rule of its plan.

    Args:
        name: The set, "hard" or "easy".

    Raises:
        ValueError: No whole seed of the set has ended.
    """
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(FOLDER / f"ratio-{name}.tar.xz") as packed:
            packed.extractall(folder, filter="data")
        found = decide(read_comparison(Path(folder) / f"ratio-{name}"))
    if found is None:
        raise ValueError(f"no seed of the set {name} is whole")
    return found


def worths(name: str) -> list[str]:
    """The table of a set: the worth of a step of each arm, measured and foretold."""
    found = decision(name)
    spec = found.spec
    rates = spec.chosen_rates()
    heads = ["arm", "rate", "right at first", "at the end", "over the run", "worth", "A", "B"]

    rows = []
    for arm in spec.arms:
        first, end, over_run = found.means(arm)
        rows.append([f"`{arm}`", f"{rates[arm]:g}", first, end, over_run])
        if arm in found.worths:
            value = found.worths[arm]
            worth = str(value.worth) if value.worth is not None else value.undefined
            foretold = [_foretold(number, value.worth) for number in FORETOLD[name][arm]]
            rows[-1] += [worth, *foretold]
        else:
            rows[-1] += ["1", "", ""]
    return table(heads, rows)


def _foretold(number: float, measured: Ratio | None) -> str:
    """A forecast, and whether the measured interval holds it."""
    if measured is None or measured.low is None or measured.high is None:
        return f"{number:.2f}"
    if number < measured.low:
        return f"{number:.2f}, too low"
    if number > measured.high:
        return f"{number:.2f}, too high"
    return f"{number:.2f}, inside"
