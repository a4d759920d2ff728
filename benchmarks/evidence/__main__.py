"""The evidence of docs/results: `make evidence` runs it; killed, it goes on where it was.

1. Every arm's learning rate is chosen on seeds that nothing else uses.
2. The comparisons of configs/*.yaml and of the shipped compare/arithmetic are run with those rates.
3. Their tables, figures and the map are written to docs/results.

    python -m benchmarks.evidence            # all of it, two runs side by side
    python -m benchmarks.evidence --only condense
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.evidence import cells as evidence_map
from benchmarks.evidence import gradients as evidence_gradients
from benchmarks.evidence import sizes as evidence_sizes
from benchmarks.evidence import verdict as evidence_verdict
from podslab.report.drawing import render
from podslab.report.figures import describe, draw
from podslab.report.load_runs import Choices, Comparison, load_comparison
from podslab.report.summary import as_markdown, summarise
from podsrl.errors import InvalidInputError
from podslab.training.config_file import read_config
from podsrl.rollout_log.run_folder import find_runs
from podsrl.rollout_log.files import write_json, write_whole

RUNS, RESULTS = Path("runs/evidence"), Path("docs/results")
CONFIGS = Path(__file__).parent / "configs"
#: Comparison: those that its learning rates come from.
COMPARISONS = {
    "arithmetic": ("arithmetic-rates-1",),
    "arithmetic-map-hard": ("arithmetic-rates-hard", "arithmetic-rates-sizes"),
    "arithmetic-map-long": ("arithmetic-rates-long", "arithmetic-rates-long-again"),
    "arithmetic-map-rare": ("arithmetic-rates-rare",),
    "arithmetic-map-uniform": ("arithmetic-rates-uniform",),
    "arithmetic-map-four": ("arithmetic-rates-four",),
    "arithmetic-map-sgd": ("arithmetic-rates-sgd",),
}
#: Parts of a comparison for each job.
PARTS = 4
#: Cells of the map, by what they are.
CELLS = {
    "arithmetic": "mixed difficulty, 1 prompt per step",
    "arithmetic-map-uniform": "one difficulty, 1 prompt per step",
    "arithmetic-map-four": "mixed difficulty, 4 prompts per step",
    "arithmetic-map-long": "mixed difficulty, 1 prompt per step, expensive update, 3 times as long",
    "arithmetic-map-hard": "hard prompts, 1 prompt per step, expensive update",
    "arithmetic-map-rare": "nearly hopeless prompts, 1 prompt per step, expensive update",
    "arithmetic-map-sgd": "nearly hopeless prompts, 1 prompt per step, expensive update, by SGD",
}


def main() -> None:
    """Tune, run, condense."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("tune", "run", "condense"))
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (2)")
    parser.add_argument("--comparisons", nargs="*", default=list(COMPARISONS))
    args = parser.parse_args()
    if args.only in (None, "tune"):
        for name in tunings(args.comparisons):
            compare(name, config_of(name), args.jobs)
    if args.only in (None, "run"):
        for name in args.comparisons:
            rates = chosen_rates([name])
            compare(name, with_rates(config_of(name), rates), args.jobs)
    if args.only in (None, "condense"):
        condense(args.comparisons)


def config_of(name: str) -> dict[str, Any]:
    """The comparison of that name, ours or a shipped one."""
    own = CONFIGS / f"{name}.yaml"
    return read_config(own if own.is_file() else f"compare/{name}")


def compare(name: str, config: dict[str, Any], jobs: int) -> None:
    """Run a comparison to its end, `jobs` of its parts side by side, in one thread each.

    Raises:
        SystemExit: a part failed; started again it goes on.
    """
    path = RUNS / f"{name}.yaml"
    write_whole(path, yaml.safe_dump(config, sort_keys=False).encode())
    command = [sys.executable, "-m", "podsrl.cli", "compare", "--config", str(path)]
    command += ["--output_dir", str(RUNS / name)]
    threads = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--dry-run"], check=True, stdout=subprocess.DEVNULL, env=threads)

    def run(part: str) -> int:
        return subprocess.run([*command, "--shard", part], env=threads).returncode

    seeds = config["seeds"] if isinstance(config["seeds"], int) else len(config["seeds"])
    # more parts than seeds, so that no job is long without work at the end
    parts = min(PARTS * jobs, len(config["arms"]) * seeds)
    with ThreadPoolExecutor(jobs) as pool:
        codes = list(pool.map(run, [f"{i + 1}/{parts}" for i in range(parts)]))
    if any(codes):
        sys.exit(f"a part of {name} failed; start this again to go on")


def tunings(names: Sequence[str]) -> list[str]:
    """The comparisons of learning rates that these need."""
    return sorted({tuning for name in names for tuning in COMPARISONS[name]})


def tried_rates(names: Sequence[str]) -> dict[str, dict[float, list[float]]]:
    """Of each arm, by learning rate: each seed's accuracy, on average over the time it had.

    An arm of `arithmetic-rates-*` is named by the arm and its rate: `grpo-5.0e-5`.
    """
    scores: dict[str, dict[float, list[float]]] = {}
    for tuning in tunings(names):
        arms = config_of(tuning)["arms"]
        for arm in load(tuning, next(iter(arms))).arms:
            name, rate = arm.name.split("-", 1)
            seeds = scores.setdefault(name, {}).setdefault(float(rate), [])
            seeds += evidence_map.mean_accuracy(arm.curves).tolist()
    return scores


def chosen_rates(names: Sequence[str]) -> dict[str, float]:
    """The best of the learning rates tried, for each arm."""
    return {arm: best(tried) for arm, tried in tried_rates(names).items()}


def best(tried: Mapping[float, Sequence[float]]) -> float:
    """The learning rate with the highest mean accuracy."""
    return max(tried, key=lambda rate: float(np.mean(tried[rate])))


def rates_as_markdown(names: Sequence[str]) -> str:
    """What every arm of every cell learned at each rate; the chosen ones stand out."""
    tried = {name: tried_rates([name]) for name in names}
    rates = sorted({rate for arms in tried.values() for of_arm in arms.values() for rate in of_arm})
    lines = [
        "## Learning rates\n",
        "Mean accuracy over the evaluations of a run, on seeds that nothing else uses, by"
        " learning rate, with the standard deviation over seeds; the best one is used.\n",
        "| | arm | seeds up to |" + "|".join(f"{rate:g}" for rate in rates) + "|",
        "|---|---|---|" + "---|" * len(rates),
    ]
    for name, arms in tried.items():
        for arm, of_arm in arms.items():
            texts = {rate: mean_and_spread(accuracy_S) for rate, accuracy_S in of_arm.items()}
            texts[best(of_arm)] = f"**{texts[best(of_arm)]}**"
            seeds = max(map(len, of_arm.values()))
            cells = "|".join(texts.get(rate, "") for rate in rates)
            lines.append(f"| {CELLS[name]} | {arm} | {seeds} |{cells}|")
    return "\n".join([*lines, ""])


def mean_and_spread(accuracy_S: Sequence[float]) -> str:
    """The mean, and where there are several seeds their standard deviation."""
    spread = f" ± {np.std(accuracy_S, ddof=1):.1%}" if len(accuracy_S) > 1 else ""
    return f"{np.mean(accuracy_S):.1%}{spread}"


def with_rates(config: dict[str, Any], rates: dict[str, float]) -> dict[str, Any]:
    """A comparison with each arm's tuned rate, or its own; variants of PODS take that of `pods`.

    `auto` takes that of `grpo`, which is what one has before n is chosen.
    """
    tuned = {**rates, "auto": rates["grpo"]}
    arms = {}
    for name, given in config["arms"].items():
        own = given or {}
        rate = tuned.get(name, own.get("learning_rate", rates["pods"]))
        arms[name] = {**own, "learning_rate": rate}
    return {**config, "arms": arms}


def load(name: str, *references: str) -> Comparison:
    """A comparison that was run here."""
    return load_comparison([RUNS / name], Choices(references=references))


def condense(names: Sequence[str]) -> None:
    """Tables, figures and the map, from the runs alone: the verdict first, the details last."""
    table = {CELLS[name]: evidence_map.cell(RUNS / name) for name in names}
    shares = {
        CELLS[name]: evidence_gradients.shared(RUNS / name)
        for name in names
        if evidence_gradients.has_one_prompt(RUNS / name)
    }
    parts = [
        HEAD.format(names=" ".join(names), date=datetime.now(UTC).date(), hardware=hardware(names)),
        evidence_verdict.as_markdown(table),
        evidence_map.as_markdown(table),
        evidence_gradients.as_markdown(shares),
        rates_as_markdown(names),
        "## Every comparison\n",
        *(details(name) for name in names),
    ]
    write_whole(
        RESULTS / "verdict.png",
        render(
            evidence_verdict.figure(evidence_verdict.by_reference(table), evidence_verdict.LABEL),
            "png",
        ),
    )
    write_whole(RESULTS / "map.png", render(evidence_map.figure(table), "png"))
    write_json(RESULTS / "map.json", {name: cell.as_json() for name, cell in table.items()})
    write_whole(RESULTS / "README.md", "\n".join(parts).encode())


def details(name: str) -> str:
    """All numbers of one comparison, to be unfolded; its figures are written beside the page."""
    arms = config_of(name)["arms"]
    comparison = load(name, *(arm for arm in arms if arm.startswith("grpo")))
    summaries = summarise(comparison)
    accuracy = draw(comparison, summaries)["accuracy"]
    write_whole(RESULTS / f"{name}-accuracy.png", render(accuracy, "png"))
    parts = [
        f"<details><summary>{CELLS[name]}</summary>\n",
        as_markdown(comparison, summaries).replace("## ", "#### ", 1),
        f"![accuracy]({name}-accuracy.png)\n\n{describe('accuracy', comparison)}\n",
    ]
    if len(comparison.arms) > len(evidence_map.ARMS):
        parts.append(evidence_sizes.as_markdown(comparison))
    return "\n".join([*parts, "</details>\n"])


HEAD = """# Measured on the embedded arithmetic task

`python -m benchmarks.evidence --comparisons {names}`, {date}, {hardware}.
With `--only condense` this page is written again from finished runs; `make evidence` runs all.
"""


def hardware(names: Sequence[str]) -> str:
    """What the runs were made on, and the commits they were made at."""
    environments = [run.environment() for name in names for run in find_runs(RUNS / name)]
    machines = sorted({f"{e['cpu']}, {e['cores']} cores" for e in environments})
    commits = sorted({(e.get("git") or {}).get("commit", "unknown")[:12] for e in environments})
    return f"{'; '.join(machines)}, one thread per run, commits {', '.join(commits)}"


if __name__ == "__main__":
    try:
        main()
    except InvalidInputError as error:
        sys.exit(str(error))
