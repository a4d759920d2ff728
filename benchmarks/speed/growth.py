"""Part 3: how a PODS step grows with n, m, the prompts of a step, and the processes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.speed.family import measure_in_turns, turns
from benchmarks.speed.probe import PHASES
from benchmarks.speed.scale import Report, Scale
from benchmarks.speed.step import whole
from benchmarks.speed.tables import Bar, Table
from benchmarks.speed.timings import growth, ratio, spread
from benchmarks.speed.trainers import Setting
from podslab.report.durations import duration

#: An update must not notice n; nothing may grow faster than what it is given.
FLAT, LINEAR = 0.1, 1.1
TIMES_PROMPTS = 4
_SHOWN = tuple(phase for phase in PHASES if phase != "log-probs")  # there are none in these runs


def families(scale: Scale, model: str) -> dict[str, list[Setting]]:
    """What is measured side by side: n, m, and prompts with processes."""

    def setting(name: str, n: int = scale.n, m: int = scale.m, prompts: int = 1) -> Setting:
        return Setting(
            name=name,
            model=model,
            columns=scale.tiny.max_columns,
            prompts=prompts,
            n=n,
            m=m,
            micro_batch=prompts * m,
            ours=True,
            max_completion_length=scale.max_completion_length,
            options={"fast_generation": True},  # at n = m, too
        )

    many = setting(f"{TIMES_PROMPTS} prompts", prompts=TIMES_PROMPTS)
    shared = replace(many, name="2 processes", micro_batch=many.micro_batch // 2, processes=2)
    return {
        "n": [setting(str(n), n=n) for n in scale.sweep_n],
        "m": [setting(str(m), m=m) for m in scale.sweep_m],
        "prompts": [setting("1 prompt"), many, shared],
    }


def measure(scale: Scale, model: str, logs: Path, report: Report) -> dict[str, Any]:
    """Seconds by phase of every setting; the settings of a family take turns."""
    chosen = families(scale, model)
    total = sum(turns(len(settings), scale.growth_rounds) for settings in chosen.values())
    done = 0
    found: dict[str, Any] = {"n": scale.n, "m": scale.m, "families": {}}
    for family, settings in chosen.items():

        def tick(name: str, family: str = family) -> None:
            nonlocal done
            done += 1
            report(done, total, f"{family}: {name}")

        measured = measure_in_turns(settings, scale.growth_rounds, logs / family, tick)
        found["families"][family] = {name: s.as_json() for name, s in measured.items()}
    return found


def tabulate(measured: Mapping[str, Any]) -> list[Table]:
    """A table for each family, from what `measure` returned."""
    families, n, m = measured["families"], measured["n"], measured["m"]
    limits_n = {"generate": LINEAR, "select": LINEAR, "update": FLAT}
    limits_m = {"generate": LINEAR, "select": LINEAR, "update": LINEAR}
    return [
        _sweep(f"A step of PODS as n grows, m = {m}, 1 prompt", "n", families["n"], limits_n),
        _sweep(f"A step of PODS as m grows, n = {n}, 1 prompt", "m", families["m"], limits_m),
        _prompts(f"A step of PODS as prompts and processes grow, {n} -> {m}", families["prompts"]),
    ]


def _sweep(title: str, letter: str, found: Mapping[str, Any], limits: Mapping[str, float]) -> Table:
    sizes = [float(name) for name in found]
    medians = {
        phase: [_median(steps["seconds"], phase) for steps in found.values()] for phase in _SHOWN
    }
    rows = _rows(found)
    exponents = {phase: growth(sizes, medians[phase]) for phase in _SHOWN}
    steps = [spread([whole(s) for s in steps["seconds"]]).median for steps in found.values()]
    fitted = [*exponents.values(), growth(sizes, steps)]
    rows.append([f"exponent of {letter}", *(f"{f.exponent:.2f} +- {f.error:.2f}" for f in fitted)])
    bars = [
        Bar(f"{phase}: exponent of {letter}", exponents[phase].exponent, limit)
        for phase, limit in limits.items()
    ]
    note = (
        f"Median seconds of a step; the exponent is b in seconds = a {letter}^b, with its standard"
        " error."
    )
    return Table(title, [letter, *_SHOWN, "whole step"], rows, note, bars)


def _prompts(title: str, found: Mapping[str, Any]) -> Table:
    def seconds(name: str) -> list[float]:
        return [whole(s) for s in found[name]["seconds"]]

    one, many, shared = found
    bars = [
        Bar.of(
            f"step, {many} / {one}",
            ratio(seconds(many), seconds(one)),
            LINEAR * TIMES_PROMPTS,
        ),
        Bar.of(f"step, {shared} / one, {many}", ratio(seconds(shared), seconds(many)), LINEAR),
    ]
    note = (
        f"Median seconds of a step. The {shared} share {many} and the threads that the other rows"
        " have to themselves; their time is the main process's."
    )
    return Table(title, ["", *_SHOWN, "whole step"], _rows(found), note, bars)


def _rows(found: Mapping[str, Any]) -> list[list[str]]:
    return [
        [
            name,
            *(duration(_median(steps["seconds"], phase)) for phase in _SHOWN),
            duration(spread([whole(s) for s in steps["seconds"]]).median),
        ]
        for name, steps in found.items()
    ]


def _median(seconds: Sequence[Mapping[str, float]], phase: str) -> float:
    return spread([s[phase] for s in seconds]).median
