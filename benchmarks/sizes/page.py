"""The page and the figure that follow from the raw file."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sizes.plan import ACROSS, GRPO, GRPO_GA, PODS

Line = dict[str, Any]

#: Optimiser steps of the authors' runs in six hours of one L40S, means of ten runs each, from the
#: numbers of their last checkpoints (GSM8K, Qwen2.5-3B-Instruct; github.com/YixuanEvenXu/pods).
AUTHORS_STEPS = {"GRPO": 2868.3, "PODS": 2143.0}
#: How many times as fast PODS was there (results/published.md).
AUTHORS_SPEED_UP = 2.0


def read_raw(raw: Path) -> list[Line]:
    """The lines of the raw file."""
    return [json.loads(line) for line in raw.read_text(encoding="utf-8").splitlines()]


def write_page(raw: Path, folder: Path) -> Path:
    """Write sizes.md, and sizes.png with the paper's figure of the asymmetry."""
    lines = read_raw(raw)
    draw(lines, folder / "sizes.png")
    page = folder / "sizes.md"
    page.write_text(page_text(lines, raw.name), encoding="utf-8")
    return page


def page_text(lines: Sequence[Line], raw_name: str) -> str:
    """The whole page."""
    where = lines[0]["where"]

    parts = [
        "# A step at the paper's sizes",
        "",
        f"Measured on one {where['device']} at commit {where['commit'] or 'unknown'}, with torch"
        f" {where['torch']}, transformers {where['transformers']}, TRL {where['trl']}. Every line"
        f" of the raw file, [{raw_name}]({raw_name}), is shown. `python -m benchmarks.sizes --page"
        f" results results/{raw_name}` writes this page.",
        "",
        "Weights are random, since seconds and memory of a step depend on shapes alone. Prompts"
        " have 150 tokens and completions exactly as many as the table says. transformers"
        " generates. All rows are passed. A step is measured once, after one that warms up.",
        "",
        "![Seconds of generating n rollouts and of updating on as many rows](sizes.png)",
        "",
        "## Seconds and memory of a step",
        "",
        *_table_of_steps(lines),
        "",
        "## A step of PODS beside the others",
        "",
        *_table_of_ratios(lines),
        "",
        *_what_follows(lines),
    ]
    return "\n".join(parts) + "\n"


def whole(line: Line) -> float:
    """The seconds of a step."""
    return float(sum(line["seconds"].values()))


def generating(line: Line) -> float:
    """The seconds of a step that are spent on its rollouts."""
    return float(line["seconds"]["generate"])


def updating(line: Line) -> float:
    """The seconds of a step that are spent on its rows."""
    return float(line["seconds"]["update"])


def _rollouts(line: Line) -> int:
    """The number of rollouts of a step."""
    arm = line["case"]["arm"]
    return int(arm["prompts"] * arm["n"])


def _rows(line: Line) -> int:
    """The number of rows that a step is trained on."""
    arm = line["case"]["arm"]
    return int(arm["prompts"] * arm["m"])


def costs_of_generating(lines: Sequence[Line], shape: str) -> tuple[float, float]:
    """The fixed part of generating, in seconds, and the seconds g of each further rollout.

    A least-squares line through all sizes that were measured with adapters and 512 tokens.
    """
    chosen = _usual(lines, shape)
    rollouts = [_rollouts(line) for line in chosen]
    return _line_through(rollouts, [generating(line) for line in chosen])


def costs_of_updating(lines: Sequence[Line], shape: str) -> tuple[float, float]:
    """The fixed part of updating, in seconds, and the seconds u of each further row."""
    chosen = _usual(lines, shape)
    rows = [_rows(line) for line in chosen]
    return _line_through(rows, [updating(line) for line in chosen])


def speed_up_here(lines: Sequence[Line], shape: str = "3B") -> float | None:
    """How many times as fast PODS would be on this device, at the authors' accuracy by step.

    Their speed-up is T_GRPO / T_PODS on their card. Accuracy by step does not depend on the card,
    so times scale by the seconds of a step, of which only the ratio of both arms matters.
    """
    steps = {name: _first(lines, shape, name) for name in ("GRPO", "PODS")}
    if not all(steps.values()):
        return None
    ratio_here = whole(steps["PODS"]) / whole(steps["GRPO"])  # type: ignore[arg-type]
    ratio_there = AUTHORS_STEPS["GRPO"] / AUTHORS_STEPS["PODS"]
    return AUTHORS_SPEED_UP * ratio_there / ratio_here


def draw(lines: Sequence[Line], file: Path) -> None:
    """Seconds per rollout and per row over their number, one line for each size."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for shape in _shapes(lines):
        chosen = _usual(lines, shape)
        by_rollouts = sorted((_rollouts(line), generating(line)) for line in chosen)
        by_rows = sorted((_rows(line), updating(line)) for line in chosen)
        for axis, points in ((left, by_rollouts), (right, by_rows)):
            counts, seconds = np.array(points).T
            axis.plot(counts, seconds / counts, marker="o", label=shape)

    left.set(title="generating", xlabel="rollouts", ylabel="seconds per rollout or row")
    right.set(title="updating", xlabel="rows")
    for axis in (left, right):
        axis.set(xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    right.legend()
    figure.tight_layout()
    figure.savefig(file, dpi=150)
    pyplot.close(figure)


def _table_of_steps(lines: Sequence[Line]) -> list[str]:
    table = [
        "| model | arm | rollouts → rows | tokens | trained | checkpointing | generating |"
        " scoring | selecting | updating | whole step | tokens per second | peak memory |",
        "|" + "---|" * 13,
    ]
    for line in lines:
        measured = _measured(line) if line["fits"] else ["does not fit", *[""] * 6]
        table.append(f"| {' | '.join([*_of_case(line), *measured])} |")
    return table


def _of_case(line: Line) -> list[str]:
    """The cells of a row that say what was run."""
    case = line["case"]
    return [
        case["shape"],
        case["arm"]["name"] + (" (again)" if case["repetition"] else ""),
        f"{_rollouts(line)} → {_rows(line)}",
        str(case["answer"]),
        "adapters" if case["lora"] else "all weights",
        "on" if case["checkpointing"] else "off",
    ]


def _measured(line: Line) -> list[str]:
    """The cells of a row that say what it took."""
    seconds = line["seconds"]
    tokens_per_second = _rollouts(line) * line["case"]["answer"] / generating(line)
    peak = max(line["peak_bytes"].values(), default=0)
    return [
        *(f"{seconds[phase]:.2f} s" for phase in ("generate", "score", "select", "update")),
        f"**{whole(line):.2f} s**",
        f"{tokens_per_second:.0f}",
        f"{peak / 2**30:.1f} GiB" if peak else "-",
    ]


def _table_of_ratios(lines: Sequence[Line]) -> list[str]:
    table = [
        "| model | fixed part of generating | g, per rollout | fixed part of updating |"
        " u, per row | g/u | PODS / GRPO | PODS / GRPO-GA | max_contrast / GRPO |",
        "|" + "---|" * 9,
    ]
    for shape in _shapes(lines):
        fixed_g, g = costs_of_generating(lines, shape)
        fixed_u, u = costs_of_updating(lines, shape)
        numbers = [
            _or_dash(fixed_g, "{:.2f} s"),
            _or_dash(g, "{:.4f} s"),
            _or_dash(fixed_u, "{:.2f} s"),
            _or_dash(u, "{:.4f} s"),
            _or_dash(g / u, "{:.2f}"),
        ]

        ratios = [
            _ratio_of_steps(lines, shape, PODS.name, GRPO.name),
            _ratio_of_steps(lines, shape, PODS.name, GRPO_GA.name),
            _ratio_of_steps(lines, shape, ACROSS.name, GRPO.name),
        ]
        table.append(f"| {' | '.join([shape, *numbers, *ratios])} |")

    return table


def _what_follows(lines: Sequence[Line]) -> list[str]:
    speed_up = speed_up_here(lines)
    if speed_up is None:
        return []
    return [
        "## What follows for the authors' experiment",
        "",
        "On one L40S the authors' runs of GSM8K with Qwen2.5-3B-Instruct took"
        f" {6 * 3600 / AUTHORS_STEPS['GRPO']:.1f} s per step of GRPO and"
        f" {6 * 3600 / AUTHORS_STEPS['PODS']:.1f} s per step of PODS, and PODS was"
        f" {AUTHORS_SPEED_UP:.1f} times as fast to GRPO's level. What is right after how many"
        " steps does not depend on the card. With the seconds of a step that are measured here it"
        f" would be **{speed_up:.1f} times** as fast. Their completions are shorter than 512 tokens"
        " on average, and their generation was another one, so this is an estimate.",
    ]


def _ratio_of_steps(lines: Sequence[Line], shape: str, one: str, other: str) -> str:
    first = _first(lines, shape, one)
    second = _first(lines, shape, other)
    return f"{whole(first) / whole(second):.2f}" if first and second else "-"


def _first(lines: Sequence[Line], shape: str, name: str) -> Line | None:
    """The first measurement of an arm at its own sizes."""
    sizes = {arm.name: (arm.n, arm.m) for arm in (GRPO, GRPO_GA, PODS, ACROSS)}
    for line in _usual(lines, shape):
        arm = line["case"]["arm"]
        if arm["name"] == name and (arm["n"], arm["m"]) == sizes[name]:
            return line
    return None


def _usual(lines: Sequence[Line], shape: str) -> list[Line]:
    """What was measured of a size with adapters, checkpointing and its first length."""
    fit = [line for line in lines if line["fits"] and line["case"]["shape"] == shape]
    shortest = min((line["case"]["answer"] for line in fit), default=0)
    return [
        line
        for line in fit
        if line["case"]["lora"]
        and line["case"]["checkpointing"]
        and line["case"]["answer"] == shortest
    ]


def _shapes(lines: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(line["case"]["shape"] for line in lines if line["fits"]))


def _line_through(counts: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """The seconds at a count of 0, and those of each further one; NaN where counts are alike."""
    if len(set(counts)) < 2:
        return math.nan, math.nan
    slope, fixed = np.polyfit(counts, seconds, 1)
    return float(fixed), float(slope)


def _or_dash(value: float, form: str) -> str:
    return "-" if math.isnan(value) else form.format(value)
