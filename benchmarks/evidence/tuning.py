"""Choosing learning rates: in one way for every arm, on seeds that nothing else uses."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.evidence.harness import RUNS, compare
from benchmarks.evidence.rows_settings import (
    ANSWERS,
    FIRST_TUNING_SEED,
    RATES,
    SETTINGS,
    settings_of,
)
from podslab.evaluation.records import evaluations
from podsrl.rollout_log.run_folder import find_runs

#: How many learning rates are tried at first: the setting's own one and its neighbours.
FIRST_RATES = 4
#: Of an arm, by learning rate: the mean accuracy over the time of each run.
Tried = Mapping[float, Sequence[float]]


def comparison(
    name: str, arms: Mapping[str, Any], seeds: Any, share: float = 1.0, **settings: Any
) -> dict[str, Any]:
    """The config of `pods compare` for these arms, in this share of a setting's time."""
    setting = SETTINGS[name]
    batch = {"per_device_train_batch_size": setting.rows}
    return {
        "config": setting.config,
        "settings": {"training_clock": "cpu", **settings_of(name), **batch, **settings},
        "budget": {"training_seconds": round(setting.seconds * share)},
        "evaluations": setting.evaluations,
        "seeds": seeds,
        "arms": dict(arms),
    }


def tune(
    kind: str,
    name: str,
    arms: Mapping[str, Mapping[str, Any]],
    tried: Callable[[], Mapping[str, Tried]],
    jobs: int,
    **settings: Any,
) -> None:
    """Try learning rates until no arm's best one is the lowest or the highest of its own.

    All are tried on one seed, the two best of each arm on another one, too.

    Args:
        kind: The first word of the names of the comparisons.
        name: The setting.
        arms: What each arm sets beside its learning rate.
        tried: Reads what was tried so far.
        jobs: The number of runs side by side.
        settings: What all arms set beside the setting's own.
    """
    rounds = (
        (FIRST_TUNING_SEED, lambda of: rates_to_try(SETTINGS[name].start, of)),
        (FIRST_TUNING_SEED + 1, _two_best),
    )
    for seed, choose in rounds:
        while True:
            found = tried()
            chosen = {
                f"{key}_at_{rate:.3g}": {**arm, "learning_rate": rate}
                for key, arm in arms.items()
                for rate in choose(found.get(key, {}))
            }
            if not chosen:
                break
            config = comparison(name, chosen, [seed], 0.75, **settings)
            compare(f"{kind}-{name}-rates-{seed}", config, jobs)


def read_tried(kind: str, name: str, measure: str = ANSWERS) -> dict[str, dict[float, list[float]]]:
    """What the runs of `tune` found, arm by arm."""
    begun = {path.parents[2] for path in RUNS.glob(f"{kind}-{name}-rates-*/*/*/config.yaml")}
    return tried_in(sorted(begun), measure)


def tried_in(
    comparisons: Iterable[Path], measure: str = ANSWERS
) -> dict[str, dict[float, list[float]]]:
    """What runs of arms "NAME_at_RATE" learned on average over their time, arm by arm."""
    scores: dict[str, dict[float, list[float]]] = {}
    for folder in comparisons:
        for run in find_runs(folder):
            key, rate = run.config()["arm"].rsplit("_at_", 1)
            if run.finished() is not None:
                learned = fmean(point.mean(measure) for point in evaluations(run)[1:])
                scores.setdefault(key, {}).setdefault(float(rate), []).append(learned)
    return scores


def best(tried: Tried) -> float:
    """The learning rate with the highest mean accuracy, of those that were tried on most seeds."""
    most = max(map(len, tried.values()))
    return next(rate for rate in _ranked(tried) if len(tried[rate]) == most)


def _ranked(tried: Tried) -> list[float]:
    return sorted(tried, key=lambda rate: -float(np.mean(tried[rate])))


def _two_best(found: Tried) -> list[float]:
    return [rate for rate in _ranked(found)[:2] if len(found[rate]) == 1]


def rates_to_try(start: float, found: Tried) -> list[float]:
    """Of an arm: at first four, then the one beyond its best where this is on the edge."""
    if not found:
        first = max(0, RATES.index(start) - FIRST_RATES // 2 + 1)
        return list(RATES[first : first + FIRST_RATES])
    if len(found) > FIRST_RATES + 2:
        return []
    at_best, low, high = _ranked(found)[0], min(found), max(found)
    below = [rate for rate in RATES if rate < low] if at_best == low else []
    above = [rate for rate in RATES if rate > high] if at_best == high else []
    return below[-1:] + above[:1]
