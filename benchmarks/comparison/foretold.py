"""What `pods recommend` says before the reported runs of a set, and how well it did."""

from dataclasses import dataclass

import numpy as np

from benchmarks.comparison.advice import advice, results_of
from benchmarks.comparison.outcomes import median_ratio
from benchmarks.comparison.records import Reported
from podslab.recommend.what_to_try import line_for_ratio


@dataclass(frozen=True)
class Foretold:
    """What was foretold of a set.

    Args:
        ratio: g/u in the reference's tuning runs, at its chosen rate.
        arm: The arm that `pods recommend` names for that.
        place: Its place by the mean over the reported runs, 1 for the best; None while a run is
            missing.
        is_as_good: Whether it is the advised arm, or not told apart from it.
    """

    ratio: float
    arm: str
    place: int | None = None
    is_as_good: bool = False


def foretold(reported: Reported, set_name: str) -> Foretold | None:
    """What follows from the tuning runs of a set, beside what the reported runs show of it.

    None until tuning has chosen the rate of the reference, and where it updated on no row.
    """
    protocol = reported.protocol
    ratio = median_ratio(reported.tuned(set_name, protocol.reference))
    if ratio is None:
        return None

    arm = line_for_ratio(ratio).method or protocol.reference

    means = {}
    for other in protocol.arms_of("reported"):
        results = results_of(reported, "reported", set_name, other)
        if results is None:
            return Foretold(ratio, arm)
        means[other] = np.mean([result["mean_over_run"] for result in results])

    in_order = sorted(means, key=lambda other: means[other], reverse=True)
    found = advice(reported, set_name)
    is_as_good = arm == found.arm or arm in found.as_good
    return Foretold(ratio, arm, in_order.index(arm) + 1, is_as_good)
