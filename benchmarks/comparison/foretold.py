"""What `pods recommend` says before the reported runs of a set, and how well it did."""

from dataclasses import dataclass

import numpy as np

from benchmarks.comparison.advice import advice, results_of
from benchmarks.comparison.outcomes import median_ratio
from benchmarks.comparison.records import Reported

#: From here on generating a rollout takes as long as updating on a row.
_GENERATING_DOMINATES = 1.0


@dataclass(frozen=True)
class Foretold:
    """What was foretold of a set.

    Args:
        ratio: g/u in the reference's tuning runs, at its chosen rate.
        arm: The arm that `pods recommend` names for that.
        place: Its place by the mean over the reported runs, 1 for the best; None while a run is
            missing.
        is_as_good: Whether it is the advised arm, or not told apart from it; None while nothing is
            advised.
    """

    ratio: float
    arm: str
    place: int | None = None
    is_as_good: bool | None = None


def foretold(reported: Reported, set_name: str) -> Foretold | None:
    """What follows from the tuning runs of a set, beside what the reported runs show of it.

    None until tuning has chosen the rate of the reference, and where it updated on no row.
    """
    protocol = reported.protocol
    ratio = median_ratio(reported.tuned(set_name, protocol.reference))
    if ratio is None:
        return None

    arm = named_by(ratio, protocol.reference)
    means = {}
    for other in protocol.arms_of("reported"):
        results = results_of(reported, "reported", set_name, other)
        if results is None:
            return Foretold(ratio, arm)
        means[other] = np.mean([result["mean_over_run"] for result in results])

    in_order = sorted(means, key=lambda other: means[other], reverse=True)
    found = advice(reported, set_name)
    is_as_good = arm == found.arm or arm in found.as_good if found.is_complete else None
    return Foretold(ratio, arm, in_order.index(arm) + 1, is_as_good)


def named_by(ratio: float, reference: str) -> str:
    """What `pods recommend` named at a g/u when the protocol was written, with prompts enough.

    Kept here, as the command follows the comparison once that is complete.
    """
    return reference if ratio >= _GENERATING_DOMINATES else "max_contrast"
