"""The parts of a benchmark: each measured by itself, written to disk, and put into tables."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from benchmarks.speed import generation, growth, selection, step
from benchmarks.speed.scale import Report, Scale
from benchmarks.speed.tables import Table
from podsrl.rollout_log.environment import describe_environment
from podsrl.rollout_log.files import plain, read_json, write_json

Measured = Mapping[str, Any]  # what a part measured, as JSON has it


@dataclass(frozen=True)
class Part:
    """One part.

    what: a line for the plan. minutes: about this many, on two free cores, and with `Scale.quick`.
    measure: called with the scale, the folder of the embedded model, a folder for logs, a report.
    """

    name: str
    what: str
    minutes: float
    quick_minutes: float
    measure: Callable[[Scale, str, Path, Report], dict[str, Any]]


PARTS = {
    part.name: part
    for part in (
        Part(
            "selection",
            "downsample beside Algorithm 2 in plain Python and a per-group version",
            *(1.2, 0.03),
            lambda scale, model, logs, report: selection.measure(scale, report),
        ),
        Part(
            "step",
            "a step by phase: TRL's GRPO and GRPO with accumulation, and PODS; 4 variants",
            *(4.0, 0.4),
            step.measure,
        ),
        Part(
            "growth",
            "a step of PODS as n, m, prompts and processes grow",
            *(2.0, 0.4),
            growth.measure,
        ),
        Part(
            "generation",
            "many rollouts of few prompts, beside plain generate",
            *(0.5, 0.1),
            lambda scale, model, logs, report: generation.measure(scale, report),
        ),
    )
}


def measure(part: Part, scale: Scale, model: str, folder: Path, report: Report) -> dict[str, Any]:
    """Measure a part and write it to its file in `folder`; a killed part leaves no file.

    Returns:
        The file's content: what was measured, on what, when and at which scale.
    """
    environment = {**describe_environment(), "threads": torch.get_num_threads()}
    began = perf_counter()
    measured = part.measure(scale, model, folder / "logs" / part.name, report)
    found = {
        "part": part.name,
        "scale": _scale(scale),
        "environment": environment,
        "seconds": perf_counter() - began,
        "measured": measured,
    }
    write_json(_file(folder, part.name), found)
    return dict(read_json(_file(folder, part.name)))


def finished(part: Part, scale: Scale, folder: Path) -> dict[str, Any] | None:
    """What an earlier run measured of a part; None if it has not, or at another scale.

    Raises:
        InvalidInputError: the file is damaged.
    """
    path = _file(folder, part.name)
    if not path.is_file():
        return None
    found = read_json(path)
    return dict(found) if found.get("scale") == _scale(scale) else None


def tables(found: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """All tables of the parts that were measured, in order.

    Args:
        found: by the part's name, what `measure` returned.
    """
    measured = {name: part["measured"] for name, part in found.items()}
    made: list[Table] = []
    if "selection" in measured:
        made += selection.tabulate(measured["selection"], step_seconds(measured))
    if "step" in measured:
        made += step.tabulate(measured["step"])
    if "growth" in measured:
        made += growth.tabulate(measured["growth"])
    if "generation" in measured:
        made += generation.tabulate(measured["generation"])
    return made


def step_seconds(measured: Mapping[str, Measured]) -> dict[str, list[float]]:
    """Seconds of a PODS step by its number of prompts, from the parts that time steps."""
    found = {}
    if "growth" in measured:
        steps = measured["growth"]["families"]["prompts"]["1 prompt"]
        found["1"] = [step.whole(s) for s in steps["seconds"]]
    if "step" in measured and "base" in measured["step"]["variants"]:
        steps = measured["step"]["variants"]["base"]["pods"]
        found[str(measured["step"]["prompts"])] = [step.whole(s) for s in steps["seconds"]]
    return found


def page(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The tables as a Markdown page, with what they were measured on, when and how."""
    made = tables(found)
    verdicts = [bar.verdict for table in made for bar in table.bars]
    environments = [part["environment"] for part in found.values()]
    machine, versions = environments[-1], environments[-1]["versions"]
    memory = f"{machine['memory'] / 1e9:.0f} GB" if machine["memory"] else "memory unknown"
    lines = [
        "# Performance\n",
        "Measured by `make bench`, which measures again and rewrites this page.\n",
        f"* Hardware: {machine['cpu']}, {machine['cores']} cores, {memory}; torch used"
        f" {machine['threads']} threads.",
        f"* Python {machine['python']}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + ".",
        *(f"* {_provenance(part)}" for part in found.values()),
        f"* Bars: {verdicts.count('met')} met, {verdicts.count('missed')} missed,"
        f" {verdicts.count('not measured')} not measured. Ratios are taken round by round between"
        " measurements that take turns; brackets hold quartiles.\n",
    ]
    return "\n".join([*lines, *(f"{table.as_markdown()}\n" for table in made)])


def _provenance(part: Mapping[str, Any]) -> str:
    environment = part["environment"]
    git = environment["git"]
    commit = "no commit"
    if git:
        commit = f"commit {git['commit'][:12]}" + (" with changes" if git["dirty"] else "")
    command = " ".join(["python -m benchmarks.speed", *environment["command"][1:]])
    return (
        f"{part['part'].capitalize()}: {environment['started'][:10]}, {commit}, `{command}`,"
        f" {part['seconds']:.0f} s."
    )


def _scale(scale: Scale) -> Any:
    return plain(asdict(scale))


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"
