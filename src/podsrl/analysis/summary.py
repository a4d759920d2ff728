"""The numbers of a report: one row for each arm, and verdicts in words; as JSON and Markdown."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from podsrl.analysis.curves import Floats
from podsrl.analysis.load_runs import Arm, Comparison
from podsrl.analysis.statistics import (
    Estimate,
    Speedup,
    best_point,
    estimate_at,
    mean_over_seeds,
    speed_up,
)

NOT_REACHED = "not reached"
UNKNOWN = "—"
MEASURES = {
    "answer_accuracy": "answers right",
    "format_accuracy": "in the asked format",
    "both_accuracy": "right and in the asked format",
}


@dataclass(frozen=True)
class ArmSummary:
    """The numbers of one arm. Times are in seconds; None where the results don't tell.

    base, peak, final: mean accuracy over seeds, untrained, at the best point and at the end.
    speedups: by reference, of which the arm itself may be one.
    """

    arm: str
    seeds: tuple[int, ...]
    base: Estimate | None
    peak: Estimate
    peak_seconds: float
    final: Estimate
    training_seconds: float
    steps: float
    seconds_per_step: float
    peak_memory: float | None
    generated: float | None
    trained: float | None
    speedups: dict[str, Speedup]


def summarise(comparison: Comparison) -> list[ArmSummary]:
    """The numbers of every arm of a comparison."""
    return [_arm_summary(arm, comparison) for arm in comparison.arms]


def _arm_summary(arm: Arm, comparison: Comparison) -> ArmSummary:
    curves = arm.curves
    peak = best_point(curves)
    end = int(np.flatnonzero(~np.isnan(mean_over_seeds(curves.accuracy)))[-1])
    seconds, steps, generated, trained = (
        float(mean_over_seeds(values)[end])
        for values in (curves.seconds, curves.steps, curves.generated, curves.trained)
    )
    return ArmSummary(
        arm=arm.name,
        seeds=curves.seeds,
        base=_base(comparison, curves.accuracy),
        peak=estimate_at(curves.accuracy, peak),
        peak_seconds=float(mean_over_seeds(curves.seconds)[peak]),
        final=estimate_at(curves.accuracy, end),
        training_seconds=seconds,
        steps=steps,
        seconds_per_step=seconds / steps,
        peak_memory=arm.peak_memory,
        generated=_known(generated),
        trained=_known(trained),
        speedups={
            name: speed_up(comparison.arm(name).curves, curves) for name in comparison.references
        },
    )


def _base(comparison: Comparison, accuracy_S_T: Floats) -> Estimate | None:
    if comparison.base == "unknown":
        return None
    estimate = estimate_at(accuracy_S_T, 0)
    # One measurement stands in every row: it has no spread over seeds.
    return estimate if comparison.base == "own" else Estimate(estimate.mean, None, 1)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def table(comparison: Comparison, summaries: list[ArmSummary]) -> list[tuple[str, list[str]]]:
    """The table of a report: (what, one text for each arm)."""
    time = "modelled " if comparison.clock else ""
    rows: list[tuple[str, Callable[[ArmSummary], str]]] = [
        ("seeds", lambda s: str(len(s.seeds))),
        ("base accuracy", lambda s: percent(s.base)),
        ("peak accuracy", lambda s: percent(s.peak)),
        (f"{time}time of the peak", lambda s: duration(s.peak_seconds)),
        ("final accuracy", lambda s: percent(s.final)),
        (f"{time}training time", lambda s: duration(s.training_seconds)),
        ("steps", lambda s: f"{s.steps:,.0f}"),
        (f"{time}seconds per step", lambda s: f"{s.seconds_per_step:.3g}"),
        ("peak memory", lambda s: memory(s.peak_memory)),
        ("rollouts generated", lambda s: count(s.generated)),
        ("rollouts trained", lambda s: count(s.trained)),
    ]
    for reference in comparison.references:
        rows += _speedup_rows(reference, time)
    return [(name, [text(s) for s in summaries]) for name, text in rows]


def _speedup_rows(reference: str, time: str) -> list[tuple[str, Callable[[ArmSummary], str]]]:
    def against(text: Callable[[Speedup], str]) -> Callable[[ArmSummary], str]:
        return lambda s: "reference" if s.arm == reference else text(s.speedups[reference])

    return [
        (
            f"{time}time to 99 % of {reference}'s peak",
            lambda s: duration(s.speedups[reference].seconds),
        ),
        (f"{time}speed-up over {reference}", against(lambda found: times(found.ratio))),
        ("  95 % interval over seeds", against(interval)),
        (
            "  median over seeds",
            against(lambda found: times(found.median) if found.by_seed else UNKNOWN),
        ),
    ]


def verdicts(comparison: Comparison, summaries: list[ArmSummary]) -> list[tuple[str, str]]:
    """For each arm and reference the speed-up, and a sentence that says how much sooner, or never.

    Arms that are no reference come first.
    """
    clock = "modelled " if comparison.clock else ""
    found = []
    for summary in sorted(summaries, key=lambda s: s.arm in comparison.references):
        for reference, speedup in summary.speedups.items():
            goal = f"99 % of {reference}'s best accuracy ({100 * speedup.threshold:.2f} %)"
            if reference == summary.arm:
                continue
            if speedup.ratio is None:
                total = duration(summary.training_seconds)
                text = f"{summary.arm} never reaches {goal} in {total} of {clock}training time"
            else:
                text = (
                    f"{summary.arm} reaches {goal} after {duration(speedup.seconds)} of"
                    f" {clock}training time, {reference} after"
                    f" {duration(speedup.reference_seconds)}"
                )
            if speedup.reached == 0:
                text += ", nor does any bootstrap resample of its seeds"
            elif speedup.reached is not None:
                text += f"; 95 % interval {interval(speedup)}"
            found.append((times(speedup.ratio), f"{text}."))
    return found


def as_json(comparison: Comparison, summaries: list[ArmSummary]) -> dict[str, Any]:
    """Everything the table says, as numbers."""
    return {
        "title": comparison.title,
        "measure": comparison.measure,
        "time": "measured" if comparison.clock is None else "modelled",
        "clock": None if comparison.clock is None else asdict(comparison.clock),
        "notes": list(comparison.notes),
        "arms": [
            asdict(summary)
            | {
                "base": summary.base and summary.base._asdict(),
                "peak": summary.peak._asdict(),
                "final": summary.final._asdict(),
                "speedups": {
                    name: asdict(found) | {"median": found.median}
                    for name, found in summary.speedups.items()
                },
            }
            for summary in summaries
        ],
    }


def as_markdown(comparison: Comparison, summaries: list[ArmSummary]) -> str:
    """The title, the verdicts and the table in Markdown."""
    lines = [f"## {heading(comparison)}", ""]
    if comparison.clock is not None:
        lines.append(f"* Modelled time, not measured: {comparison.clock} per rollout.")
    lines += [f"* **{ratio}**: {text}" for ratio, text in verdicts(comparison, summaries)]
    lines += [f"* Note: {note}." for note in comparison.notes]
    rows = [("", [s.arm for s in summaries]), *table(comparison, summaries)]
    cells = [[name.strip(), *values] for name, values in rows]
    cells = [[cell.replace("|", r"\|") for cell in row] for row in cells]
    text = ["| " + " | ".join(row) + " |" for row in cells]
    rule = "|" + " --- |" * len(cells[0])
    return "\n".join([*lines, "", text[0], rule, *text[1:], ""])


def heading(comparison: Comparison) -> str:
    """The title, the measure, and a warning if times are modelled."""
    text = f"{comparison.title}: {MEASURES[comparison.measure]}"
    return f"{text} — modelled time" if comparison.clock else text


def percent(estimate: Estimate | None) -> str:
    """81.64 ± 0.31 %.

    >>> percent(Estimate(0.8164, 0.0031, 10))
    '81.64 ± 0.31 %'
    """
    if estimate is None:
        return UNKNOWN
    error = "" if estimate.error is None else f" ± {100 * estimate.error:.2f}"
    return f"{100 * estimate.mean:.2f}{error} %"


def duration(seconds: float | None) -> str:
    """Seconds, minutes or hours, whichever reads best; None is "not reached".

    >>> duration(5400.0), duration(840.0), duration(12.34), duration(None)
    ('1.5 h', '14 min', '12.3 s', 'not reached')
    """
    if seconds is None:
        return NOT_REACHED
    unit, size = time_unit(seconds)
    return f"{seconds / size:.3g} {unit}"


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit that fits a time, and its length in seconds."""
    if seconds >= 5400:
        return "h", 3600.0
    return ("min", 60.0) if seconds >= 180 else ("s", 1.0)


def memory(size: float | None) -> str:
    """Bytes in GiB."""
    return UNKNOWN if size is None else f"{size / 2**30:.2f} GiB"


def count(value: float | None) -> str:
    """A number of rollouts; it may be a mean over seeds."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def times(value: float | None) -> str:
    """A ratio; None and 0 are "not reached".

    >>> times(2.0), times(0.0)
    ('2.00x', 'not reached')
    """
    return f"{value:.2f}x" if value and np.isfinite(value) else NOT_REACHED


def interval(found: Speedup) -> str:
    """The interval of a speed-up, with the share of resamples in which it was not reached.

    >>> some = Speedup(0.5, 9.0, None, None, 0.0, 1.5, 0.9, True, ())
    >>> interval(some)
    'not reached to 1.50x; not reached in 10 % of resamples'
    >>> interval(Speedup(0.5, 9.0, None, None, 0.0, 0.0, 0.01, True, ()))
    'not reached in 99 % of resamples'
    """
    if found.low is None or found.high is None or found.reached is None:
        return f"{UNKNOWN} (one seed)"
    if found.reached == 0:
        return NOT_REACHED
    parts = []
    if found.high:
        parts.append(f"{times(found.low)} to {times(found.high)}")
    if found.reached < 1:
        parts.append(f"{NOT_REACHED} in {100 * (1 - found.reached):.0f} % of resamples")
    if not found.paired:
        parts.append("seeds not paired")
    return "; ".join(parts)
