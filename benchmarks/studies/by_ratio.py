"""The worth of a step of PODS by n/m: the authors' runs and the studies, side by side."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.markdown import table
from benchmarks.studies import outcome
from benchmarks.worth import authors
from podslab.statistics.worth import StepValue

RATIOS = (2, 4, 8, 16)
_ROWS = 32  # of a step, in all of these studies


@dataclass(frozen=True)
class Series:
    """Steps of PODS that keep as many rows of as many prompts.

    Attributes:
        questions: What is asked.
        m: The rows that are kept of a prompt.
        prompts: The prompts in a step.
        values: What a step is worth and costs, by n/m, each beside the GRPO of its own study.
    """

    questions: str
    m: int
    prompts: int
    values: Mapping[int, StepValue]


def series() -> list[Series]:
    """The authors' runs, and those of the studies."""
    of_authors = {setting.n // setting.m: authors.value(setting) for setting in authors.SIZES}
    found = [Series("GSM8K, the authors'", 16, 1, of_authors)]
    for (questions, m), of_ratios in _STUDIES.items():
        values = {
            ratio: outcome.decision(study)[0].worths[arm]
            for ratio, (study, arm) in of_ratios.items()
        }
        found.append(Series(questions, m, _ROWS // m, values))
    return found


def _of_grid(m: int) -> dict[int, tuple[str, str]]:
    """By n/m, the study and the arm: n/m = 4 was measured first, in a study of its own."""
    of_grid = {ratio: ("grid-hard", f"pods-m{m}-{ratio}") for ratio in RATIOS}
    return {**of_grid, 4: ("prompts-hard", f"pods-m{m}")}


#: Of each set of questions and each m, by n/m, the study and the arm that have it.
_STUDIES: Mapping[tuple[str, int], Mapping[int, tuple[str, str]]] = {
    ("hard", 4): _of_grid(4),
    ("hard", 8): {ratio: ("ratio-hard", f"pods-{ratio}") for ratio in RATIOS},
    ("hard", 16): _of_grid(16),
    ("easy", 8): {ratio: ("ratio-easy", f"pods-{ratio}") for ratio in RATIOS},
}


def worths() -> list[str]:
    """A table of the worth of a step by n/m."""
    rows = [
        [
            one.questions,
            str(one.m),
            str(one.prompts),
            *(str(one.values[ratio].worth) for ratio in RATIOS),
        ]
        for one in series()
    ]
    heads = ["questions", "m", "prompts in a step", *(f"n/m = {ratio}" for ratio in RATIOS)]
    return table(heads, rows)
