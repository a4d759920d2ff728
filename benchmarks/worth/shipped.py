"""The worths of the authors' runs, which `pods recommend` takes where a task was not measured."""

from typing import Any

from benchmarks.published.kept_curves import SOURCE
from benchmarks.worth import authors


def shipped() -> dict[str, Any]:
    """The worth of a step by the rollouts generated for each row, with its interval."""
    worths = {}
    for setting in authors.SIZES:
        found = authors.value(setting).worth
        if found is not None:
            ends = (found.value, found.low, found.high)
            worths[str(setting.n // setting.m)] = [
                None if one is None else round(one, 3) for one in ends
            ]
    return {
        "source": SOURCE,
        "task": "GSM8K, Qwen2.5-3B-Instruct, 16 rows of a prompt, right answers, six hours",
        "worth": worths,
    }
