"""The page and the figure that follow from the raw files."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from benchmarks.markdown import table
from benchmarks.sizes.plan import ACROSS, ARMS, GRPO, GRPO_GA, PODS, Arm, in_words, missing, plan
from benchmarks.sizes.raw_file import Line, read_raw, vllm_file
from podslab.recommend.what_to_try import line_for_ratio
from podslab.report.drawing import looks, render, style
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.files import write_whole

#: Optimiser steps of the authors' runs in six hours of one L40S, means of ten runs each, from the
#: numbers of their last checkpoints (GSM8K, Qwen2.5-3B-Instruct; github.com/YixuanEvenXu/pods).
AUTHORS_STEPS = {"GRPO": 2868.3, "PODS": 2143.0}
#: How many times as fast PODS was there (results/published.md).
AUTHORS_SPEED_UP = 2.0
_AUTHORS_SHAPE = "3B"
#: Of the figure, in rollouts or rows.
_TICKS = (8, 16, 32, 64, 128, 256)


def write_page(raw: Path, folder: Path) -> Path:
    """Write sizes.md, and sizes.png with the paper's figure of the asymmetry.

    Args:
        raw: Of steps; what vLLM took stands in the file beside it (`vllm_file`), if there is one.
        folder: Where the page goes.

    Raises:
        InvalidInputError: Nothing was measured yet.
    """
    lines = read_raw(raw)
    by_vllm = read_raw(vllm_file(raw))
    if not any(line["fits"] for line in lines):
        raise InvalidInputError(f"{raw} holds no measurement: python -m benchmarks.sizes {raw}")
    page = folder / "sizes.md"
    write_whole(folder / "sizes.png", render(figure(lines, by_vllm), "png"))
    write_whole(page, page_text(lines, by_vllm, raw).encode())
    return page


def page_text(lines: Sequence[Line], by_vllm: Sequence[Line], raw: Path) -> str:
    """The whole page."""
    parts = [
        "# A step at the paper's sizes",
        "",
        *in_short(lines, by_vllm),
        "",
        "![Seconds per rollout of generating, by vLLM and by transformers, and per row of"
        " updating](sizes.png)",
        "",
        *_how_it_was_measured(lines, by_vllm, raw),
        "",
        *_with_vllm(lines, by_vllm),
        "## Steps with generation by transformers",
        "",
        *_table_of_steps(lines),
        "",
        *_spread(lines),
        "### A step of PODS beside the others",
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
        *_what_follows(lines, by_vllm),
        *_not_measured(lines, by_vllm),
    ]
    return "\n".join(parts).rstrip() + "\n"


def in_short(lines: Sequence[Line], by_vllm: Sequence[Line]) -> list[str]:
    """What a reader came for, of the size that the paper trains: steps beside one another."""
    grpo = step_with_vllm(lines, by_vllm, _AUTHORS_SHAPE, GRPO)
    pods = step_with_vllm(lines, by_vllm, _AUTHORS_SHAPE, PODS)
    accumulating = step_with_vllm(lines, by_vllm, _AUTHORS_SHAPE, GRPO_GA)
    if grpo is None or pods is None or accumulating is None:
        return []
    return [
        f"Where vLLM generates for a model of {_AUTHORS_SHAPE}, a step of PODS (64 rollouts, 16"
        f" rows) takes {sum(pods):.1f} s. GRPO takes {sum(grpo):.1f} s with 16 rollouts, and"
        f" {sum(accumulating):.1f} s with all 64 (GRPO-GA). Four times as many rollouts cost"
        f" {pods.generating - grpo.generating:.1f} s more of generating, and as many rows"
        f" {accumulating.updating - grpo.updating:.1f} s more of updating: that is the asymmetry"
        f" that PODS lives on.{_by_transformers_in_short(lines)}",
    ]


def _by_transformers_in_short(lines: Sequence[Line]) -> str:
    steps = [_first(lines, _AUTHORS_SHAPE, arm) for arm in (PODS, GRPO, GRPO_GA)]
    seconds = [f"{whole(step):.0f}" for step in steps if step]
    if len(seconds) < len(steps):
        return ""
    return (
        f" Where transformers generates, the same three steps take {seconds[0]}, {seconds[1]} and"
        f" {seconds[2]} s, nearly all of it for generating."
    )


def _how_it_was_measured(lines: Sequence[Line], by_vllm: Sequence[Line], raw: Path) -> list[str]:
    where = lines[0]["where"]
    versions = (
        f"torch {where['torch']}, transformers {where['transformers']}, TRL {where['trl']},"
        f" PEFT {where['peft']}"
    )
    files = f"[{raw.name}]({raw.name})"
    if by_vllm:
        beside = vllm_file(raw).name
        versions += f", vLLM {by_vllm[0]['where']['vllm']}"
        files += f" and [{beside}]({beside})"
    return [
        "## How it was measured",
        "",
        f"On one {where['device']} beside {where['cores']} cores of {where['processor']}, at"
        f" commit {_commits(lines)}, with {versions}. Every line of the raw files, {files}, is"
        f" shown. `python -m benchmarks.sizes --page results results/{raw.name}` writes this page.",
        "",
        "Weights are random, since seconds and memory of a step depend on shapes alone. Adapters"
        " are of rank 64, on all linear layers. Prompts"
        f" have {lines[0]['prompt_tokens']} tokens and completions exactly as many as the table"
        " says, so that no row is padded and attention needs no mask, which is its fastest way."
        " All rows are passed. A step is measured once, after one with the same update, which"
        " warms up. Where generating has no number, the update alone was measured, on tokens that"
        " were drawn at random.",
    ]


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


class Step(NamedTuple):
    """A step of which both parts were measured, each for itself, in seconds."""

    generating: float
    updating: float


def step_with_vllm(
    lines: Sequence[Line], by_vllm: Sequence[Line], shape: str, arm: Arm
) -> Step | None:
    """A step whose rollouts vLLM generates, or None where a part was not measured.

    Generating is vLLM's own time for as many prompts and rollouts. Updating is the trainer's for as
    many rows and micro-batches, whoever generated them; the median, where several were measured.
    """
    generated = [
        line["seconds"]
        for line in by_vllm
        if (line["shape"], line["prompts"], line["n"]) == (shape, arm.prompts, arm.n)
    ]
    updated = [
        updating(line)
        for line in _usual(lines, shape)
        if _rows(line) == arm.rows and line["case"]["arm"]["micro_batches"] == arm.micro_batches
    ]
    if not generated or not updated:
        return None
    return Step(median(generated), median(updated))


def costs_of_vllm(by_vllm: Sequence[Line], shape: str) -> tuple[float, float]:
    """The fixed part of generating by vLLM for one prompt, and the seconds g of each rollout."""
    chosen = [line for line in by_vllm if line["shape"] == shape and line["prompts"] == 1]
    return _line_through([line["n"] for line in chosen], [line["seconds"] for line in chosen])


def speed_up_here(pods: float, grpo: float) -> float:
    """How many times as fast PODS would be on this device, at the authors' accuracy by step.

    Their speed-up is T_GRPO / T_PODS on their card. Accuracy by step does not depend on the card,
    so times scale by the seconds of a step, of which only the ratio of both arms matters.

    Args:
        pods, grpo: The seconds of a step of each.
    """
    ratio_there = AUTHORS_STEPS["GRPO"] / AUTHORS_STEPS["PODS"]
    return AUTHORS_SPEED_UP * ratio_there / (pods / grpo)


def figure(lines: Sequence[Line], by_vllm: Sequence[Line]) -> Figure:
    """Seconds per rollout and per row over their number, one line for each size."""
    with style():
        drawn = Figure(figsize=(11.0, 3.6), layout="constrained")
        vllm, transformers, update = drawn.subplots(1, 3, sharex=True, sharey=True)
        for shape, look in looks(_shapes(lines)).items():
            of_vllm = [line for line in by_vllm if line["shape"] == shape and line["prompts"] == 1]
            of_steps = _whole_steps(lines, shape)
            of_passes = _in_one_pass(lines, shape)
            points_of = {
                vllm: sorted((line["n"], line["seconds"]) for line in of_vllm),
                transformers: sorted((_rollouts(line), generating(line)) for line in of_steps),
                update: sorted((_rows(line), updating(line)) for line in of_passes),
            }
            for axes, points in points_of.items():
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

        vllm.set(title="generating, vLLM", xlabel="rollouts", ylabel="seconds per rollout or row")
        transformers.set(title="generating, transformers", xlabel="rollouts")
        update.set(title="updating", xlabel="rows of a pass")
        for axes in (vllm, transformers, update):
            axes.set(xscale="log", yscale="log")
            axes.set_xticks(_TICKS, [str(count) for count in _TICKS])
            axes.minorticks_off()
        update.legend()
    return drawn


def _with_vllm(lines: Sequence[Line], by_vllm: Sequence[Line]) -> list[str]:
    """The section of steps whose rollouts vLLM generates, put together of two measurements."""
    if not by_vllm:
        return []
    return [
        "## Steps with generation by vLLM",
        "",
        "Both parts were measured on the same card, each for itself: the engine without a trainer"
        " (`python -m benchmarks.sizes.vllm_generation`), with graphs of CUDA and without a"
        " compiler, and the trainer's update. Sending the weights to the engine after each step,"
        " and waking it, is not in it; all arms pay the same for that.",
        "",
        *table_of_steps_with_vllm(lines, by_vllm),
        "",
        *_table_of_vllm(lines, by_vllm),
        "",
    ]


def table_of_steps_with_vllm(lines: Sequence[Line], by_vllm: Sequence[Line]) -> list[str]:
    """The steps of all arms whose rollouts vLLM generates, by size."""
    heads = ["model", "arm", "rollouts → rows", "generating", "updating", "both", "beside GRPO"]
    rows = []
    for shape in dict.fromkeys(line["shape"] for line in by_vllm):
        grpo = step_with_vllm(lines, by_vllm, shape, GRPO)
        for arm in ARMS:
            step = step_with_vllm(lines, by_vllm, shape, arm)
            if step is None:
                continue
            rows.append(
                [
                    shape,
                    arm.name,
                    f"{arm.rollouts} → {arm.rows}",
                    f"{step.generating:.2f} s",
                    f"{step.updating:.2f} s",
                    f"**{sum(step):.2f} s**",
                    f"{sum(step) / sum(grpo):.2f}" if grpo else "-",
                ]
            )
    return table(heads, rows)


def _table_of_vllm(lines: Sequence[Line], by_vllm: Sequence[Line]) -> list[str]:
    """All that was measured of vLLM, and what a rollout costs beside a row."""
    batches = list(dict.fromkeys((line["prompts"], line["n"]) for line in by_vllm))
    heads = [
        "model",
        *(f"{prompts} x {n}" for prompts, n in batches),
        "fixed part",
        "g, per rollout",
        "g/u",
        "`pods recommend` says",
    ]
    rows = []
    for shape in dict.fromkeys(line["shape"] for line in by_vllm):
        seconds = {
            (line["prompts"], line["n"]): line["seconds"]
            for line in by_vllm
            if line["shape"] == shape
        }
        fixed, g = costs_of_vllm(by_vllm, shape)
        _, u = costs_of_updating(lines, shape)
        step = step_with_vllm(lines, by_vllm, shape, PODS)
        rows.append(
            [
                shape,
                *(f"{seconds[batch]:.2f} s" if batch in seconds else "-" for batch in batches),
                _or_dash(fixed, "{:.2f} s"),
                _or_dash(g, "{:.4f} s"),
                _or_dash(g / u, "{:.2f}"),
                _what_recommend_says(step, PODS) if step else "-",
            ]
        )
    return [
        f"Seconds of generating {by_vllm[0]['answer']} tokens for each rollout, by prompts x"
        " rollouts of each. g and the fixed part are a straight line through the batches of one"
        " prompt; u is an update's ([below](#a-step-of-pods-beside-the-others)).",
        "",
        *table(heads, rows),
    ]


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
        return ["", "", "", _duration(updating(line)), "", "", memory]

    seconds = line["seconds"]
    tokens_per_second = _rollouts(line) * line["case"]["answer"] / generating(line)
    return [
        *(_duration(seconds[phase]) for phase in ("generate", "score", "select", "update")),
        f"**{whole(line):.2f} s**",
        f"{tokens_per_second:.0f}",
        memory,
    ]


def _spread(lines: Sequence[Line]) -> list[str]:
    """The range of what was measured more than once: equal generations and equal updates."""
    parts = []
    for shape in _shapes(lines):
        generated: dict[int, list[float]] = defaultdict(list)
        for line in _whole_steps(lines, shape):
            generated[_rollouts(line)].append(generating(line))
        updated: dict[int, list[float]] = defaultdict(list)
        for line in _in_one_pass(lines, shape):
            updated[_rows(line)].append(updating(line))

        for what, found in (
            ("generating {} rollouts", generated),
            ("updating on {} rows", updated),
        ):
            for count, seconds in found.items():
                if len(seconds) > 1:
                    parts.append(
                        f"{shape}, {what.format(count)}: {min(seconds):.2f} to"
                        f" {max(seconds):.2f} s in {len(seconds)} steps"
                    )
    if not parts:
        return []
    return [f"What was measured more than once, with its range: {'; '.join(parts)}.", ""]


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
        pods = _first(lines, shape, PODS)
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
                _what_recommend_says(_step(pods), PODS) if pods else "-",
            ]
        )
    return table(heads, rows)


def _what_recommend_says(step: Step, arm: Arm) -> str:
    """The line of `pods recommend` for a step, by seconds per rollout and per row."""
    ratio = (step.generating / arm.rollouts) / (step.updating / arm.rows)
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


def _what_follows(lines: Sequence[Line], by_vllm: Sequence[Line]) -> list[str]:
    """The authors' speed-up, with the seconds of a step that are measured here."""
    here = []
    pods_by_vllm = step_with_vllm(lines, by_vllm, _AUTHORS_SHAPE, PODS)
    grpo_by_vllm = step_with_vllm(lines, by_vllm, _AUTHORS_SHAPE, GRPO)
    if pods_by_vllm and grpo_by_vllm:
        times = speed_up_here(sum(pods_by_vllm), sum(grpo_by_vllm))
        here.append(f"**{times:.1f} times** as fast with vLLM")

    pods = _first(lines, _AUTHORS_SHAPE, PODS)
    grpo = _first(lines, _AUTHORS_SHAPE, GRPO)
    if pods and grpo:
        times = speed_up_here(whole(pods), whole(grpo))
        here.append(f"**{times:.1f} times** as fast with generation by transformers")
    if not here:
        return []

    return [
        "## What follows for the authors' experiment",
        "",
        f"On one L40S the authors' runs of GSM8K with Qwen2.5-{_AUTHORS_SHAPE}-Instruct took"
        f" {6 * 3600 / AUTHORS_STEPS['GRPO']:.1f} s per step of GRPO and"
        f" {6 * 3600 / AUTHORS_STEPS['PODS']:.1f} s per step of PODS, and PODS was"
        f" {AUTHORS_SPEED_UP:.1f} times as fast to GRPO's level. What is right after how many"
        " steps does not depend on the card. With the seconds of a step that are measured here it"
        f" would be {' and '.join(here)}. Their completions are shorter than 512 tokens on average,"
        " and their generation was another one, so this is an estimate: nothing was trained here.",
        "",
    ]


def _not_measured(lines: Sequence[Line], by_vllm: Sequence[Line]) -> list[str]:
    """What was planned and has no result."""
    steps: dict[str, list[str]] = defaultdict(list)
    updates: dict[str, list[str]] = defaultdict(list)
    for case in missing(plan(), lines):
        if case.generates:
            steps[case.shape].append(in_words(case).removeprefix(f"{case.shape} "))
        else:
            updates[case.shape].append(str(case.arm.rows))

    shapes = dict.fromkeys(case.shape for case in plan())
    without_vllm = [shape for shape in shapes if shape not in {line["shape"] for line in by_vllm}]
    left = [f"* {shape}, whole steps: {'; '.join(of_shape)}" for shape, of_shape in steps.items()]
    left += [
        f"* {shape}, updates alone on so many rows: {', '.join(of_shape)}"
        for shape, of_shape in updates.items()
    ]
    if without_vllm:
        left.append(f"* generation by vLLM: {', '.join(without_vllm)}")
    if not left:
        return []
    return [
        "## What was not measured",
        "",
        "These cases are planned, and have no result: time on the card was over before their turn.",
        "",
        *left,
    ]


def _step(line: Line) -> Step:
    """A step that was measured whole; what is not its update counts as generating."""
    return Step(whole(line) - updating(line), updating(line))


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


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.1f} ms"


def _or_dash(value: float, form: str) -> str:
    return "-" if math.isnan(value) else form.format(value)
