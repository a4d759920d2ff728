"""results/demo: what `pods demo` printed and drew, from the runs that it left.

    python -m benchmarks.demo --note "The two cores were free." runs/demo runs/demo-smollm2

Without a folder it writes the page of results/demo anew.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from podslab.cli.demo import summary
from podslab.report.arms_in_words import LABELS, ArmInWords, arms_in_words
from podslab.report.load_runs import Choices, Comparison, load_comparison
from podsrl.rollout_log.files import write_json, write_whole

FOLDER = Path("results/demo")
_TITLE = """# The demo, as it was run

What `pods demo` printed. Sizes, seeds and rates were fixed before the first run.
`python -m benchmarks.demo` writes this page from the files beside it. Shares are of
right answers to held-out questions. The least and the most over seeds stand in brackets.
"""
_PER_SEED = ("steps", "start", "early", "end", "generating", "updating")


def condense(folder: Path, note: str) -> dict[str, Any]:
    """The numbers of the demo that a folder holds, and what there is to say of the machine."""
    from podslab.comparison.comparison import read_comparison

    spec = read_comparison(folder)
    comparison = load_comparison([folder], Choices())
    environment = comparison.runs[0].environments[0]
    arms = arms_in_words(comparison, {arm: LABELS.get(arm, arm) for arm in spec.arms})
    return {
        "seconds": spec.amount,
        "seeds": list(spec.seeds),
        "commit": (environment.get("git") or {}).get("commit"),
        "cpu": f"{environment.get('cpu')}, {environment.get('cores')} cores",
        "note": note,
        "versions": environment.get("versions"),
        "arms": [asdict(arm) for arm in arms],
        "curves": _curves(comparison),
    }


def _curves(comparison: Comparison) -> dict[str, list[dict[str, Any]]]:
    """What every evaluation of every run found, by arm."""
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


def page(name: str, found: Mapping[str, Any]) -> str:
    """A section of the page: the table of all seeds together, and of each."""
    arms = [
        ArmInWords(**{field.name: arm[field.name] for field in fields(ArmInWords)})
        for arm in found["arms"]
    ]
    commit = str(found["commit"])[:12]
    parts = [f"## {name}", "", f"{found['cpu']}; commit {commit}. {found['note']}", ""]
    parts += _block(arms, found["seconds"])
    if len(found["seeds"]) > 1:
        for place, seed in enumerate(found["seeds"]):
            parts += [
                f"Seed {seed}:",
                "",
                *_block([_of_seed(arm, place) for arm in arms], found["seconds"]),
            ]
    return "\n".join(parts)


def _of_seed(arm: ArmInWords, place: int) -> ArmInWords:
    of_seed: dict[str, Any] = {name: [getattr(arm, name)[place]] for name in _PER_SEED}
    return replace(arm, **of_seed)


def _block(arms: list[ArmInWords], seconds: float) -> list[str]:
    return ["```", summary(arms, seconds), "```", ""]


def main() -> None:
    """Condense the folders that are named, and write the page of all that there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--note", default="", help="what there is to say of the machine")
    args = parser.parse_args()

    for folder in args.folders:
        write_json(FOLDER / f"{folder.name}.json", condense(folder, args.note))
    files = sorted(FOLDER.glob("*.json"))
    sections = [page(file.stem, json.loads(file.read_text(encoding="utf-8"))) for file in files]
    write_whole(FOLDER / "README.md", "\n".join([_TITLE, *sections]).encode())


if __name__ == "__main__":
    main()
