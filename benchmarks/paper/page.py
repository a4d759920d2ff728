"""results/paper/page.md and its figures, from the JSON files of the runs alone."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from podslab.report.curves import ArmCurves
from podslab.report.drawing import looks, render, style, wrapped
from podslab.report.statistics import speed_up
from podslab.report.summary import interval, median, speed
from podslab.training.config_file import read_config
from podsrl.rollout_log.files import write_whole

Run = Mapping[str, Any]
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

*Right*: of 192 test problems, one answer each. With so many a single evaluation is known to about
7 points, and a mean of three to about 4 (95 %). *Over the run*: the mean of the six evaluations
after the first. *±*: the standard deviation over seeds. *Times as fast*: to 99 % of the best mean
accuracy of the reference, with the 95 % interval over seeds; of three seeds it is too narrow. Thin
lines are single seeds.
"""


def write_page(folder: Path) -> None:
    """Write page.md and a figure for each comparison into the folder.

    Args:
        folder: Holds runs/ARM-SEED.json, as `benchmarks.paper` writes them.
    """
    files = sorted((folder / "runs").glob("*.json"))
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in files]

    parts = [_HEAD]
    for name, title in EXPERIMENTS.items():
        config = read_config(f"compare/{name}")
        chosen = {
            arm: [run for run in runs if run["arm"] == arm and run["seed"] in config["seeds"]]
            for arm in config["arms"]
        }
        chosen = {arm: of_arm for arm, of_arm in chosen.items() if of_arm}
        if not chosen:
            continue
        write_whole(folder / f"{name}.png", render(figure(chosen), "png"))
        parts.append(_section(name, title, chosen))
    parts.append(_list_of_runs(runs))
    write_whole(folder / "page.md", "\n".join(parts).encode())


def curves(arm: str, runs: Sequence[Run]) -> ArmCurves:
    """The evaluations of an arm's runs, shape (S, T)."""

    def stacked(name: str) -> Floats:
        return np.array([run["curve"][name] for run in runs], dtype=float)

    return ArmCurves(
        arm=arm,
        seeds=tuple(run["seed"] for run in runs),
        steps=stacked("steps"),
        seconds=stacked("seconds"),
        generated=stacked("generated"),
        trained=stacked("trained"),
        accuracy=stacked("accuracy"),
        length=stacked("steps") * np.nan,
        answers=stacked("answers"),
    )


def at_points(runs: Sequence[Run]) -> Floats:
    """Accuracy at the times that were asked for, shape (S, T): an evaluation waits for its step."""
    points = len(runs[0]["curve"]["seconds"])
    times = np.linspace(0.0, runs[0]["budget_seconds"], points)
    return np.array([np.interp(times, r["curve"]["seconds"], r["curve"]["accuracy"]) for r in runs])


def figure(chosen: Mapping[str, Sequence[Run]]) -> Figure:
    """Accuracy over training time: a thick line for each arm's mean, a thin one for each seed."""
    with style():
        drawn = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = drawn.subplots()
        for arm, look in looks(chosen).items():
            accuracy_S_T = 100 * at_points(chosen[arm])
            times = np.linspace(0, chosen[arm][0]["budget_seconds"], accuracy_S_T.shape[1])
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


def _section(name: str, title: str, chosen: Mapping[str, Sequence[Run]]) -> str:
    reference = REFERENCES.get(name, "grpo")
    seeds = sorted({run["seed"] for runs in chosen.values() for run in runs})
    lines = [
        f"## {title}",
        "",
        f"`pods compare --config compare/{name}`, seeds {', '.join(map(str, seeds))}.",
        "",
        f"![Accuracy over training time]({name}.png)",
        "",
    ]

    # The table of arms.
    heads = ["arm", "learning rate", "steps", "right at the end", "of each seed", "over the run"]
    heads.append(f"times as fast as {WORDS[reference]}")
    heads.append("median of single seeds")
    rows = []
    against = curves(reference, chosen[reference])
    for arm, runs in chosen.items():
        own = curves(arm, runs)
        end_S, over_run_S = own.accuracy[:, -1], own.accuracy[:, 1:].mean(axis=1)
        found = None if arm == reference else speed_up(against, own)
        rows.append(
            [
                WORDS[arm],
                f"{runs[0]['learning_rate']:g}",
                f"{own.steps[:, -1].mean():.0f}",
                _mean_and_spread(end_S),
                " ".join(f"{100 * value:.0f}" for value in end_S),
                _mean_and_spread(over_run_S),
                "reference" if found is None else f"{speed(found)} ({interval(found)})",
                "reference" if found is None else median(found),
            ]
        )
    lines += _table(heads, rows)

    # Who leads when.
    means = {arm: 100 * at_points(runs).mean(axis=0) for arm, runs in chosen.items()}
    longest = next(iter(chosen.values()))[0]["budget_seconds"]
    times = np.linspace(0, longest, len(next(iter(means.values()))))
    highest_T = np.max(list(means.values()), axis=0)
    rows = [
        [
            WORDS[arm],
            *(
                f"**{value:.0f}**" if value == high else f"{value:.0f}"
                for value, high in zip(mean_T, highest_T, strict=True)
            ),
        ]
        for arm, mean_T in means.items()
    ]
    lines += ["", "Right, in %, mean over seeds; the highest of each time is bold:", ""]
    lines += _table(["after", *(f"{time:g} s" for time in times)], rows)
    return "\n".join([*lines, ""])


def _mean_and_spread(values_S: Floats) -> str:
    """The mean in % with the standard deviation over seeds."""
    spread = f" ± {100 * np.std(values_S, ddof=1):.1f}" if len(values_S) > 1 else ""
    return f"{100 * np.mean(values_S):.1f}{spread} %"


def _list_of_runs(runs: Sequence[Run]) -> str:
    heads = ["arm", "seed", "commit", "steps", "generate", "score", "select", "update"]
    heads += ["on the clock", "right"]
    rows = []
    for run in runs:
        seconds, curve = run["seconds"], run["curve"]
        rows.append(
            [
                WORDS[run["arm"]],
                str(run["seed"]),
                run["commit"][:10],
                str(curve["steps"][-1]),
                *(f"{seconds[phase]:.1f}" for phase in ("generate", "score", "select", "update")),
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
    ]
    return "\n".join([*lines, *_table(heads, rows), ""])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]
