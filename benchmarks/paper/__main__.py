"""The paper's experiments in a small version: `python -m benchmarks.paper`.

Runs the comparisons `compare/small-*` one after the other, each run in one thread, and an arm that
stands in several of them only once. Stopped, it goes on. Then results/paper/ gets a JSON for each
run, and from these the page and its figures are written. The protocol: results/paper/README.md.

    python -m benchmarks.paper                  # everything anew: about 45 minutes on one core
    python -m benchmarks.paper --only page      # the page from the JSON files: seconds
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.folders import RESULTS
from benchmarks.paper.finished_runs import summary
from benchmarks.paper.page import EXPERIMENTS, write_page
from podslab.comparison.comparison import Shard, open_comparison
from podslab.comparison.comparison_config import parse_comparison
from podslab.comparison.run_comparison import Progress, compare, failures
from podslab.training.config_file import read_config
from podsrl.rollout_log.files import write_json
from podsrl.rollout_log.run_folder import find_runs

RUNS = Path("runs/paper-small")
#: What is published of the runs, and the page.
PUBLISHED = RESULTS / "paper"

#: What the experiments may differ in.
_OF_AN_EXPERIMENT = ("arms", "seeds")


def main() -> None:
    """Run, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("run", "page"))
    args = parser.parse_args()

    if args.only in (None, "run"):
        run()
        publish()
    write_page(PUBLISHED)


def comparisons() -> list[dict[str, Any]]:
    """The experiments' runs, each once: a comparison for each set of arms that share seeds.

    Raises:
        SystemExit: two experiments give an arm different settings.
    """
    experiments = [read_config(f"compare/{name}") for name in EXPERIMENTS]
    shared = _shared_settings(experiments)
    settings_of_arm = _settings_of_arms(experiments)

    # Which arms each seed has, of all experiments together.
    arms_of_seed: dict[int, list[str]] = {}
    for experiment in experiments:
        for seed in experiment["seeds"]:
            arms = arms_of_seed.setdefault(seed, [])
            arms += [arm for arm in experiment["arms"] if arm not in arms]

    seeds_of_arms: dict[tuple[str, ...], list[int]] = {}
    for seed, arms in sorted(arms_of_seed.items()):
        seeds_of_arms.setdefault(tuple(arms), []).append(seed)

    found = []
    for names, seeds in seeds_of_arms.items():
        settings = {arm: settings_of_arm[arm] for arm in names}
        found.append({**shared, "seeds": seeds, "arms": settings})
    return found


def _shared_settings(experiments: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings of all experiments beside arms and seeds, which must be the same."""
    found = []
    for experiment in experiments:
        own = {key: value for key, value in experiment.items() if key not in _OF_AN_EXPERIMENT}
        found.append(own)
    if any(own != found[0] for own in found):
        sys.exit("the small comparisons differ in more than arms and seeds")
    return found[0]


def _settings_of_arms(experiments: list[dict[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The settings of every arm, which must be the same wherever it stands."""
    found: dict[str, Mapping[str, Any]] = {}
    for experiment in experiments:
        for arm, settings in experiment["arms"].items():
            if found.setdefault(arm, settings) != settings:
                sys.exit(f"two of the small comparisons give {arm!r} different settings")
    return found


def run() -> None:
    """Run what is not finished, one run at a time."""
    for number, config in enumerate(comparisons(), start=1):
        name = f"part-{number}"
        config["output_dir"] = str(RUNS / name)
        spec = open_comparison(parse_comparison(config, name))
        outcome = compare(spec, Shard(), Progress(len(spec.runs()), print))
        for line in failures(outcome.failed):
            print(line, file=sys.stderr)


def publish() -> None:
    """Write one JSON for each run that is finished, and not-run.json for the others."""
    begun = set()
    for found in find_runs(RUNS):
        config = found.config()
        if found.finished() is None:
            begun.add((config["arm"], config["seed"]))
        else:
            write_json(_file_of(config["arm"], config["seed"]), summary(found))

    missing = []
    for comparison in comparisons():
        for seed in comparison["seeds"]:
            for arm in comparison["arms"]:
                if not _file_of(arm, seed).is_file():
                    state = "started and stopped" if (arm, seed) in begun else "not started"
                    missing.append({"arm": arm, "seed": seed, "state": state})
    write_json(PUBLISHED / "not-run.json", missing)


def _file_of(arm: str, seed: int) -> Path:
    return PUBLISHED / "runs" / f"{arm}-{seed}.json"


if __name__ == "__main__":
    main()
