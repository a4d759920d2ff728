"""Published ways of choosing rollouts, side by side at equal time: `python -m benchmarks.methods`.

A method is a file here: a name, its source and claim, and what it sets in `PODSConfig`. To add one
is to add a file (and a rule, which may be "file.py:function"); `--methods` also takes paths.
Learning rates are chosen from at least four on two seeds that nothing else uses. Then five others
are run, interleaved. Killed, it goes on. results/methods/SETTING/DATE-COMMIT/ gets a JSON for each
run: the series of this day and of this code. Then list it in results/log.md, with what is left out.

    python -m benchmarks.methods --setting mixed-16
    python -m benchmarks.methods --setting mixed-16 --methods grpo-8 max_contrast mine.yaml
    python -m benchmarks.methods --setting gpu-hard --jobs 14 --only screen --methods best-4 grpo-4
"""

import argparse
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.answers import by_kind
from benchmarks.evidence.harness import RESULTS, RUNS, compare
from benchmarks.evidence.rows_settings import SEEDS, SETTINGS
from benchmarks.evidence.tuning import best, comparison, read_tried, tried_in, tune
from podslab.evaluation.records import evaluations
from podslab.report.curves import share_passed
from podsrl.rollout_log.files import write_json
from podsrl.rollout_log.run_folder import PHASES, RunFolder, find_runs

HERE = Path(__file__).parent
PUBLISHED = RESULTS / "methods"
#: Screening: a seed that nothing else uses, two learning rates, and a share of a run's time.
SCREENING_SEED, SCREENING_RATES, SCREENING_SHARE = 99, (5e-6, 2e-5), 1 / 3
#: Each evaluation asks every problem once.
ONCE = {"evaluation_repeats": 1}


def main() -> None:
    """Tune, run, and write one JSON per run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--setting", choices=SETTINGS, default="mixed-16")
    parser.add_argument("--methods", nargs="*", help="names, or paths of YAML files (all)")
    parser.add_argument("--only", choices=("screen", "tune", "run"))
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (2)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"reported seeds ({SEEDS})")
    args = parser.parse_args()
    files = [Path(name) for name in args.methods or sorted(HERE.glob("*.yaml"))]
    files = [file if file.suffix == ".yaml" else HERE / f"{file}.yaml" for file in files]
    methods = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in files}
    if args.only == "screen":
        screen(args.setting, methods, args.jobs)
        return
    if args.only in (None, "tune"):
        before = tuned_before(args.setting)
        new = {key: method for key, method in methods.items() if key not in before}
        arms = {key: {"like": "pods", **method["arm"]} for key, method in new.items()}
        found = partial(tuned, args.setting, methods)
        tune("methods", args.setting, arms, found, args.jobs, **ONCE)
        write_json(PUBLISHED / args.setting / "tuning.json", {**before, **found()})
    if args.only in (None, "run"):
        config = chosen(args.setting, methods, args.seeds)
        compare(f"methods-{args.setting}", config, args.jobs)
        publish(args.setting, methods)


def screen(name: str, methods: Mapping[str, Any], jobs: int) -> None:
    """Run each method shortly at two rates, to see which are worth tuning; write screening.json."""
    arms = {
        f"{key}_at_{rate:.3g}": {"like": "pods", **method["arm"], "learning_rate": rate}
        for key, method in methods.items()
        for rate in SCREENING_RATES
    }
    config = comparison(name, arms, [SCREENING_SEED], SCREENING_SHARE, **ONCE)
    compare(f"methods-{name}-screening", {**config, "evaluations": 2}, jobs)
    file = PUBLISHED / name / "screening.json"
    before = json.loads(file.read_text()) if file.is_file() else {}
    write_json(file, {**before, **tried_in([RUNS / f"methods-{name}-screening"])})


def tuned(name: str, methods: Mapping[str, Any]) -> dict[str, dict[float, list[float]]]:
    """Of each method, by learning rate: the mean accuracy over each run's time.

    What is tuned already is taken as it is: here by an earlier call, or for results/rows.json.
    """
    earlier = json.loads((RESULTS / "rows.json").read_text()).get(name, {}).get("rates", {})
    before = tuned_before(name)
    scores: dict[str, dict[float, list[float]]] = {}
    for key, method in methods.items():
        as_this = method.get("tuned_as")
        known = before.get(key) or before.get(as_this) or earlier.get(as_this, {})
        scores[key] = {float(rate): values for rate, values in known.items()}
    for key, by_rate in read_tried("methods", name).items():
        if key in methods and key not in before:
            for rate, values in by_rate.items():
                scores[key].setdefault(rate, []).extend(values)
    return {key: by_rate for key, by_rate in scores.items() if by_rate}


def tuned_before(name: str) -> dict[str, Any]:
    """What was tuned and published before, which is not tuned again."""
    file = PUBLISHED / (SETTINGS[name].rates_of or name) / "tuning.json"
    return dict(json.loads(file.read_text())) if file.is_file() else {}


def chosen(name: str, methods: Mapping[str, Any], seeds: int = SEEDS) -> dict[str, Any]:
    """The methods at their best rates; of a family the one that did best."""
    found = tuned(name, methods)
    rate = {**dict.fromkeys(methods, SETTINGS[name].start), **{k: best(found[k]) for k in found}}
    score = {key: float(np.mean(found.get(key, {}).get(rate[key], 0.0))) for key in methods}
    families = {key: method.get("family", key) for key, method in methods.items()}
    arms = {}
    for family in dict.fromkeys(families.values()):
        key = max((key for key in methods if families[key] == family), key=lambda key: score[key])
        arms[key] = {"like": "pods", **methods[key]["arm"], "learning_rate": rate[key]}
    return comparison(name, arms, seeds, **ONCE)


def publish(name: str, methods: Mapping[str, Any]) -> None:
    """Write one JSON per finished run, into the folder of its series."""
    for run in find_runs(RUNS / f"methods-{name}"):
        config, environment = run.config(), run.environment()
        if run.finished() is None or config["arm"] not in methods:
            continue
        key, seed = config["arm"], config["seed"]
        method = {k: v for k, v in methods[key].items() if k != "tuned_as"}
        value = {
            "method": key,
            **method,
            "setting": name,
            "seed": seed,
            "learning_rate": config["learning_rate"],
            "rows": SETTINGS[name].rows * config["gradient_accumulation_steps"],
            "commit": (environment.get("git") or {}).get("commit"),
            "cpu": f"{environment['cpu']}, {environment['cores']} cores",
            **({} if config["use_cpu"] else {"gpu": environment["gpus"][0]}),
            "versions": environment["versions"],
            **measured(run),
        }
        write_json(series_of(name, environment) / f"{key}-{seed}.json", value)


def series_of(name: str, environment: Mapping[str, Any]) -> Path:
    """The folder of a series: its setting, the day, and the commit of the code."""
    commit = str((environment.get("git") or {}).get("commit") or "unknown")
    return PUBLISHED / name / f"{str(environment['started'])[:10]}-{commit[:7]}"


def measured(run: RunFolder) -> dict[str, Any]:
    """Seconds per phase, g/u, fillers, and the curve."""
    log, points = run.metrics(), evaluations(run)
    seconds = {p: sum(float(row[f"pods/seconds_{p}"]) for row in log) for p in PHASES}
    # with several passes over a generation not every step has one
    fillers, kept = (
        sum(row.get(f"pods/{name}", 0.0) for row in log)
        for name in ("zero_advantage_rows", "kept_rollouts")
    )
    has_rollouts = bool(run.rollout_steps())  # runs on a GPU log none
    generated, trained = points[-1].rollouts_generated, points[-1].rollouts_trained
    return {
        "seconds": {phase: round(spent, 3) for phase, spent in seconds.items()},
        "g_over_u": seconds["generate"] / generated / (seconds["update"] / trained),
        "rollouts_generated": generated,
        "rows_trained": trained,
        "filler_share": fillers / kept,
        "share_passed": share_passed(run.config(), log),
        **({"kinds": by_kind(run)} if run.config()["task"] == "answers" and has_rollouts else {}),
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
