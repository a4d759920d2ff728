"""results/paper/page.md and its figures, from the JSON files of the runs alone."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from benchmarks.markdown import table
from benchmarks.paper.curves import Runs, accuracy_at, curves
from podslab.report.drawing import looks, render, style, wrapped
from podslab.report.summary import interval, median, speed
from podslab.statistics.speedup import speed_up
from podslab.training.config_file import read_config
from podsrl.rollout_log.files import write_whole

Floats = npt.NDArray[np.float64]

#: The comparisons, and what each is a small version of.
EXPERIMENTS = {
    "small-v1": "The first version's figure",
    "small-settings": "Settings (a) to (f)",
    "small-sizes": "How many are generated and kept",
    "small-rules": "Which are kept: the rules",
}
WORDS = {
    "grpo": "GRPO 16 → 16",
    "grpo_ga": "GRPO-GA 64 → 64",
    "pods": "PODS 64 → 16",
    "pods_32": "PODS 32 → 16",
    "m2": "PODS 64 → 2",
    "m4": "PODS 64 → 4",
    "m8": "PODS 64 → 8",
    "n128": "PODS 128 → 16",
    "n256": "PODS 256 → 16",
    "max_reward": "max-reward 64 → 16",
    "random": "random 64 → 16",
    "percentile": "percentile 64 → 16",
}
#: What each comparison measures the others against.
REFERENCES = {"small-rules": "pods"}

_HEAD = """# The paper's experiments, small: what came out

Sums of 2 to 7 columns, one prompt per step, a model of 800,000 parameters, 30 s of processor time
of one thread for each run. [The protocol](README.md) was written before. `python -m
benchmarks.paper` runs all of it, and `--only page` writes this page from the files in `runs/`.

*Right*: of 192 test problems, one answer each. So one evaluation is known to about 7 points (95 %),
and a mean over eight seeds to 2 or 3, by the answers alone. *Over the run*: the mean of the six
evaluations after the first. *±*: the standard deviation over seeds. *Times as fast*: to 99 % of the
best mean accuracy of the reference, with the 95 % interval over seeds; of two or three seeds it is
much too narrow. Thin lines are single seeds. Each comparison shows the seeds that all of its arms
have.
"""


def write_page(folder: Path) -> None:
    """Write page.md and a figure for each comparison into the folder.

    Args:
        folder: Holds runs/ARM-SEED.json, as `benchmarks.paper` writes them.
    """
    files = sorted((folder / "runs").glob("*.json"))
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    missing = json.loads((folder / "not-run.json").read_text(encoding="utf-8"))

    parts = [_HEAD]
    for name, title in EXPERIMENTS.items():
        config = read_config(f"compare/{name}")
        chosen = compared(runs, list(config["arms"]), config["seeds"])
        times = np.linspace(0, config["budget"]["training_seconds"], config["evaluations"] + 1)
        write_whole(folder / f"{name}.png", render(figure(chosen, times), "png"))
        parts.append(_section(name, title, chosen, times))
    parts.append(_list_of_runs(runs, missing))
    write_whole(folder / "page.md", "\n".join(parts).encode())


def compared(runs: Runs, arms: Sequence[str], seeds: Sequence[int]) -> dict[str, Runs]:
    """The runs of these arms, by arm, on the seeds that all of them have."""
    run_of = {(run["arm"], run["seed"]): run for run in runs}
    common = [seed for seed in seeds if all((arm, seed) in run_of for arm in arms)]

    by_arm: dict[str, Runs] = {}
    for arm in arms:
        by_arm[arm] = [run_of[arm, seed] for seed in common]
    return by_arm


def at_times(runs: Runs, times: Floats) -> Floats:
    """Accuracy at the times that were asked for, shape (S, T): an evaluation waits for its step."""
    return np.array([accuracy_at(run, times) for run in runs])


def figure(chosen: Mapping[str, Runs], times: Floats) -> Figure:
    """Accuracy over training time: a thick line for each arm's mean, a thin one for each seed."""
    with style():
        drawn = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = drawn.subplots()
        for arm, look in looks(chosen).items():
            accuracy_S_T = 100 * at_times(chosen[arm], times)
            for accuracy_T in accuracy_S_T:
                axes.plot(times, accuracy_T, color=look.color, lw=0.6, alpha=0.45)
            axes.plot(
                times,
                accuracy_S_T.mean(axis=0),
                color=look.color,
                ls=look.dashes,
                marker=look.marker,
                label=wrapped(WORDS[arm], 20),
            )

        axes.set_xlabel("training time (s of one thread)")
        axes.set_ylabel("right (%)")
        axes.set_ylim(bottom=0)
        drawn.legend(loc="outside lower center", ncols=3, fontsize=9)
    return drawn


def _section(name: str, title: str, chosen: Mapping[str, Runs], times: Floats) -> str:
    reference = REFERENCES.get(name, "grpo")
    seeds = ", ".join(str(run["seed"]) for run in chosen[reference])
    lines = [
        f"## {title}",
        "",
        f"`pods compare --config compare/{name}`, seeds {seeds}.",
        "",
        f"![Accuracy over training time]({name}.png)",
        "",
        *_arms(chosen, reference),
        "",
        "Right, in %, mean over seeds; the highest of each time is bold:",
        "",
        *_who_leads_when(chosen, times),
        "",
    ]
    return "\n".join(lines)


def _arms(chosen: Mapping[str, Runs], reference: str) -> list[str]:
    """The table of what each arm reached."""
    heads = ["arm", "learning rate", "steps", "right at the end", "of each seed", "over the run"]
    heads.append(f"times as fast as {WORDS[reference]}")
    heads.append("median of single seeds")

    curves_of_reference = curves(reference, chosen[reference])
    rows = []
    for arm, runs in chosen.items():
        curves_of_arm = curves(arm, runs)
        end_S = np.array([run["curve"]["accuracy"][-1] for run in runs])
        over_run_S = np.array([np.mean(run["curve"]["accuracy"][1:]) for run in runs])
        steps_S = np.array([run["curve"]["steps"][-1] for run in runs])

        times_as_fast = median_of_seeds = "reference"
        if arm != reference:
            speedup = speed_up(curves_of_reference, curves_of_arm)
            times_as_fast = f"{speed(speedup)} ({interval(speedup)})"
            median_of_seeds = median(speedup)

        rows.append(
            [
                WORDS[arm],
                f"{runs[0]['learning_rate']:g}",
                f"{steps_S.mean():.0f}",
                _mean_and_spread(end_S),
                " ".join(f"{100 * end:.0f}" for end in end_S),
                _mean_and_spread(over_run_S),
                times_as_fast,
                median_of_seeds,
            ]
        )
    return table(heads, rows)


def _who_leads_when(chosen: Mapping[str, Runs], times: Floats) -> list[str]:
    """The table of the mean accuracies at each time."""
    mean_A_T = np.array([100 * at_times(runs, times).mean(axis=0) for runs in chosen.values()])
    highest_T = mean_A_T.max(axis=0)

    rows = []
    for arm, mean_T in zip(chosen, mean_A_T, strict=True):
        cells = [WORDS[arm]]
        for mean, highest in zip(mean_T, highest_T, strict=True):
            cells.append(f"**{mean:.0f}**" if mean == highest else f"{mean:.0f}")
        rows.append(cells)

    return table(["after", *(f"{time:g} s" for time in times)], rows)


def _mean_and_spread(values_S: Floats) -> str:
    """The mean in % with the standard deviation over seeds, where there are several."""
    mean = f"{100 * np.mean(values_S):.1f}"
    if len(values_S) == 1:
        return f"{mean} %"
    return f"{mean} ± {100 * np.std(values_S, ddof=1):.1f} %"


def _list_of_runs(runs: Runs, missing: Sequence[Mapping[str, Any]]) -> str:
    phases = ("generate", "score", "select", "update")
    heads = ["arm", "seed", "commit", "steps", *phases, "on the clock", "right"]
    rows = []
    for run in runs:
        curve = run["curve"]
        rows.append(
            [
                WORDS[run["arm"]],
                str(run["seed"]),
                run["commit"][:10],
                str(curve["steps"][-1]),
                *(f"{run['seconds'][phase]:.1f}" for phase in phases),
                f"{run['wall_seconds']:.0f} s",
                f"{100 * curve['accuracy'][-1]:.1f} %",
            ]
        )

    machines = ", ".join(sorted({run["cpu"] for run in runs}))
    lines = [
        "## All runs",
        "",
        "Every run that was started, with the seconds of processor time of its phases, and how"
        f" long its training took on the clock. {machines}, one thread.",
        "",
        *table(heads, rows),
        "",
    ]
    if missing:
        lines += ["Of the protocol, without a result:", ""]
        for run in missing:
            lines.append(f"* {WORDS[run['arm']]}, seed {run['seed']}: {run['state']}")
        lines.append("")
    return "\n".join(lines)
