"""docs/results/methods.md and its figure, from the JSONs of the runs alone."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.evidence.harness import mean_accuracy, with_interval
from benchmarks.evidence.rows_settings import AUTHORS, SETTINGS
from podslab.report.curves import ArmCurves
from podslab.report.drawing import INK, render, style
from podslab.report.statistics import mean_over_seeds, speed_up
from podslab.report.summary import median
from podsrl.rollout_log.files import write_whole

Runs = Sequence[Mapping[str, Any]]

_HEAD = """# Methods that choose rollouts, at equal time

Every method trains the same model on the same problems for the same processor time of one thread,
with as many rows in each step, at the best of at least four learning rates. *Times as fast*: to
99 % of the best mean accuracy of the best GRPO, with the 95 % interval over seeds. *At the authors'
costs*: the same where generating a rollout takes 0.05 s and each pass over one 0.42 s. *Right*: on
held-out problems, on average over the run and at its end. `python -m benchmarks.methods --setting
NAME` runs a setting again, and `--only page` writes this page from the files of the runs. A method
is a file of six lines, as `benchmarks/methods/max_contrast.yaml`; yours is welcome.
"""


def write_page(folder: Path) -> None:
    """Write methods.md beside the folder, and a figure for each setting in it."""
    parts = [_HEAD]
    for setting in sorted(path for path in folder.iterdir() if path.is_dir()):
        runs = [json.loads(f.read_text()) for f in sorted(setting.glob("*-[0-9]*.json"))]
        by_method: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for run in runs:
            if "curve" in run:
                by_method[run["method"]].append(run)
        if by_method:
            parts.append(_section(setting, by_method))
    write_whole(folder.with_suffix(".md"), "\n".join(parts).encode())


def curves(runs: Runs) -> ArmCurves:
    """The curves of a method's runs."""

    def stacked(name: str) -> Any:
        longest = max(len(run["curve"][name]) for run in runs)
        values = [run["curve"][name] for run in runs]
        return np.array([one + [np.nan] * (longest - len(one)) for one in values], dtype=float)

    return ArmCurves(
        arm=runs[0]["method"],
        seeds=tuple(run["seed"] for run in runs),
        length=stacked("steps") * np.nan,
        **{name: stacked(name) for name in runs[0]["curve"]},
    )


def _section(folder: Path, by_method: Mapping[str, Runs]) -> str:
    found = {key: curves(runs) for key, runs in by_method.items()}
    over_run = {key: float(mean_accuracy(one).mean()) for key, one in found.items()}
    of_grpo = [key for key, runs in by_method.items() if runs[0].get("family") == "grpo"]
    grpo = max(of_grpo, key=over_run.__getitem__)
    first = by_method[grpo][0]
    replayed = {key: one.replay(AUTHORS) for key, one in found.items()}
    lines = [
        f"## {SETTINGS[folder.name].what.capitalize()}, {first['rows']} rows per step\n",
        f"{len(first['curve']['seconds'])} evaluations of {first['curve']['answers'][0]} answers,"
        f" {first['curve']['seconds'][-1]:.0f} s a run, {len(by_method[grpo])} seeds;"
        f" {first['cpu']}, one thread; commit {str(first['commit'])[:12]}.\n",
        f"![Accuracy over training time](methods/{folder.name}.png)\n",
        "| method | source | times as fast | median over seeds | authors' costs | right, over"
        " the run | at the end | rollouts a step | steps | rows without gradient | g/u |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for key in sorted(found, key=lambda key: -over_run[key]):
        runs, one = by_method[key], found[key]
        steps = float(np.nanmax(one.steps, axis=1).mean())
        per_step = np.mean([run["rollouts_generated"] for run in runs]) / steps
        fast = ["1", "", "1"]
        if key != grpo:
            measured = speed_up(found[grpo], one)
            at_costs = speed_up(replayed[grpo], replayed[key])
            fast = [with_interval(measured), median(measured), with_interval(at_costs)]
        end = np.mean([run["curve"]["accuracy"][-1] for run in runs])
        filler = np.mean([run["filler_share"] for run in runs])
        ratio = np.median([run["g_over_u"] for run in runs])
        lines.append(
            f"| {runs[0]['name']} | {runs[0]['source']} | {' | '.join(fast)} |"
            f" {over_run[key]:.1%} | {end:.0%} | {per_step:.0f} | {steps:.0f} | {filler:.0%} |"
            f" {ratio:.2f} |"
        )
    lines += ["", *_differences(by_method, found, over_run)]
    drawn = _figure(by_method, found, over_run, grpo)
    write_whole(folder.with_suffix(".png"), render(drawn, "png"))
    return "\n".join(lines) + "\n"


def _differences(
    by_method: Mapping[str, Runs], found: Mapping[str, ArmCurves], over_run: Mapping[str, float]
) -> list[str]:
    """What each ingredient gives: a method beside the one that it differs from in it alone."""
    lines = [
        "What each ingredient gives, from one method to the next:\n",
        "| ingredient | from | to | right, over the run | seed by seed |",
        "|---|---|---|---|---|",
    ]
    for key, runs in by_method.items():
        before = str(runs[0].get("neighbour"))
        if before in found:
            each = mean_accuracy(found[key]) - mean_accuracy(found[before])
            lines.append(
                f"| {runs[0]['adds']} | {before} | {key} | {over_run[before]:.1%} →"
                f" {over_run[key]:.1%} | {100 * each.min():+.1f} to {100 * each.max():+.1f} |"
            )
    return lines


def _figure(
    by_method: Mapping[str, Runs],
    found: Mapping[str, ArmCurves],
    over_run: Mapping[str, float],
    grpo: str,
) -> Figure:
    """Panels of at most three methods, each beside the best GRPO."""
    others = sorted((key for key in found if key != grpo), key=lambda key: -over_run[key])
    shares = [others[first : first + 3] for first in range(0, len(others), 3)]
    with style():
        drawn = Figure(figsize=(3.4 * len(shares), 3.6), layout="constrained")
        row = np.atleast_1d(drawn.subplots(1, len(shares), sharex=True, sharey=True))
        for axes, share in zip(row, shares, strict=True):
            for place, key in enumerate([grpo, *share]):
                seconds = mean_over_seeds(found[key].seconds)
                accuracy = 100 * mean_over_seeds(found[key].accuracy)
                color = INK if key == grpo else f"C{others.index(key) % 10}"
                dashes = ["-", "--", "-.", ":"][place]
                name = by_method[key][0]["name"]
                axes.plot(seconds, accuracy, dashes, color=color, label=name)
            axes.legend(fontsize=7.5, loc="lower left", bbox_to_anchor=(0.0, 1.0))
            axes.set_xlabel("seconds of training")
        row[0].set_ylabel("right, % of held-out problems")
    return drawn
