"""The paper's experiments in a small version: `python -m benchmarks.paper`.

Runs the comparisons `compare/small-*` one after the other, each run in one thread, and an arm that
stands in several of them only once. Stopped, it goes on. Then results/paper/ gets a JSON for each
run, and from these the page and its figures are written. The protocol: results/paper/README.md.

    python -m benchmarks.paper                  # everything anew: about 40 minutes on one core
    python -m benchmarks.paper --only page      # the page from the JSON files: seconds
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from podslab.training.config_file import read_config
from podsrl.rollout_log.files import write_whole

EXPERIMENTS = ("small-v1", "small-settings", "small-sizes", "small-rules")
RUNS, RESULTS = Path("runs/paper-small"), Path("results/paper")


def main() -> None:
    """Run, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("run", "page"))
    args = parser.parse_args()

    if args.only in (None, "run"):
        run()


def comparisons() -> list[dict[str, Any]]:
    """The experiments' runs, each once: a comparison for each set of arms that share seeds.

    Raises:
        SystemExit: two experiments give an arm different settings.
    """
    configs = [read_config(f"compare/{name}") for name in EXPERIMENTS]
    shared = {key: value for key, value in configs[0].items() if key not in ("arms", "seeds")}
    arms: dict[str, Mapping[str, Any]] = {}
    arms_of_seed: dict[int, list[str]] = {}
    for config in configs:
        if {key: value for key, value in config.items() if key not in ("arms", "seeds")} != shared:
            sys.exit("the small comparisons differ in more than arms and seeds")
        for arm, own in config["arms"].items():
            if arms.setdefault(arm, own) != own:
                sys.exit(f"two of the small comparisons give {arm!r} different settings")
            for seed in config["seeds"]:
                of_seed = arms_of_seed.setdefault(seed, [])
                of_seed += [] if arm in of_seed else [arm]

    seeds_of_arms: dict[tuple[str, ...], list[int]] = {}
    for seed, of_seed in sorted(arms_of_seed.items()):
        seeds_of_arms.setdefault(tuple(of_seed), []).append(seed)
    return [
        {**shared, "seeds": seeds, "arms": {arm: arms[arm] for arm in names}}
        for names, seeds in seeds_of_arms.items()
    ]


def run() -> None:
    """Run what is not finished, one run at a time.

    Raises:
        SystemExit: a run failed.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for number, config in enumerate(comparisons(), 1):
        path = RUNS / f"part-{number}.yaml"
        write_whole(path, yaml.safe_dump(config, sort_keys=False).encode())
        command = [sys.executable, "-m", "podsrl.cli", "compare", "--config", str(path)]
        command += ["--output_dir", str(RUNS / f"part-{number}")]
        if code := subprocess.run(command, env=environment).returncode:
            sys.exit(code)


if __name__ == "__main__":
    main()
