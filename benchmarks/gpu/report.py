"""The results: numbers as JSON, a page in Markdown, and figures; whole after every part."""

import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.comparison import ARMS, COMPARISONS, phases
from podslab.report.drawing import render
from podslab.report.figures import draw
from podslab.report.load_runs import Choices, load_comparison
from podslab.report.summary import as_json, as_markdown, memory, summarise
from podsrl.errors import PodsError
from podsrl.rollout_log.files import write_json, write_whole

_TITLES = {
    "main": "GRPO, GRPO-GA and PODS at equal training time",
    "expensive": "An expensive update: two passes over the rollouts, gradient checkpointing",
}
_FIGURES = ("accuracy", "seconds_per_step")


@dataclass
class Results:
    """Everything measured so far, and where it is written."""

    folder: Path
    values: dict[str, Any] = field(default_factory=dict)

    def write(self) -> None:
        """Write summary.json and README.md as far as there is something to say."""
        write_json(self.folder / "summary.json", self.values)
        write_whole(self.folder / "README.md", self._page().encode())

    def read_runs(self, folders: Sequence[Path], figures: bool = True) -> None:
        """Summarise the comparisons below `folders`, several of one name together; draw figures.

        Drawing takes seconds, which a session has only at its end.
        """
        for name in COMPARISONS:
            there = [folder / name for folder in folders if (folder / name).is_dir()]
            if there:
                self.values.setdefault("comparisons", {})[name] = self._comparison(
                    name, there, figures
                )

    def _comparison(self, name: str, folders: list[Path], figures: bool) -> dict[str, Any]:
        found: dict[str, Any] = {
            "phases": {arm: _joined([phases(folder, arm) for folder in folders]) for arm in ARMS}
        }
        try:
            comparison = load_comparison(folders, Choices(partial=True))
            summaries = summarise(comparison)
        except PodsError as error:  # too few runs, so far
            return found | {"problem": str(error)}
        if figures:
            drawn = draw(comparison, summaries)
            for kind in _FIGURES:
                write_whole(self.folder / f"{name}-{kind}.png", render(drawn[kind], "png"))
        curves = {
            arm.name: {
                "training_seconds": arm.curves.seconds,
                "answer_accuracy": arm.curves.accuracy,
            }
            for arm in comparison.arms
        }
        table = as_markdown(comparison, summaries)
        return found | {
            "numbers": as_json(comparison, summaries),
            "curves": curves,
            "markdown": table,
        }

    def _page(self) -> str:
        values = self.values
        parts = ["# Measured on a GPU\n", _head(values)]
        if model := values.get("model"):
            parts.append(_model(model))
        for name, found in (values.get("comparisons") or {}).items():
            parts.append(f"## {_TITLES[name]}\n")
            parts.append(_phases(found["phases"]))
            if "markdown" in found:
                parts.append(found["markdown"].replace("## ", "### ", 1))
                parts += [f"![{kind}]({name}-{kind}.png)\n" for kind in _FIGURES]
            else:
                parts.append(f"Not compared: {found['problem']}.\n")
        if selection := values.get("selection"):
            parts.append(_selection(selection))
        if problems := values.get("problems"):
            parts.append("## What went wrong\n")
            parts += [f"* {where}: {_line(what)}" for where, what in problems.items()]
        return "\n".join(parts) + "\n"


def archive(folder: Path, path: Path) -> None:
    """The runs' own records (metrics, evaluations, settings), for `--report`; no checkpoints."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as packed:
        for name in COMPARISONS:
            for file in sorted((folder / name).rglob("*")):
                if file.suffix in (".jsonl", ".yaml", ".json") and file.is_file():
                    packed.add(file, file.relative_to(folder))


def _joined(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The phases of several folders, weighted by their steps."""
    found = [one for one in found if one["steps"]]
    steps = sum(one["steps"] for one in found)
    joined: dict[str, Any] = {"steps": steps}
    for key in found[0] if found else ():
        if key == "peak_memory":
            joined[key] = max(one[key] for one in found)
        elif key != "steps":
            joined[key] = sum(one["steps"] * (one[key] or 0.0) for one in found) / steps
    return joined


def _head(values: Mapping[str, Any]) -> str:
    environment = values["environment"]
    versions = environment["versions"]
    names = ("podsrl", "torch", "trl", "transformers", "accelerate", "datasets", "numpy")
    shown = ", ".join(f"{name} {versions[name]}" for name in names if name in versions)
    hardware = ", ".join(environment["gpus"] or ()) or "no GPU"
    if cuda := values.get("cuda"):
        hardware += f" (CUDA {cuda})"
    minutes = values.get("minutes_taken")
    lines = [
        f"{environment['started'][:10]}, {hardware}; {environment['cpu']},"
        f" {environment['cores']} cores; Python {environment['python']}; {shown}.",
        f"Command: `{values['command']}`"
        + (f", {minutes:.1f} minutes in all." if minutes else " (not finished)."),
    ]
    if values.get("smoke"):
        lines.append("**A trial of the script (`--smoke`): these numbers mean nothing.**")
    return "\n\n".join(lines) + "\n"


def _model(model: Mapping[str, Any]) -> str:
    rates = model["pass_rates"]
    settings = model["settings"]
    table = _table(
        ["columns", *map(str, rates)], [["right", *(f"{100 * r:.0f} %" for r in rates.values())]]
    )
    low, high = model["columns"]
    return (
        f"## The model\n\nQwen2's architecture, {model['parameters'] / 1e6:.1f} million parameters,"
        f" made from nothing by {settings['steps']} steps of {settings['batch_size']} sums with a"
        f" slip in {100 * settings['noise']:.0f} % of their columns, in {model['seconds']:.0f} s."
        f" Sampled answers that are right, by difficulty, before reinforcement learning:\n\n{table}"
        f"\nThe comparisons use sums of {low} to {high} columns.\n"
    )


def _phases(by_arm: Mapping[str, Mapping[str, Any]]) -> str:
    head = ["arm", "steps", "s/step", "generate", "score", "select", "update", "rollouts/s", "peak"]
    rows = []
    for arm, found in by_arm.items():
        if not found["steps"]:
            continue
        seconds = [f"{found[p]:.4g}" for p in ("step", "generate", "score", "select", "update")]
        speed, peak = found["rollouts_per_second"], memory(found["peak_memory"])
        rows.append([arm, str(found["steps"]), *seconds, f"{speed or 0:,.0f}", peak])
    text = _table(head, rows)
    pods, ga, grpo = (by_arm.get(arm, {}).get("update") for arm in ("pods", "grpo_ga", "grpo"))
    if pods and ga and grpo:
        text += f"\nupdate(PODS) / update(GRPO-GA) = {pods / ga:.2f},"
        text += f" update(PODS) / update(GRPO) = {pods / grpo:.2f};"
        text += f" selecting is {100 * by_arm['pods']['select'] / by_arm['pods']['step']:.2g} %"
        text += " of a step of PODS.\n"
    return f"Seconds of an optimiser step, by phase, the first two of each run left out:\n\n{text}"


def _selection(found: Mapping[str, Any]) -> str:
    equality, device = found["equality"], found["device"]
    wrong = equality["different"]
    head = ["groups", "n", "m", f"{device}, events", "with waiting", "ties at random", "numpy, CPU"]
    keys = ("device", "device_wall", "device_wall_seeded", "numpy")
    rows = [
        [*(str(row[k]) for k in ("groups", "n", "m")), *(_milliseconds(row[k]) for k in keys)]
        for row in found["timings"]
    ]
    verdict = "none differs" if not wrong else f"**these differ**: {'; '.join(wrong)}"
    return (
        f"## The selection\n\n{equality['groups_compared']:,} groups selected on {device} and by"
        f" numpy on the CPU, by every rule, with and without ties: {verdict}.\n\n"
        f"Milliseconds of `downsample`, medians:\n\n{_table(head, rows)}"
    )


def _milliseconds(value: float | None) -> str:
    return "—" if value is None else f"{value:.3g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _line(text: str) -> str:
    return " ".join(text.split())[-400:]
