"""Choosing the learning rate of each arm, for all arms alike."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from podslab.comparison.comparison import ComparisonSpec, RunKey
from podslab.engine.ledger import FAILED
from podslab.evaluation.records import evaluations
from podslab.statistics.run_curve import OVER_RUN, RunCurve
from podsrl.errors import InvalidInputError

#: How often a run is tried that fails with an error of its own.
MOST_FAILURES = 2


def best_rate(value_of_rate: Mapping[float, float]) -> float:
    """The rate with the highest value; of equal ones the lowest, which is the safer one.

    Args:
        value_of_rate: What each rate reached; NaN, where nothing could be scored, is never chosen.

    Raises:
        InvalidInputError: No rate has a value.

    >>> best_rate({1e-5: 0.5, 2e-5: 1.0, 4e-5: 1.0})
    2e-05
    """
    known = {rate: value for rate, value in value_of_rate.items() if np.isfinite(value)}
    if not known:
        raise InvalidInputError("no learning rate was measured")
    return min(known, key=lambda rate: (-known[rate], rate))


def chosen_rates(spec: ComparisonSpec) -> dict[str, float]:
    """The rate of each arm with the most right answers over the run, averaged over seeds.

    A rate with a run that failed `MOST_FAILURES` times is not chosen.

    Raises:
        InvalidInputError: Tuning runs are missing, or an arm has no rate at which all ended.
    """
    failures = Counter(
        attempt.run for attempt in spec.ledger().attempts() if attempt.state == FAILED
    )
    unfinished = [run for run in spec.tuning_runs() if spec.run_folder(run).finished() is None]
    missing = [run.name for run in unfinished if failures[run.name] < MOST_FAILURES]
    if missing:
        raise InvalidInputError(
            f"learning rates can't be chosen yet, as {len(missing)} tuning runs are not finished"
            f" ({missing[0]}, ...): the same command runs them, or that of another --shard, whose"
            " runs have to be in this folder, too"
        )

    failed = {(run.arm, run.rate) for run in unfinished}
    rates = {}
    for arm in spec.arms:
        runs = [run for run in spec.tuning_runs() if run.arm == arm]
        rates[arm] = best_rate(
            _values(spec, [run for run in runs if (arm, run.rate) not in failed])
        )
    return rates


def _values(spec: ComparisonSpec, runs: Sequence[RunKey]) -> dict[float, float]:
    """The mean reward over the run at each rate of an arm, averaged over seeds."""
    values: dict[float, list[float]] = {}
    for run in runs:
        curve = RunCurve.of(evaluations(spec.run_folder(run)))
        assert run.rate is not None  # it is a tuning run
        values.setdefault(run.rate, []).append(
            float(np.nanmean(curve.value_P(OVER_RUN, spec.unit, spec.prices)))
        )
    return {rate: float(np.mean(of_seeds)) for rate, of_seeds in values.items()}
