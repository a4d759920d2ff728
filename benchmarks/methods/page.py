"""results/methods.md and its figure, from the JSONs of the runs alone."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from benchmarks.evidence.harness import with_interval
from benchmarks.evidence.rows_settings import AUTHORS, SETTINGS
from benchmarks.methods import costs
from podslab.report.curves import ArmCurves
from podslab.report.drawing import INK, OKABE_ITO, SOFT, TOL, render, style
from podslab.report.statistics import Speedup, mean_over_seeds, speed_up
from podslab.report.summary import median
from podsrl.rollout_log.files import write_json, write_whole

Runs = Sequence[Mapping[str, Any]]
#: One colour for a rule in every figure; other methods are grey, and the reference is black.
COLOURS = {
    **dict.fromkeys(("max_contrast", "max_contrast-4", "max_contrast-8"), OKABE_ITO[2]),
    **{"max_contrast-group": OKABE_ITO[5], "max_contrast-quarter": TOL[2]},
    **{"top_advantage": OKABE_ITO[0], "pods": OKABE_ITO[1], "balanced": OKABE_ITO[3]},
    **{"advantage_variance": OKABE_ITO[4], "variance_top_p": OKABE_ITO[6]},
    **{"grpo-2": TOL[0], "grpo-filter-rest": TOL[1], "grpo-filter-spare": TOL[3]},
    **{"grpo-filter-spare-4": TOL[3], "best-4": OKABE_ITO[5]},
}

#: The sets of questions for the pretrained model, from easy to hard; and by the likeliest answers,
#: on a CPU and on a GPU.
SETS = ("answers-easy", "answers-middle", "answers-hard")
GREEDILY = ("answers-easy-greedy", "answers-greedy", "answers-hard-greedy")
ON_GPU = ("gpu-easy", "gpu-middle", "gpu-hard")
#: What was run on a GPU, by the first word of its name: of each family what screening had first.
_FAMILIES = {
    "best": ("best-4", "best of 4 rollouts per prompt"),
    "max_contrast": ("max_contrast-4", "max_contrast, the best of 6 variants"),
    "pods": ("pods", "PODS, the better of 2"),
    "grpo": ("grpo-8", "GRPO, the best of 7 variants"),
}

_HEAD = """# Methods that choose rollouts, at equal time

Every method trains the same model on the same problems for the same processor time of one thread,
with as many rows in each step, at the best of at least four learning rates where the heading says
nothing else. On a GPU it is wall time, shared by several runs; a name says where rows are
more. *Times as fast*: to 99 % of the best mean accuracy of the best GRPO, with the 95 % interval
over seeds. GRPO that spares passes without gradient counts as GRPO, and 2-GRPO does. *At
the authors' costs*: over the best GRPO that spares passes, where generating a rollout takes 0.05 s
and a pass over a row 0.42 s; such runs end at different times, and a level counts whenever it is
reached. There and in g/u only passes count that this version makes, and one that only goes forward,
for old log-probabilities, is a third. *Right*: on held-out problems, on average over the run and at
its end. `python -m benchmarks.methods --setting NAME` runs a setting again, and `--only page`
writes this page from the files of the runs. A method is a file of six lines, as
`benchmarks/methods/max_contrast.yaml`; yours is welcome.
"""

_COSTS = """*Times as fast as the best GRPO that spares passes, where generating a rollout takes g/u
times a pass over a row: the same runs, replayed. Dashed, in a method's colour: what the model
behind `pods recommend` predicts from the pass rates before training, where a step itself costs
nothing. No point: the level of GRPO is not reached.*"""


def write_page(folder: Path) -> None:
    """Write methods.md and methods.json beside the folder, and a figure for each setting in it."""
    parts, found = [_HEAD], {}
    every: dict[str, dict[str, Runs]] = {}
    for setting in sorted(path for path in folder.iterdir() if path.is_dir()):
        runs = [json.loads(f.read_text()) for f in sorted(setting.glob("*-[0-9]*.json"))]
        by_method: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for run in runs:
            if "curve" in run:
                by_method[run["method"]].append(run)
        if by_method:
            found[setting.name] = summary(setting.name, by_method)
            every[setting.name] = {**by_method}
            parts.append(_section(setting.name, by_method, found[setting.name]))
            drawn = {"": figure(by_method, found[setting.name])}
            if setting.name in costs.RATES:
                names = {key: of[0]["name"] for key, of in by_method.items()}
                times, rows = (found[setting.name][what] for what in ("by_cost", "rows"))
                drawn["-costs"] = costs.figure(times, names, costs.predicted(setting.name, rows))
            for which, one in drawn.items():
                write_whole(folder / f"{setting.name}{which}.png", render(one, "png"))
    for file, panels in (("answers.png", GREEDILY), ("gpu.png", ON_GPU)):
        sets = {name: every[name] for name in panels if name in every}
        if file == "gpu.png":
            sets = {name: by_family(of, found[name]) for name, of in sets.items()}
        if sets:
            write_whole(folder / file, render(figure_of_sets(sets), "png"))
    write_json(folder.with_suffix(".json"), found)
    write_whole(folder.with_suffix(".md"), "\n".join(parts).encode())


def passes(run: Mapping[str, Any]) -> float:
    """The passes over a kept row on average: `num_iterations`, but for fillers that are skipped.

    That for old log-probabilities, which steps after the first of a generation need, goes forward
    only: a third. It is spared, too, as earlier versions did not, which counted no passes.
    """
    config = {"num_iterations": 1, **SETTINGS[run["setting"]].settings, **run["arm"]}
    times, several = config["num_iterations"], config.get("steps_per_generation", 1) > 1
    forward = (times > 1 or several) / 3
    if not config.get("skip_zero_advantage"):
        return times + forward
    least = run["curve"]["steps"][-1] / times / run["rows_trained"]  # one row of each step
    share = run.get("share_passed", max(1.0 - run["filler_share"], least))
    return share * (times + forward)


def at_equal_times(run: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Its accuracy at the times of evaluation that were asked for, as one waits for its step."""
    setting, curve = SETTINGS[run["setting"]], run["curve"]
    times = np.linspace(0.0, setting.seconds, setting.evaluations + 1)
    return np.interp(times, curve["seconds"], curve["accuracy"])


def curves(runs: Runs) -> ArmCurves:
    """The curves of a method's runs; trained: the passes over rows."""

    def stacked(name: str) -> Any:
        longest = max(len(run["curve"][name]) for run in runs)
        values = [run["curve"][name] for run in runs]
        return np.array([one + [np.nan] * (longest - len(one)) for one in values], dtype=float)

    fields = {name: stacked(name) for name in runs[0]["curve"]}
    fields["trained"] *= np.array([[passes(run)] for run in runs])
    seeds = tuple(run["seed"] for run in runs)
    return ArmCurves(runs[0]["method"], seeds, length=fields["steps"] * np.nan, **fields)


def is_grpo(arm: Mapping[str, Any]) -> bool:
    """Whether it is GRPO: what is generated is trained on, but for passes without gradient.

    With 2 rollouts, as 2-GRPO has it, too.
    """
    same = arm["num_rollouts"] == arm["num_generations"]
    return same and "prompt_selection" not in arm


def is_trls(arm: Mapping[str, Any]) -> bool:
    """Whether it is GRPO as TRL has it, which makes all passes."""
    return is_grpo(arm) and not arm.get("skip_zero_advantage")


def summary(setting: str, by_method: Mapping[str, Runs]) -> dict[str, Any]:
    """What the runs of a setting show, as plain values; methods by what they learned."""
    found = {key: curves(runs) for key, runs in by_method.items()}
    timely = {key: np.array([at_equal_times(run) for run in of]) for key, of in by_method.items()}
    over_run = {key: one[:, 1:].mean(axis=1) for key, one in timely.items()}
    order = sorted(found, key=lambda key: -float(over_run[key].mean()))
    grpos = [key for key in order if is_grpo(by_method[key][0]["arm"])]
    trls = [key for key in grpos if is_trls(by_method[key][0]["arm"])]
    grpo, cheap = grpos[0], next((key for key in grpos if key not in trls), grpos[0])
    methods: dict[str, Any] = {}
    for key in order:
        runs, one = by_method[key], found[key]
        steps = float(np.nanmax(one.steps, axis=1).mean())
        fast = None if key == grpo else asdict(speed_up(found[grpo], one))
        replayed = found[cheap].replay(AUTHORS), one.replay(AUTHORS)
        at_costs = None if key == cheap else asdict(speed_up(*replayed))
        methods[key] = {
            "name": runs[0]["name"],
            "source": runs[0]["source"],
            "fast": fast,
            "at_costs": at_costs,
            "first_over_it": asdict(speed_up(one, found[order[0]])) if key != order[0] else None,
            "over_run": over_run[key].tolist(),
            "end": timely[key][:, -1].mean(),
            "ends": timely[key][:, -1].tolist(),
            "rollouts": np.mean([run["rollouts_generated"] for run in runs]) / steps,
            "steps": steps,
            "fillers": np.mean([run["filler_share"] for run in runs]),
            "g_over_u": np.median([run["g_over_u"] * passes(run) for run in runs]),
            "seeds": len(runs),
        }
        if all("kinds" in run for run in runs):
            methods[key]["kinds"] = _kinds([run["kinds"] for run in runs])
    what: dict[str, Any] = {
        "what": SETTINGS[setting].what,
        "rows": SETTINGS[setting].rows,
        "reference": grpo,
    }
    what["start"] = float(timely[grpo][:, 0].mean())
    if setting in costs.RATES or setting in SETS:
        what["by_cost"] = costs.replayed(found, cheap)
        what["by_cost_over_trls"] = costs.replayed(found, trls[0])
    if setting in ON_GPU:  # over the best GRPO at each cost, as if each spared passes, too
        over = [
            costs.replayed({"best-4": found["best-4"], key: curves(list(map(_sparing, runs)))}, key)
            for key, runs in by_method.items()
            if key in grpos
        ]
        least = {g: min(one["best-4"][g] or 0.0 for one in over) for g in over[0]["best-4"]}
        what["by_cost"] = {"best-4": least}
    return {**what, "methods": methods}


def _sparing(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """The run as if its passes without gradient had been spared."""
    if run["arm"].get("skip_zero_advantage"):
        return run
    others = {name: value for name, value in run.items() if name != "share_passed"}
    return {**others, "arm": {**run["arm"], "skip_zero_advantage": True}}


def _kinds(of_runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Of each kind of questions the means over runs, of what all of them have."""
    found: dict[str, dict[str, float]] = {}
    for kind, own in of_runs[0].items():
        common = [when for when in own if all(when in kinds[kind] for kinds in of_runs)]
        found[kind] = {when: np.mean([kinds[kind][when] for kinds in of_runs]) for when in common}
    return found


def _section(setting: str, by_method: Mapping[str, Runs], found: Mapping[str, Any]) -> str:
    first, methods = by_method[found["reference"]][0], found["methods"]
    seeds = methods[found["reference"]]["seeds"]
    hardware = first.get("gpu") or f"{first['cpu']}, one thread"
    commits = sorted({str(run["commit"])[:12] for runs in by_method.values() for run in runs})
    lines = [
        f"## {found['what'][0].upper()}{found['what'][1:]}, {found['rows']} rows per step\n",
        f"{len(first['curve']['seconds'])} evaluations of {first['curve']['answers'][0]} answers,"
        f" {SETTINGS[first['setting']].seconds} s a run, {seeds} seeds; {hardware};"
        f" commits {', '.join(commits)}.\n",
        f"![Accuracy over training time](methods/{setting}.png)\n",
        "*A line is a method, the mean of its seeds; higher and further left is better. Every panel"
        " has the best GRPO in black.*\n",
        "| method | source | times as fast | median over seeds | authors' costs | right, over"
        " the run | at the end | rollouts a step | steps | rows without gradient | g/u |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in methods.values():
        measured, at_costs = (one[of] and Speedup(**one[of]) for of in ("fast", "at_costs"))
        fast = [with_interval(measured), median(measured)] if measured else ["1", ""]
        fast.append(with_interval(at_costs) if at_costs else "1")
        lines.append(
            f"| {one['name']} | {one['source']} | {' | '.join(fast)} |"
            f" {np.mean(one['over_run']):.1%} | {one['end']:.0%} | {one['rollouts']:.0f} |"
            f" {one['steps']:.0f} | {one['fillers']:.0%} | {one['g_over_u']:.2f} |"
        )
    if setting in costs.RATES:
        lines += [f"\n![Times as fast over g/u](methods/{setting}-costs.png)\n", _COSTS]
    return "\n".join([*lines, "", *_differences(by_method, methods)]) + "\n"


def _differences(by_method: Mapping[str, Runs], methods: Mapping[str, Any]) -> list[str]:
    """What each ingredient gives: a method beside the one that it differs from in it alone."""
    lines = [
        "What each ingredient gives, from one method to the next:\n",
        "| ingredient | from | to | right, over the run | seed by seed |",
        "|---|---|---|---|---|",
    ]
    right = {
        key: {
            run["seed"]: 100 * one for run, one in zip(runs, methods[key]["over_run"], strict=True)
        }
        for key, runs in by_method.items()
    }
    for key, runs in by_method.items():
        before = str(runs[0].get("neighbour"))
        if before in right:
            both = [seed for seed in right[key] if seed in right[before]]
            old, new = (np.array([right[one][seed] for seed in both]) for one in (before, key))
            lines.append(
                f"| {runs[0]['adds']} | {before} | {key} | {old.mean():.1f}% → {new.mean():.1f}% |"
                f" {(new - old).min():+.1f} to {(new - old).max():+.1f} |"
            )
    return lines


def figure(by_method: Mapping[str, Runs], found: Mapping[str, Any]) -> Figure:
    """Panels of at most three methods, each beside the best GRPO; two panels in a row."""
    grpo = found["reference"]
    others = [key for key in found["methods"] if key != grpo]
    shares = [others[first : first + 3] for first in range(0, len(others), 3)]
    lines, beside = -(-len(shares) // 2), min(2, len(shares))
    with style():
        drawn = Figure(figsize=(4.2 * beside, 3.9 * lines), layout="constrained")
        panels = np.atleast_1d(drawn.subplots(lines, beside, sharey=True)).ravel()
        for axes, share in zip(panels, shares, strict=False):
            _lines(axes, {key: by_method[key] for key in (grpo, *share)}, {grpo: INK})
            axes.legend(fontsize=7.5, loc="lower right")
        for axes in panels[len(shares) :]:
            axes.remove()
    return drawn


def by_family(by_method: Mapping[str, Runs], found: Mapping[str, Any]) -> dict[str, Runs]:
    """Of each family the best method that was run, under the family's name and in its colour."""
    shown: dict[str, Runs] = {}
    for key in found["methods"]:  # the best first
        family = "grpo" if is_grpo(by_method[key][0]["arm"]) else key.partition("-")[0]
        coloured, name = _FAMILIES[family]
        shown.setdefault(coloured, [{**run, "name": name} for run in by_method[key]])
    return shown


def figure_of_sets(by_set: Mapping[str, Mapping[str, Runs]]) -> Figure:
    """A panel for each set of questions, with a line for each method that was run on all."""
    common = sorted(set.intersection(*(set(of) for of in by_set.values())))
    with style():
        drawn = Figure(figsize=(3.9 * len(by_set), 3.9), layout="constrained")
        row = np.atleast_1d(drawn.subplots(1, len(by_set)))
        for axes, (name, by_method) in zip(row, by_set.items(), strict=True):
            own = {key: by_method[key] for key in common}
            _lines(axes, own, {"grpo-8": INK})
            axes.set_title(SETTINGS[name].what.split(", ")[1], fontsize=10)
        lines = {line.get_label(): line for line in row[0].lines}
        drawn.legend(handles=[*lines.values()], fontsize=9, loc="outside upper left", ncols=4)
    return drawn


def _lines(axes: Any, by_method: Mapping[str, Runs], own: Mapping[str, str] | None = None) -> None:
    for place, (key, runs) in enumerate(by_method.items()):
        one, rule = curves(runs), key.partition("-steps")[0].partition("-thompson")[0]
        seconds, right = mean_over_seeds(one.seconds), mean_over_seeds(one.accuracy)
        colour = (own or {}).get(key, COLOURS.get(rule, SOFT))
        look = {"color": colour, "ls": ["-", "--", "-.", ":"][place % 4]}
        axes.plot(seconds, 100 * right, label=fill(runs[0]["name"], 36), **look)
    axes.set(xlabel="seconds of training", ylabel="right, % of held-out problems", xlim=0)
