"""The results: numbers as JSON, a page in Markdown, and figures; whole after every part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.comparison import phases
from podslab.report.drawing import render
from podslab.report.figures import draw
from podslab.report.load_runs import Choices, load_comparison
from podslab.report.summary import as_json, as_markdown, memory, summarise
from podsrl.errors import PodsError
from podsrl.rollout_log.files import write_json, write_whole

_FIGURES = ("accuracy", "seconds_per_step")


@dataclass
class Results:
    """Everything measured so far, and the folder that it is written to."""

    folder: Path
    values: dict[str, Any] = field(default_factory=dict)

    def write(self) -> None:
        """Write summary.json and README.md as far as there is something to say."""
        write_json(self.folder / "summary.json", self.values)
        write_whole(self.folder / "README.md", self._page().encode())

    def read_runs(self, folder: Path, arms: Sequence[str]) -> None:
        """Summarise the runs in `folder`, and draw the figures."""
        found: dict[str, Any] = {"phases": {arm: phases(folder, arm) for arm in arms}}
        self.values["comparison"] = found
        try:
            comparison = load_comparison([folder], Choices(partial=True))
            summaries = summarise(comparison)
        except PodsError as error:  # too few runs, so far
            found["problem"] = str(error)
            return
        drawn = draw(comparison, summaries)
        for kind in _FIGURES:
            write_whole(self.folder / f"{kind}.png", render(drawn[kind], "png"))
        found["numbers"] = as_json(comparison, summaries)
        found["markdown"] = as_markdown(comparison, summaries)

    def _page(self) -> str:
        values = self.values
        parts = ["# Measured on a GPU\n", _head(values)]
        if found := values.get("comparison"):
            parts += ["## Seconds of a step\n", _phases(found["phases"])]
            if "markdown" in found:
                parts.append(found["markdown"])
                parts += [f"![{kind}]({kind}.png)\n" for kind in _FIGURES]
            else:
                parts.append(f"Not compared: {found['problem']}.\n")
        if problems := values.get("problems"):
            parts.append("## What went wrong\n")
            parts += [
                f"* {where}: {' '.join(what.split())[-400:]}" for where, what in problems.items()
            ]
        return "\n".join(parts) + "\n"


def _head(values: Mapping[str, Any]) -> str:
    environment = values["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    hardware = ", ".join(environment["gpus"] or ()) or "no GPU"
    lines = [
        f"{environment['started'][:10]}, {hardware}; {environment['cpu']},"
        f" {environment['cores']} cores; Python {environment['python']}; {versions}.",
        f"Command: `{values['command']}`, {values['minutes_taken']:.1f} minutes so far.",
    ]
    if values.get("smoke"):
        lines.append("**A trial of the script (`--smoke`): these numbers mean nothing.**")
    return "\n\n".join(lines) + "\n"


def _phases(by_arm: Mapping[str, Mapping[str, Any]]) -> str:
    head = ["arm", "steps", "s/step", "generate", "score", "select", "update", "rollouts/s", "peak"]
    rows = []
    for arm, found in by_arm.items():
        if found["steps"]:
            seconds = [f"{found[p]:.4g}" for p in ("step", "generate", "score", "select", "update")]
            speed = f"{found['rollouts_per_second']:,.0f}"
            rows.append([arm, str(found["steps"]), *seconds, speed, memory(found["peak_memory"])])
    return f"Means by phase, the first two steps of each run left out:\n\n{_table(head, rows)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
