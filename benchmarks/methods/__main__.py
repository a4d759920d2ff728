"""Published ways of choosing rollouts, side by side at equal time: `python -m benchmarks.methods`.

A method is a file here: a name, its source and claim, and what it sets in `PODSConfig`. To add one
is to add a file (and a rule, which may be "file.py:function"); `--methods` also takes paths.

1. Each method's learning rate is chosen from at least four, on two seeds that nothing else uses.
2. Five other seeds are run, interleaved. Killed, it goes on where it was.
3. One JSON per run is written to docs/results/methods/SETTING/, and the page from these alone.

    python -m benchmarks.methods --setting mixed-16
    python -m benchmarks.methods --setting mixed-16 --methods grpo-8 max_contrast mine.yaml
    python -m benchmarks.methods --only page
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml

from benchmarks.evidence.harness import RESULTS, RUNS, best, compare
from benchmarks.evidence.rows import settings_of
from benchmarks.evidence.rows_settings import FIRST_TUNING_SEED, RATES, SEEDS, SETTINGS
from benchmarks.methods.page import write_page
from podslab.evaluation.records import evaluations
from podsrl.rollout_log.files import write_json
from podsrl.rollout_log.run_folder import PHASES, RunFolder, find_runs

HERE = Path(__file__).parent
PUBLISHED = RESULTS / "methods"
#: How many learning rates are tried at first: the setting's own one and its neighbours.
FIRST_RATES = 4


def main() -> None:
    """Tune, run, write one JSON per run and the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--setting", choices=SETTINGS, default="mixed-16")
    parser.add_argument("--methods", nargs="*", help="names, or paths of YAML files (all)")
    parser.add_argument("--only", choices=("tune", "run", "page"))
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (2)")
    args = parser.parse_args()
    files = [Path(name) for name in args.methods or sorted(HERE.glob("*.yaml"))]
    files = [file if file.suffix == ".yaml" else HERE / f"{file}.yaml" for file in files]
    methods = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in files}
    if args.only in (None, "tune"):
        tune(args.setting, methods, args.jobs)
    if args.only in (None, "run"):
        compare(f"methods-{args.setting}", chosen(args.setting, methods), args.jobs)
        publish(args.setting, methods)
    if args.only != "tune":
        write_page(PUBLISHED)


def comparison(name: str, arms: Mapping[str, Any], seeds: Any, share: float) -> dict[str, Any]:
    """The config of `pods compare` for these arms."""
    setting = SETTINGS[name]
    batch = {"per_device_train_batch_size": setting.rows, "training_clock": "cpu"}
    batch |= {"evaluation_repeats": 1}
    return {
        "config": "evidence",
        "settings": {**settings_of(name), **batch},
        "budget": {"training_seconds": round(setting.seconds * share)},
        "evaluations": 8,
        "seeds": seeds,
        "arms": dict(arms),
    }


def tune(name: str, methods: Mapping[str, Any], jobs: int) -> None:
    """Try learning rates until no method's best one is the lowest or the highest of its own.

    All are tried on one seed, the two best of each method on another one, too.
    """
    rounds = (
        (FIRST_TUNING_SEED, lambda of: _rates_to_try(SETTINGS[name].start, of)),
        (FIRST_TUNING_SEED + 1, _two_best),
    )
    for seed, choose in rounds:
        while True:
            found = tuned(name, methods)
            arms = {
                f"{key}_at_{rate:.3g}": {"like": "pods", **method["arm"], "learning_rate": rate}
                for key, method in methods.items()
                for rate in choose(found.get(key, {}))
            }
            if not arms:
                break
            compare(f"methods-{name}-rates-{seed}", comparison(name, arms, [seed], 0.75), jobs)
    write_json(PUBLISHED / name / "tuning.json", tuned(name, methods))


def _two_best(found: Mapping[float, Sequence[float]]) -> list[float]:
    ranked = sorted(found, key=lambda rate: -float(np.mean(found[rate])))[:2]
    return [rate for rate in ranked if len(found[rate]) == 1]


def _settled(found: Mapping[float, Sequence[float]]) -> dict[float, Sequence[float]]:
    """The rates that were tried on most seeds: the others are out of the race."""
    most = max(map(len, found.values()))
    return {rate: values for rate, values in found.items() if len(values) == most}


def _rates_to_try(start: float, found: Mapping[float, Sequence[float]]) -> list[float]:
    if not found:
        first = max(0, RATES.index(start) - FIRST_RATES // 2 + 1)
        return list(RATES[first : first + FIRST_RATES])
    if len(found) > FIRST_RATES + 2:
        return []
    at_best, low, high = best(found), min(found), max(found)
    below = [rate for rate in RATES if rate < low] if at_best == low else []
    above = [rate for rate in RATES if rate > high] if at_best == high else []
    return below[-1:] + above[:1]


def tuned(name: str, methods: Mapping[str, Any]) -> dict[str, dict[float, list[float]]]:
    """Of each method, by learning rate: the mean accuracy over each run's time.

    What is tuned already is taken as it is: here by an earlier call, or for docs/results/rows.json.
    """
    earlier = json.loads((RESULTS / "rows.json").read_text()).get(name, {}).get("rates", {})
    before = PUBLISHED / name / "tuning.json"
    before = json.loads(before.read_text()) if before.is_file() else {}
    scores: dict[str, dict[float, list[float]]] = {}
    for key, method in methods.items():
        known = before.get(key) or earlier.get(method.get("tuned_as"), {})
        scores[key] = {float(rate): values for rate, values in known.items()}
    for folder in sorted(p for p in RUNS.glob(f"methods-{name}-rates-*") if p.is_dir()):
        for run in find_runs(folder):
            key, rate = run.config()["arm"].rsplit("_at_", 1)
            if run.finished() is not None and key in methods and key not in before:
                learned = fmean(point.mean("answer_accuracy") for point in evaluations(run)[1:])
                scores[key].setdefault(float(rate), []).append(learned)
    return {key: by_rate for key, by_rate in scores.items() if by_rate}


def chosen(name: str, methods: Mapping[str, Any]) -> dict[str, Any]:
    """The methods at their best rates; of a family the one that did best."""
    found = tuned(name, methods)
    rate = {key: best(_settled(of)) for key, of in found.items()}
    score = {key: float(np.mean(of[rate[key]])) for key, of in found.items()}
    families = {key: method.get("family", key) for key, method in methods.items()}
    arms = {}
    for family in dict.fromkeys(families.values()):
        key = max((key for key in methods if families[key] == family), key=lambda key: score[key])
        arms[key] = {"like": "pods", **methods[key]["arm"], "learning_rate": rate[key]}
    return comparison(name, arms, SEEDS, 1.0)


def publish(name: str, methods: Mapping[str, Any]) -> None:
    """Write one JSON per finished run."""
    for run in find_runs(RUNS / f"methods-{name}"):
        if run.finished() is None:
            continue
        config, environment = run.config(), run.environment()
        key, seed = config["arm"], config["seed"]
        method = {k: v for k, v in methods[key].items() if k != "tuned_as"}
        value = {
            "method": key,
            **method,
            "setting": name,
            "seed": seed,
            "learning_rate": config["learning_rate"],
            "rows": SETTINGS[name].rows,
            "commit": (environment.get("git") or {}).get("commit"),
            "cpu": f"{environment['cpu']}, {environment['cores']} cores",
            "versions": environment["versions"],
            **measured(run),
        }
        write_json(PUBLISHED / name / f"{key}-{seed}.json", value)


def measured(run: RunFolder) -> dict[str, Any]:
    """Seconds per phase, g/u, fillers, and the curve."""
    log, points = run.metrics(), evaluations(run)
    seconds = {p: sum(float(row[f"pods/seconds_{p}"]) for row in log) for p in PHASES}
    generated, trained = points[-1].rollouts_generated, points[-1].rollouts_trained
    return {
        "seconds": {phase: round(spent, 3) for phase, spent in seconds.items()},
        "g_over_u": seconds["generate"] / generated / (seconds["update"] / trained),
        "rollouts_generated": generated,
        "rows_trained": trained,
        "filler_share": float(np.mean([row["pods/filler_rows"] for row in log]))
        / (trained / points[-1].step),
        "curve": {
            "steps": [point.step for point in points],
            "seconds": [round(point.training_seconds, 3) for point in points],
            "generated": [point.rollouts_generated for point in points],
            "trained": [point.rollouts_trained for point in points],
            "accuracy": [point.mean("answer_accuracy") for point in points],
            "answers": [point.problems * point.repeats for point in points],
        },
    }


if __name__ == "__main__":
    main()
