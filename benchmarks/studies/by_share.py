"""The worth of a step of each method by the share of right answers, in steps alike."""

from collections.abc import Callable, Mapping

from benchmarks.markdown import table
from benchmarks.studies import outcome
from podslab.statistics.worth import Ratio, StepValue

#: The study of each share that has all methods.
_STUDIES = ("methods-hard", "methods-easy", "methods-53", "methods-83")
#: The arms of methods-hard that another study had measured on these questions before.
_ELSEWHERE: Mapping[str, tuple[str, str]] = {
    "2-grpo": ("prompts-hard", "2-grpo"),
    "max_contrast": ("controls-hard", "max_contrast"),
}
_ARMS = (
    *("pods", "cppo", "reinforce-ada", "max_contrast", "rejection-sampling"),
    *("grpo_ga", "grpo-16", "2-grpo", "grpo-reuse"),
)


def worths() -> list[str]:
    """A table of what a step of each method is worth, beside the GRPO of the same study."""
    return _of_steps(lambda step: step.worth)


def gains() -> list[str]:
    """A table of worth / cost of each method."""
    return _of_steps(lambda step: step.gain)


def _of_steps(ratio: Callable[[StepValue], Ratio | None]) -> list[str]:
    rows = []
    for arm in _ARMS:
        values = [_value(study, arm) for study in _STUDIES]
        rows.append([f"`{arm}`", *(str(ratio(one)) for one in values)])
    shares = [f"{100 * outcome.right_at_first(study):.0f} %" for study in _STUDIES]
    return table(["method", *shares], rows)


def _value(study: str, arm: str) -> StepValue:
    """A step of an arm in one of `_STUDIES`, or where another study had it on these questions."""
    found, _ = outcome.decision(study)
    if arm not in found.worths:
        study, arm = _ELSEWHERE[arm]
        found, _ = outcome.decision(study)
    return found.worths[arm]
