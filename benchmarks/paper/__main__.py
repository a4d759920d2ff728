"""The paper's experiments in a small version: `python -m benchmarks.paper`.

Runs the comparisons `compare/small-*` one after the other, each run in one thread, and an arm that
stands in several of them only once. Stopped, it goes on. Then results/paper/ gets a JSON for each
run, and from these the page and its figures are written. The protocol: results/paper/README.md.

    python -m benchmarks.paper                  # everything anew: about 40 minutes on one core
    python -m benchmarks.paper --only page      # the page from the JSON files: seconds
"""

import argparse
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.methods.__main__ import measured
from benchmarks.paper.page import EXPERIMENTS, write_page
from podslab.comparison.comparison import open_comparison
from podslab.comparison.comparison_config import parse_comparison
from podslab.comparison.comparison_process import work
from podslab.training.config_file import read_config
from podsrl.rollout_log.files import write_json
from podsrl.rollout_log.run_folder import find_runs

RUNS, RESULTS = Path("runs/paper-small"), Path("results/paper")


def main() -> None:
    """Run, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("run", "page"))
    args = parser.parse_args()

    if args.only in (None, "run"):
        run()
        publish()
    write_page(RESULTS)


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

    Each run is a fork of this process, which has imported everything: a start costs as much
    processor time as a third of a run. Otherwise they are the runs of `pods compare`.
    """
    torch.set_num_threads(1)
    for number, config in enumerate(comparisons(), 1):
        name = f"part-{number}"
        config["output_dir"] = str(RUNS / name)
        spec = open_comparison(parse_comparison(config, name))

        for one in spec.runs():
            folder = spec.run_folder(one)
            if folder.finished() is not None:
                continue
            if folder.path.exists():
                shutil.rmtree(folder.path)  # of a run that was stopped; it has no checkpoints
            print(f"{one.arm}, seed {one.seed}", flush=True)
            if not in_a_fork(partial(work, spec.folder, *one), folder.path.with_suffix(".log")):
                print(f"failed: {folder.path.with_suffix('.log')} says why", file=sys.stderr)


def in_a_fork(call: Callable[[], None], log: Path) -> bool:
    """Call in a process of its own, whose output goes to a file. Did it end without an error?"""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0

    status = 1
    try:
        with log.open("ab") as output:
            os.dup2(output.fileno(), sys.stdout.fileno())
            os.dup2(output.fileno(), sys.stderr.fileno())
        call()
        status = 0
    except Exception:  # noqa: BLE001 (whatever it was: the log says it, and the others go on)
        traceback.print_exc()
    finally:
        os._exit(status)


def publish() -> None:
    """Write one JSON for each run that is finished, and name those that are not."""
    for run in find_runs(RUNS):
        config, environment = run.config(), run.environment()
        if run.finished() is None:
            print(f"not finished: {run.path}", file=sys.stderr)
            continue
        value = {
            "arm": config["arm"],
            "seed": config["seed"],
            "num_rollouts": config["num_rollouts"],
            "num_generations": config["num_generations"],
            "downsampling_rule": config["downsampling_rule"],
            "learning_rate": config["learning_rate"],
            "rows": config["per_device_train_batch_size"] * config["gradient_accumulation_steps"],
            "budget_seconds": config["max_training_seconds"],
            "commit": (environment.get("git") or {}).get("commit"),
            "cpu": f"{environment['cpu']}, {environment['cores']} cores",
            "versions": environment["versions"],
            "wall_seconds": round(sum(float(row["step_time"]) for row in run.metrics()), 1),
            **measured(run),
        }
        write_json(RESULTS / "runs" / f"{config['arm']}-{config['seed']}.json", value)


if __name__ == "__main__":
    main()
