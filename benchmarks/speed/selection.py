"""Part 1: what choosing m of n rollouts costs, beside plain Python and beside a step."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.speed import naive
from benchmarks.speed.scale import Report, Scale
from benchmarks.speed.tables import Bar, Table, with_quartiles
from benchmarks.speed.timings import Seconds, growth, ratio, spread, time_in_turns
from podsrl import downsample
from podsrl import downsample_batch
from podslab.report.durations import duration

KINDS = ("numpy", "torch")
RIVALS = {
    "scan": "Algorithm 2, a scan per group",
    "per group": "per group, numpy",
    "per group, torch": "per group, torch",
}
#: Which version of a kind's own arrays, group by group, it is measured against.
PER_GROUP = {"numpy": "per group", "torch": "per group, torch"}
#: The bars.
EXPONENT, SHARE, ACROSS_SECONDS = 1.1, 0.001, 0.05
#: Rows kept across the batch, per prompt.
ROWS_PER_PROMPT = (1, 2, 4, 16, 32)
#: Short calls are repeated within a round, up to about this many seconds.
_ROUND_SECONDS = 0.02


def measure(scale: Scale, report: Report) -> dict[str, Any]:
    """Seconds of `downsample` and of its rivals, in turns, at every size; checked to agree."""
    draw = np.random.default_rng(0)
    sizes = [(p, n) for p in scale.groups for n in scale.group_sizes]
    cells = []
    for done, (p, n) in enumerate(sizes):
        report(done, len(sizes) + 1, f"{p} x {n}")
        rewards = draw.normal(size=(p, n))
        check_agreement(rewards, scale.m)
        cells.append({"groups": p, "n": n, "seconds": _time_all(rewards, scale)})
    report(len(sizes), len(sizes) + 1, "growth with n")
    result = {"m": scale.m, "cells": cells, "growth": _time_growth(draw, scale)}
    result["across"] = _time_across(draw, scale)
    result["step"] = _time_steps(draw, scale)
    report(len(sizes) + 1, len(sizes) + 1, "done")
    return result


def check_agreement(rewards_P_N: np.ndarray, m: int) -> None:
    """All versions keep sets of the same variance.

    Raises:
        AssertionError: they don't.
    """
    tensor = torch.from_numpy(rewards_P_N)
    found = [
        np.var(np.take_along_axis(rewards_P_N, np.asarray(kept), axis=-1), axis=-1)
        for kept in (
            downsample(rewards_P_N, m),
            downsample(tensor, m),
            naive.scan(rewards_P_N.tolist(), m),
            naive.per_group(rewards_P_N, m),
            torch.stack(naive.per_group_torch(tensor, m)),
        )
    ]
    for variance_P in found[1:]:
        np.testing.assert_allclose(variance_P, found[0], rtol=1e-9)


def _time_all(rewards: np.ndarray, scale: Scale) -> Seconds:
    tensor, lists, m = torch.from_numpy(rewards), rewards.tolist(), scale.m
    functions: dict[str, Callable[[], object]] = {
        "numpy": lambda: downsample(rewards, m),
        "torch": lambda: downsample(tensor, m),
        "scan": lambda: naive.scan(lists, m),
        "per group": lambda: naive.per_group(rewards, m),
        "per group, torch": lambda: naive.per_group_torch(tensor, m),
    }
    return _time_repeated(functions, scale.selection_rounds)


def _time_repeated(functions: Mapping[str, Callable[[], object]], rounds: int) -> Seconds:
    """Seconds of one call, where a round makes as many calls as take a while."""
    once = time_in_turns(functions, 1)
    repeats = {name: max(1, round(_ROUND_SECONDS / s[0])) for name, s in once.items()}

    def repeated(name: str) -> Callable[[], None]:
        def call() -> None:
            for _ in range(repeats[name]):
                functions[name]()

        return call

    seconds = time_in_turns({name: repeated(name) for name in functions}, rounds)
    return {name: [s / repeats[name] for s in times] for name, times in seconds.items()}


def _time_growth(draw: np.random.Generator, scale: Scale) -> dict[str, Any]:
    """One long row of sizes, so that an exponent can be fitted; all sizes take turns."""
    groups = scale.growth_groups
    found: dict[str, Any] = {"groups": groups, "n": list(scale.growth_sizes)}
    arrays = [draw.normal(size=(groups, n)) for n in scale.growth_sizes]
    for kind in KINDS:
        given = arrays if kind == "numpy" else [torch.from_numpy(a) for a in arrays]
        functions = {
            str(n): lambda rewards=rewards: downsample(rewards, scale.m)
            for n, rewards in zip(scale.growth_sizes, given, strict=True)
        }
        found[kind] = time_in_turns(functions, scale.selection_rounds)
    return found


def _time_across(draw: np.random.Generator, scale: Scale) -> dict[str, Any]:
    """`downsample_batch` with a seed for ties; what it searches depends on rewards and rows."""
    groups, n = scale.growth_groups, scale.growth_sizes[0]
    of_kind = {
        "0 or 1": (draw.random((groups, n)) < draw.random((groups, 1))).astype(float),
        "0, 0.1, ... 1": draw.integers(0, 11, (groups, n)) / 10,
        "normal": draw.normal(size=(groups, n)),
    }
    functions: dict[str, Callable[[], object]] = {}
    for kind, rewards in of_kind.items():
        for rows in ROWS_PER_PROMPT:
            for name, given in zip(KINDS, (rewards, torch.from_numpy(rewards)), strict=True):
                call = partial(downsample_batch, given, rows * groups, 0)
                functions[f"{kind}; {rows}; {name}"] = call
    seconds = time_in_turns(functions, scale.selection_rounds)
    return {"groups": groups, "n": n, "rewards": list(of_kind), "seconds": seconds}


def _time_steps(draw: np.random.Generator, scale: Scale) -> dict[str, Any]:
    """The selection as a training step makes it: torch, with a seed for ties."""
    functions = {}
    for prompts in sorted({1, scale.prompts}):
        rewards = torch.from_numpy(draw.normal(size=(prompts, scale.n)))
        functions[str(prompts)] = lambda rewards=rewards: downsample(
            rewards, scale.m, "max_variance", [0, 1]
        )
    seconds = _time_repeated(functions, scale.selection_rounds)
    return {"n": scale.n, "prompts": scale.prompts, "seconds": seconds}


def tabulate(
    measured: Mapping[str, Any], step_seconds: Mapping[str, Sequence[float]]
) -> list[Table]:
    """Tables of what `measure` returned.

    Args:
        measured: from `measure`.
        step_seconds: measured seconds of a PODS step by its number of prompts, from the parts that
            time steps; a number of prompts may be missing.
    """
    return [
        _speed(measured),
        _growth(measured["growth"]),
        _across(measured["across"]),
        _share(measured["step"], step_seconds),
    ]


def _speed(measured: Mapping[str, Any]) -> Table:
    rows = []
    for cell in measured["cells"]:
        seconds, p, n = cell["seconds"], cell["groups"], cell["n"]
        row = [f"{p:,} x {n:,}"]
        row += [duration(spread(seconds[name]).median) for name in (*KINDS, *RIVALS)]
        row.append(with_quartiles(ratio(seconds["scan"], seconds["numpy"]), "x"))
        for kind, rival in PER_GROUP.items():
            row.append(with_quartiles(ratio(seconds[rival], seconds[kind]), "x"))
        rows.append(row)
    ratios = ["scan / numpy", *(f"per group / {kind}" for kind in PER_GROUP)]
    return Table(
        f"Selection: max_variance, m = {measured['m']}",
        ["groups x n", *KINDS, *RIVALS.values(), *ratios],
        rows,
        "Median seconds of one call for all groups; ratios round by round, with quartiles. All"
        " versions were checked to keep sets of the same variance.",
    )


def _growth(measured: Mapping[str, Any]) -> Table:
    sizes = measured["n"]
    rows, bars = [], []
    for kind in KINDS:
        medians = [spread(measured[kind][str(n)]).median for n in sizes]
        fit = growth([n * math.log(n) for n in sizes], medians)
        shown = f"{fit.exponent:.3f} +- {fit.error:.3f}"
        rows.append([kind, *map(duration, medians), shown])
        bars.append(Bar(f"{kind}: exponent against n log n", fit.exponent, EXPONENT))
    return Table(
        f"Selection: growth with n, {measured['groups']:,} groups",
        ["", *(f"n = {n:,}" for n in sizes), "exponent of n log n"],
        rows,
        "Seconds = a (n log n)^b, fitted on logarithms; b with its standard error.",
        bars,
    )


def _across(measured: Mapping[str, Any]) -> Table:
    medians = {name: spread(seconds).median for name, seconds in measured["seconds"].items()}
    rows = [
        [kind, str(rows), *(duration(medians[f"{kind}; {rows}; {name}"]) for name in KINDS)]
        for kind in measured["rewards"]
        for rows in ROWS_PER_PROMPT
    ]
    slowest = {name: max(medians[key] for key in medians if key.endswith(name)) for name in KINDS}
    return Table(
        f"Selection across the batch, {measured['groups']:,} x {measured['n']}",
        ["rewards", "rows per prompt", *KINDS],
        rows,
        "`downsample_batch` with a seed for ties. Median seconds of one call; pass rates of rewards"
        " of 0 or 1 are spread evenly.",
        [Bar(f"{name}: seconds of the slowest", slowest[name], ACROSS_SECONDS) for name in KINDS],
    )


def _share(measured: Mapping[str, Any], step_seconds: Mapping[str, Sequence[float]]) -> Table:
    rows, bars = [], []
    for prompts, seconds in measured["seconds"].items():
        what = f"{prompts} prompt{'s' * (prompts != '1')} per step"
        selection, step, share = spread(seconds).median, None, None
        if prompts in step_seconds:
            step = spread(step_seconds[prompts]).median
            share = selection / step
        rows.append(
            [
                what,
                duration(selection),
                "not measured" if step is None else duration(step),
                "" if share is None else f"{100 * share:.2g} %",
            ]
        )
        if prompts == str(measured["prompts"]):
            bars.append(Bar(f"{what}: selection's share of it", share, SHARE, percent=True))
    return Table(
        f"Selection within a step, n = {measured['n']}",
        ["", "selection", "whole step", "share"],
        rows,
        "`downsample` on a torch tensor, as a training step calls it, beside a measured step of"
        " PODS on the embedded model. The bar is for the step that is measured by phase below.",
        bars,
    )
