"""The evidence of docs/results: `make evidence` runs it; killed, it goes on where it was.

1. Every arm's learning rate is chosen on seeds that nothing else uses.
2. The comparisons of configs/compare/arithmetic*.yaml are run with those rates.
3. Their tables, figures and the map are written to docs/results.

    python benchmarks/evidence.py            # all of it, two runs side by side
    python benchmarks/evidence.py --only condense
"""

import argparse
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from matplotlib.figure import Figure

from podsrl.errors import InvalidInputError
from podsrl.evaluation.comparison import Choices, Comparison, load_comparison
from podsrl.evaluation.curves import ArmCurves, Clock
from podsrl.evaluation.files import write_json, write_whole
from podsrl.evaluation.statistics import Speedup, mean_over_seeds, speed_up
from podsrl.experiments.spec import read_config
from podsrl.report.figures import draw, render
from podsrl.report.summary import as_markdown, interval, summarise, times

RUNS, RESULTS = Path("runs/evidence"), Path("docs/results")
#: Comparison: the one that its learning rates come from.
COMPARISONS = {
    "arithmetic": "arithmetic-rates-1",
    "arithmetic-map-hard": "arithmetic-rates-dear",
    "arithmetic-map-dear": "arithmetic-rates-dear",
    "arithmetic-map-rare": "arithmetic-rates-dear",
    "arithmetic-map-uniform": "arithmetic-rates-1",
    "arithmetic-map-four": "arithmetic-rates-1",
}
#: Cells of the map, by what they are.
CELLS = {
    "arithmetic": "mixed difficulty, 1 prompt a step",
    "arithmetic-map-uniform": "one difficulty, 1 prompt a step",
    "arithmetic-map-four": "mixed difficulty, 4 prompts a step",
    "arithmetic-map-dear": "mixed difficulty, 1 prompt a step, dear update",
    "arithmetic-map-hard": "hard prompts, 1 prompt a step, dear update",
    "arithmetic-map-rare": "nearly hopeless prompts, 1 prompt a step, dear update",
}
ARMS, REFERENCES = ("grpo", "grpo_ga", "pods"), ("grpo", "grpo_ga")
#: Seconds of update for each second of generation, a rollout; 8.4 is about the authors' L40S.
COSTS = (0.5, 1.0, 2.0, 4.0, 8.4, 16.0)


def main() -> None:
    """Tune, run, condense."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("tune", "run", "condense"))
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (2)")
    parser.add_argument("--comparisons", nargs="*", default=list(COMPARISONS))
    args = parser.parse_args()
    if args.only in (None, "tune"):
        for name in sorted({COMPARISONS[name] for name in args.comparisons}):
            compare(name, read_config(f"compare/{name}"), args.jobs)
    if args.only in (None, "run"):
        for name in args.comparisons:
            rates = chosen_rates(COMPARISONS[name])
            compare(name, with_rates(read_config(f"compare/{name}"), rates), args.jobs)
    if args.only in (None, "condense"):
        condense(args.comparisons)


def compare(name: str, config: dict[str, Any], jobs: int) -> None:
    """Run a comparison to its end, its seeds dealt out to processes of one thread each.

    Raises:
        SystemExit: a part failed; started again it goes on.
    """
    path = RUNS / f"{name}.yaml"
    write_whole(path, yaml.safe_dump(config, sort_keys=False).encode())
    command = [sys.executable, "-m", "podsrl.cli", "compare", "--config", str(path)]
    command += ["--output_dir", str(RUNS / name)]
    threads = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--plan"], check=True, stdout=subprocess.DEVNULL, env=threads)
    parts = [
        subprocess.Popen([*command, "--shard", f"{i + 1}/{jobs}"], env=threads) for i in range(jobs)
    ]
    codes = [part.wait() for part in parts]
    if any(codes):
        sys.exit(f"a part of {name} failed; start this again to go on")


def chosen_rates(name: str) -> dict[str, float]:
    """The learning rate of each arm with the best accuracy, on average over the time it had."""
    scores = {
        arm.name: float(np.nanmean(arm.curves.accuracy[:, 1:]))
        for arm in load(name, "pods-5.0e-5").arms
    }
    best = {
        arm: max((s, n) for n, s in scores.items() if n.split("-", 1)[0] == arm) for arm in ARMS
    }
    return {arm: float(chosen.split("-", 1)[1]) for arm, (_, chosen) in best.items()}


def with_rates(config: dict[str, Any], rates: dict[str, float]) -> dict[str, Any]:
    """A comparison with each arm's own rate; variants of PODS take that of `pods`."""
    arms = {
        name: {"learning_rate": rates[name if name in ARMS else "pods"], **(own or {})}
        for name, own in config["arms"].items()
    }
    return {**config, "arms": arms}


def load(name: str, *references: str, clock: Clock | None = None) -> Comparison:
    """A comparison that was run here."""
    return load_comparison([RUNS / name], Choices(references=references, clock=clock))


def condense(names: Sequence[str]) -> None:
    """Tables, figures and the map, from the runs alone."""
    rates = {name: chosen_rates(name) for name in sorted({COMPARISONS[n] for n in names})}
    parts = [HEAD.format(date=datetime.now(UTC).date(), hardware=hardware(names[0]))]
    parts.append(f"Learning rates chosen: `{rates}`.\n")
    for name in names:
        comparison = load(name, *REFERENCES)
        summaries = summarise(comparison)
        for kind, figure in draw(comparison, summaries).items():
            if kind in ("accuracy", "seconds_per_step"):
                write_whole(RESULTS / f"{name}-{kind}.png", render(figure, "png"))
        text = as_markdown(comparison, summaries).replace("## ", f"## {CELLS.get(name, name)}: ", 1)
        parts.append(f"{text}\n![accuracy]({name}-accuracy.png)\n")
    cells = [name for name in names if name in CELLS]
    table = {name: cell(name) for name in cells}
    parts.append(map_markdown(table))
    write_whole(RESULTS / "map.png", render(map_figure(table), "png"))
    write_json(RESULTS / "map.json", {name: as_numbers(found) for name, found in table.items()})
    write_whole(RESULTS / "README.md", "\n".join(parts).encode())


HEAD = """# Measured on the embedded arithmetic task

`make evidence`, {date}, {hardware}. Regenerate this page from finished runs with
`python benchmarks/evidence.py --only condense`.
"""


def hardware(name: str) -> str:
    """What the runs were made on."""
    environment = load(name).runs[0].environment
    commit = (environment.get("git") or {}).get("commit", "unknown")[:12]
    return f"{environment['cpu']}, {environment['cores']} cores, one thread a run, commit {commit}"


Cell = dict[tuple[str, str], Speedup]  # (reference, "measured" or the cost of an update)


def cell(name: str) -> Cell:
    """PODS's speed-ups over each reference, measured and at modelled costs of the update."""
    found = {}
    for cost in (None, *COSTS):
        clock = None if cost is None else Clock(generate=0.05, update=0.05 * cost)
        comparison = load(name, *REFERENCES, clock=clock)
        curves = {arm: comparison.arm(arm).curves for arm in ARMS}
        for reference in REFERENCES:
            pair = equally_long(curves[reference], curves["pods"])
            label = "measured" if cost is None else f"{cost:g}"
            found[reference, label] = speed_up(*pair)
    return found


def equally_long(*arms: ArmCurves) -> list[ArmCurves]:
    """The curves up to the time that all of them last: replayed ones end at different times."""
    ends = [float(np.nanmax(mean_over_seeds(arm.seconds))) for arm in arms]
    last = min(ends) * 1.02  # an evaluation waits for its step to end
    cut = []
    for arm in arms:
        late = mean_over_seeds(arm.seconds) > last
        cut.append(
            replace(
                arm,
                seconds=np.where(late, np.nan, arm.seconds),
                accuracy=np.where(late, np.nan, arm.accuracy),
            )
        )
    return cut


def map_markdown(table: dict[str, Cell]) -> str:
    """Where PODS pays: speed-up of the means, its interval, and the median over seeds."""
    labels = ["measured", *(f"{cost:g}" for cost in COSTS)]
    lines = [
        "## The map\n",
        "Speed-up of PODS to 99 % of the reference's best accuracy (95 % interval; median over"
        " seeds). *Measured* is training time here. The other columns are modelled: the same"
        " curves at an update that costs so many times a rollout's generation (8.4 is about the"
        " authors' L40S), up to the time that both arms last.\n",
    ]
    for reference in REFERENCES:
        lines += [f"### Over {reference}\n", "| |" + "|".join(labels) + "|"]
        lines.append("|---|" + "---|" * len(labels))
        for name, found in table.items():
            texts = []
            for label in labels:
                s = found[reference, label]
                texts.append(f"{times(s.ratio)} ({interval(s)}; {times(s.median)})")
            lines.append(f"| {CELLS[name]} |" + "|".join(texts) + "|")
        lines.append("")
    return "\n".join([*lines, "![map](map.png)\n"])


def map_figure(table: dict[str, Cell]) -> Figure:
    """The map as curves: speed-up against the cost of an update, one line a cell."""
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    for axes, reference in zip(figure.subplots(1, 2, sharey=True), REFERENCES, strict=True):
        for name, found in table.items():
            ratios = [found[reference, f"{cost:g}"].median or math.nan for cost in COSTS]
            axes.plot(COSTS, ratios, marker="o", label=CELLS[name])
        axes.axhline(1.0, color="#4D4D4D", lw=1.0)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("modelled seconds of update for a second of generation")
        axes.set_title(f"over {reference}")
    first = figure.axes[0]
    first.set_ylabel("median speed-up of PODS")
    first.legend(fontsize=7)
    return figure


def as_numbers(found: Cell) -> dict[str, Any]:
    """A cell as JSON."""
    return {
        f"{reference}, {label}": {
            "ratio": s.ratio,
            "low": s.low,
            "high": s.high,
            "median": s.median,
            "by_seed": s.by_seed,
        }
        for (reference, label), s in found.items()
    }


if __name__ == "__main__":
    try:
        main()
    except InvalidInputError as error:
        sys.exit(str(error))
