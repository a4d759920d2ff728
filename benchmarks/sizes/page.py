"""The page and the figure that follow from the raw file."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.markdown import table
from benchmarks.sizes.plan import ACROSS, GRPO, GRPO_GA, PODS, Arm
from benchmarks.sizes.raw_file import Line, read_raw
from podslab.recommend.what_to_try import line_for_ratio
from podslab.report.drawing import looks, render, style
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.files import write_whole

#: Optimiser steps of the authors' runs in six hours of one L40S, means of ten runs each, from the
#: numbers of their last checkpoints (GSM8K, Qwen2.5-3B-Instruct; github.com/YixuanEvenXu/pods).
AUTHORS_STEPS = {"GRPO": 2868.3, "PODS": 2143.0}
#: How many times as fast PODS was there (results/published.md).
AUTHORS_SPEED_UP = 2.0


def write_page(raw: Path, folder: Path) -> Path:
    """Write sizes.md, and sizes.png with the paper's figure of the asymmetry.

    Raises:
        InvalidInputError: Nothing was measured yet.
    """
    lines = read_raw(raw)
    if not any(line["fits"] for line in lines):
        raise InvalidInputError(f"{raw} holds no measurement: python -m benchmarks.sizes {raw}")
    page = folder / "sizes.md"
    write_whole(folder / "sizes.png", render(figure(lines), "png"))
    write_whole(page, page_text(lines, raw.name).encode())
    return page


def page_text(lines: Sequence[Line], raw_name: str) -> str:
    """The whole page."""
    where = lines[0]["where"]

    parts = [
        "# A step at the paper's sizes",
        "",
        f"Measured on one {where['device']} beside {where['cores']} cores of {where['processor']},"
        f" at commit {_commits(lines)}, with torch {where['torch']}, transformers"
        f" {where['transformers']}, TRL {where['trl']}, PEFT {where['peft']}. Every line of the raw"
        f" file, [{raw_name}]({raw_name}), is shown. `python -m benchmarks.sizes --page results"
        f" results/{raw_name}` writes this page.",
        "",
        "Weights are random, since seconds and memory of a step depend on shapes alone. Prompts"
        f" have {lines[0]['prompt_tokens']} tokens and completions exactly as many as the table"
        " says, so that no row is padded and attention needs no mask, which is its fastest way."
        " transformers generates, by `generate` unless it says otherwise. All rows are passed. A"
        " step is measured once, after one with the same update, which warms up. Where generating"
        " has no number, the update alone was measured, on tokens that were drawn at random.",
        "",
        "![Seconds of generating n rollouts and of updating on as many rows](sizes.png)",
        "",
        "## Seconds and memory of a step",
        "",
        *_table_of_steps(lines),
        "",
        *_spread(lines),
        "## A step of PODS beside the others",
        "",
        *_table_of_ratios(lines),
        "",
        "g and u are slopes of straight lines through what was measured with adapters and"
        " checkpointing: seconds of generating over rollouts, and seconds of updating over the rows"
        " of one pass. A fixed part is what such a line says of none.",
        "",
        "## What fits",
        "",
        *_table_of_what_fits(lines),
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

    A least-squares line through all whole steps of the usual kind (`_usual`).
    """
    chosen = _whole_steps(lines, shape)
    rollouts = [_rollouts(line) for line in chosen]
    return _line_through(rollouts, [generating(line) for line in chosen])


def costs_of_updating(lines: Sequence[Line], shape: str) -> tuple[float, float]:
    """The fixed part of updating in one pass, in seconds, and the seconds u of each further row.

    An arm with several micro-batches has the fixed part several times, and is left out.
    """
    chosen = _in_one_pass(lines, shape)
    rows = [_rows(line) for line in chosen]
    return _line_through(rows, [updating(line) for line in chosen])


def speed_up_here(lines: Sequence[Line], shape: str = "3B") -> float | None:
    """How many times as fast PODS would be on this device, at the authors' accuracy by step.

    Their speed-up is T_GRPO / T_PODS on their card. Accuracy by step does not depend on the card,
    so times scale by the seconds of a step, of which only the ratio of both arms matters.
    """
    grpo = _first(lines, shape, GRPO)
    pods = _first(lines, shape, PODS)
    if grpo is None or pods is None:
        return None
    ratio_here = whole(pods) / whole(grpo)
    ratio_there = AUTHORS_STEPS["GRPO"] / AUTHORS_STEPS["PODS"]
    return AUTHORS_SPEED_UP * ratio_there / ratio_here


def figure(lines: Sequence[Line]) -> Figure:
    """Seconds per rollout and per row over their number, one line for each size."""
    with style():
        drawn = Figure(figsize=(9.0, 3.6), layout="constrained")
        left, right = drawn.subplots(1, 2, sharey=True)
        for shape, look in looks(_shapes(lines)).items():
            of_steps = _whole_steps(lines, shape)
            of_passes = _in_one_pass(lines, shape)
            by_rollouts = sorted((_rollouts(line), generating(line)) for line in of_steps)
            by_rows = sorted((_rows(line), updating(line)) for line in of_passes)
            for axes, points in ((left, by_rollouts), (right, by_rows)):
                counts = [count for count, _ in points]
                of_each = [seconds / count for count, seconds in points]
                axes.plot(
                    counts,
                    of_each,
                    color=look.color,
                    ls=look.dashes,
                    marker=look.marker,
                    label=shape,
                )

        left.set(title="generating", xlabel="rollouts", ylabel="seconds per rollout or row")
        right.set(title="updating", xlabel="rows")
        for axes in (left, right):
            axes.set(xscale="log", yscale="log")
        right.legend()
    return drawn


def _table_of_steps(lines: Sequence[Line]) -> list[str]:
    heads = [
        "model",
        "arm",
        "rollouts → rows",
        "tokens",
        "trained",
        "checkpointing",
        "generating",
        "scoring",
        "selecting",
        "updating",
        "whole step",
        "tokens per second",
        "peak memory",
    ]
    rows = []
    for line in lines:
        measured = _measured(line) if line["fits"] else _why_nothing(line)
        rows.append([*_of_case(line), *measured])
    return table(heads, rows)


def _why_nothing(line: Line) -> list[str]:
    """The cells of a row without seconds: memory ran out, or something failed."""
    if line["fits"] is None:
        why = f"failed: {line['failed'].replace('|', '/')[:80]}"
    else:
        why = f"does not fit ({line['phase']})"
    return [why, "", "", "", "", "", ""]


def _of_case(line: Line) -> list[str]:
    """The cells of a row that say what was run."""
    case = line["case"]
    again = " (again)" if case["repetition"] else ""
    continuous = ", continuous batching" if case["continuous"] else ""
    return [
        case["shape"],
        f"{case['arm']['name']}{again}{continuous}",
        f"{_rollouts(line)} → {_rows(line)}",
        str(case["answer"]),
        "adapters" if case["lora"] else "all weights",
        "on" if case["checkpointing"] else "off",
    ]


def _measured(line: Line) -> list[str]:
    """The cells of a row that say what it took."""
    peak = max(line["peak_bytes"].values(), default=0)
    memory = f"{peak / 2**30:.1f} GiB" if peak else "-"
    if not line["case"]["generates"]:
        return ["", "", "", f"{updating(line):.2f} s", "", "", memory]

    seconds = line["seconds"]
    tokens_per_second = _rollouts(line) * line["case"]["answer"] / generating(line)
    return [
        *(f"{seconds[phase]:.2f} s" for phase in ("generate", "score", "select", "update")),
        f"**{whole(line):.2f} s**",
        f"{tokens_per_second:.0f}",
        memory,
    ]


def _spread(lines: Sequence[Line]) -> list[str]:
    """How far apart a case and its repetition are."""
    parts = []
    for again in lines:
        case = again["case"]
        first = [line for line in lines if line["case"] == {**case, "repetition": 0}]
        if case["repetition"] and again["fits"] and first and first[0]["fits"]:
            apart = whole(again) / whole(first[0]) - 1
            parts.append(f"{case['shape']} {case['arm']['name']} by {100 * apart:+.1f} %")
    return [f"What was measured twice differs: {', '.join(parts)}.", ""] if parts else []


def _table_of_ratios(lines: Sequence[Line]) -> list[str]:
    heads = [
        "model",
        "fixed part of generating",
        "g, per rollout",
        "fixed part of updating",
        "u, per row",
        "g/u",
        "PODS / GRPO",
        "PODS / GRPO-GA",
        "max_contrast / GRPO",
        "`pods recommend` says",
    ]
    rows = []
    for shape in _shapes(lines):
        fixed_g, g = costs_of_generating(lines, shape)
        fixed_u, u = costs_of_updating(lines, shape)
        rows.append(
            [
                shape,
                _or_dash(fixed_g, "{:.2f} s"),
                _or_dash(g, "{:.4f} s"),
                _or_dash(fixed_u, "{:.2f} s"),
                _or_dash(u, "{:.4f} s"),
                _or_dash(g / u, "{:.2f}"),
                _ratio_of_steps(lines, shape, PODS, GRPO),
                _ratio_of_steps(lines, shape, PODS, GRPO_GA),
                _ratio_of_steps(lines, shape, ACROSS, GRPO),
                _what_recommend_says(lines, shape),
            ]
        )
    return table(heads, rows)


def _what_recommend_says(lines: Sequence[Line], shape: str) -> str:
    """The line of `pods recommend` for a step of PODS, by seconds per rollout and per row."""
    step = _first(lines, shape, PODS)
    if step is None:
        return "-"
    per_rollout = (whole(step) - updating(step)) / _rollouts(step)
    per_row = updating(step) / _rows(step)
    ratio = per_rollout / per_row
    return f"g/u {ratio:.2f}: {line_for_ratio(ratio).do}"


def _table_of_what_fits(lines: Sequence[Line]) -> list[str]:
    heads = [
        "model",
        "most rollouts that were tried and fit",
        "by the line through peaks",
        "most rows of a pass that were tried and fit",
        "by the line through peaks",
    ]
    rows = []
    for shape in _shapes(lines):
        generated = _whole_steps(lines, shape)
        passed = _in_one_pass(lines, shape)
        rows.append(
            [
                shape,
                str(max(map(_rollouts, generated), default="-")),
                _most_by_peaks(generated, "generate", _rollouts),
                str(max(map(_rows, passed), default="-")),
                _most_by_peaks(passed, "update", _rows),
            ]
        )
    return table(heads, rows)


def _most_by_peaks(lines: Sequence[Line], phase: str, count: Callable[[Line], int]) -> str:
    """How many fit into the device's memory, by a straight line through the peaks of a phase."""
    peaks = [line["peak_bytes"].get(phase, 0) for line in lines]
    fixed, each = _line_through([count(line) for line in lines], peaks)
    if math.isnan(each) or each <= 0:
        return "-"
    return f"about {(lines[0]['where']['memory_bytes'] - fixed) / each:.0f}"


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


def _ratio_of_steps(lines: Sequence[Line], shape: str, one: Arm, other: Arm) -> str:
    first = _first(lines, shape, one)
    second = _first(lines, shape, other)
    return f"{whole(first) / whole(second):.2f}" if first and second else "-"


def _first(lines: Sequence[Line], shape: str, arm: Arm) -> Line | None:
    """The first measurement of an arm at its own sizes."""
    for line in _whole_steps(lines, shape):
        if line["case"]["arm"] == asdict(arm):
            return line
    return None


def _whole_steps(lines: Sequence[Line], shape: str) -> list[Line]:
    """What was measured of a size, of those that also generate."""
    return [line for line in _usual(lines, shape) if line["case"]["generates"]]


def _in_one_pass(lines: Sequence[Line], shape: str) -> list[Line]:
    """What was measured of a size, of those whose rows are all passed at once."""
    return [line for line in _usual(lines, shape) if line["case"]["arm"]["micro_batches"] == 1]


def _usual(lines: Sequence[Line], shape: str) -> list[Line]:
    """What was measured of a size as most is.

    That is with adapters, checkpointing and `generate`, and completions of the shortest length.
    """
    fit = [line for line in lines if line["fits"] and line["case"]["shape"] == shape]
    shortest = min((line["case"]["answer"] for line in fit), default=0)
    return [
        line
        for line in fit
        if line["case"]["lora"]
        and line["case"]["checkpointing"]
        and line["case"]["answer"] == shortest
        and not line["case"]["continuous"]
    ]


def _shapes(lines: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(line["case"]["shape"] for line in lines if line["fits"]))


def _commits(lines: Sequence[Line]) -> str:
    """The commits of the code, of which calls on several days may have several."""
    found = dict.fromkeys(line["where"]["commit"] or "unknown" for line in lines)
    return ", ".join(found)


def _line_through(counts: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """The value at a count of 0, and that of each further one; NaN where counts are alike."""
    if len(set(counts)) < 2:
        return math.nan, math.nan
    slope, fixed = np.polyfit(counts, values, 1)
    return float(fixed), float(slope)


def _or_dash(value: float, form: str) -> str:
    return "-" if math.isnan(value) else form.format(value)
