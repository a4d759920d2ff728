"""results/demo: what `pods demo` printed and drew, from the runs that it left.

    python -m benchmarks.demo --note "The two cores were free." runs/demo runs/demo-smollm2

Without a folder it writes the page of results/demo anew.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.folders import RESULTS
from podslab.cli.demo import summary
from podslab.comparison.comparison import read_comparison
from podslab.report.arm_rows import LABELS, ArmRow, arm_rows
from podslab.report.load_runs import Choices, Comparison, load_comparison
from podslab.statistics.curves import ArmCurves, Floats
from podsrl.rollout_log.files import write_json, write_whole

FOLDER = RESULTS / "demo"
_HEAD = """# The demo, as it was run

What `pods demo` printed. Sizes, seeds and rates were fixed before the first run.
`python -m benchmarks.demo` writes this page from the files beside it. Shares are of
right answers to held-out questions. The least and the most over seeds stand in brackets.
"""


def main() -> None:
    """Condense the folders that are named, and write the page of all that there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--note", default="", help="what there is to say of the machine")
    args = parser.parse_args()

    for folder in args.folders:
        write_json(FOLDER / f"{folder.name}.json", condense(folder, args.note))

    condensed_demos = {}
    for file in sorted(FOLDER.glob("*.json")):
        condensed_demos[file.stem] = json.loads(file.read_text(encoding="utf-8"))
    write_whole(FOLDER / "README.md", page(condensed_demos).encode())


def page(condensed_demos: Mapping[str, Mapping[str, Any]]) -> str:
    """The page of demos by name, each as `condense` gives it."""
    sections = [section(name, condensed) for name, condensed in condensed_demos.items()]
    return "\n".join([_HEAD, *sections])


def condense(folder: Path, note: str) -> dict[str, Any]:
    """The numbers of the demo that a folder holds, and what there is to say of the machine."""
    spec = read_comparison(folder)
    comparison = load_comparison([folder], Choices())
    environment = comparison.runs[0].environments[0]
    labels = {arm: LABELS.get(arm, arm) for arm in spec.arms}
    return {
        "seconds": spec.amount,
        "seeds": list(spec.seeds),
        "commit": (environment.get("git") or {}).get("commit"),
        "cpu": f"{environment.get('cpu')}, {environment.get('cores')} cores",
        "note": note,
        "versions": environment.get("versions"),
        "arms": [asdict(arm) for arm in arm_rows(comparison, labels)],
        "curves": _curves(comparison),
    }


def _curves(comparison: Comparison) -> dict[str, list[dict[str, Any]]]:
    """The results of every evaluation of every run, by arm."""
    curves: dict[str, list[dict[str, Any]]] = {}
    for run in comparison.runs:
        points = run.evaluations
        curve = {
            "seed": run.seed,
            "steps": [point.step for point in points],
            "seconds": [round(point.training_seconds, 3) for point in points],
            "generated": [point.rollouts_generated for point in points],
            "trained": [point.rollouts_trained for point in points],
            "accuracy": [point.mean(comparison.measure) for point in points],
        }
        curves.setdefault(run.arm, []).append(curve)
    return curves


def section(name: str, condensed: Mapping[str, Any]) -> str:
    """A section of the page: what was printed of all seeds together, and of each."""
    arms = [ArmRow(**arm) for arm in condensed["arms"]]
    commit = str(condensed["commit"])[:12]
    lines = [
        f"## {name}",
        "",
        f"{condensed['cpu']}; commit {commit}. {condensed['note']}",
        "",
        *_printed(arms, condensed["seconds"], condensed["curves"]),
    ]

    seeds = condensed["seeds"]
    if len(seeds) > 1:
        for place, seed in enumerate(seeds):
            arms_of_seed = [_of_seed(arm, place) for arm in arms]
            curves = {arm: [runs[place]] for arm, runs in condensed["curves"].items()}
            lines += [f"Seed {seed}:", "", *_printed(arms_of_seed, condensed["seconds"], curves)]
    return "\n".join(lines)


def _of_seed(arm: ArmRow, place: int) -> ArmRow:
    """The same arm with the seed at this place alone."""
    return replace(
        arm,
        steps=[arm.steps[place]],
        start=[arm.start[place]],
        early=[arm.early[place]],
        end=[arm.end[place]],
        generating=[arm.generating[place]],
        updating=[arm.updating[place]],
    )


def _printed(
    arms: Sequence[ArmRow], seconds: float, curves: Mapping[str, Sequence[Any]]
) -> list[str]:
    of_arms = {arm: _arm_curves(arm, runs, arms[0].answers) for arm, runs in curves.items()}
    return ["```", summary(arms, seconds, of_arms), "```", ""]


def _arm_curves(arm: str, runs: Sequence[Mapping[str, Any]], answers: int) -> ArmCurves:
    """The curves of an arm, from what `_curves` kept."""

    def table(name: str) -> Floats:
        return np.array([run[name] for run in runs], dtype=float)

    accuracy = table("accuracy")
    return ArmCurves(
        arm=LABELS.get(arm, arm),
        seeds=tuple(run["seed"] for run in runs),
        steps=table("steps"),
        seconds=table("seconds"),
        generated=table("generated"),
        trained=table("trained"),
        accuracy=accuracy,
        length=np.full_like(accuracy, np.nan),
        answers=np.full_like(accuracy, answers),
    )


if __name__ == "__main__":
    main()
