"""The numbers of a report: one row for each arm, and verdicts in words; as JSON and Markdown."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from podslab.report.durations import duration
from podslab.report.load_runs import Arm, Comparison
from podslab.report.statistics import (
    Estimate,
    Rise,
    Speedup,
    best_point,
    estimate_at,
    mean_over_seeds,
    rise,
    speed_up,
)

NOT_REACHED = "not reached"
NOT_LEARNED = "nothing learned"
UNKNOWN = "—"
MEASURES = {
    "answer_accuracy": "answers right",
    "format_accuracy": "in the asked format",
    "both_accuracy": "right and in the asked format",
}
#: How often a bootstrap interval of a mean over so few seeds covers the truth, in %; simulated.
COVERED = {2: 50, 3: 75, 4: 80}
Row = tuple[str, Callable[["ArmSummary"], str]]


@dataclass(frozen=True)
class ArmSummary:
    """The numbers of one arm. Times are in seconds; None where the results don't tell.

    base, peak, final: mean accuracy over seeds, untrained, at the best point and at the end.
    rise: from the first evaluation to the best one, and what of it may be noise.
    speedups: by reference, of which the arm itself may be one.
    """

    arm: str
    seeds: tuple[int, ...]
    base: Estimate | None
    peak: Estimate
    peak_seconds: float
    final: Estimate
    rise: Rise
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
    base, peak = estimate_at(curves.accuracy, 0), best_point(curves)
    if comparison.base == "shared":  # one measurement in every row has no spread over seeds
        base = Estimate(base.mean, None, 1)
    end = int(np.flatnonzero(~np.isnan(mean_over_seeds(curves.accuracy)))[-1])
    seconds, steps, generated, trained = (
        float(mean_over_seeds(values)[end])
        for values in (curves.seconds, curves.steps, curves.generated, curves.trained)
    )
    return ArmSummary(
        arm=arm.name,
        seeds=curves.seeds,
        base=None if comparison.base == "unknown" else base,
        peak=estimate_at(curves.accuracy, peak),
        peak_seconds=float(mean_over_seeds(curves.seconds)[peak]),
        final=estimate_at(curves.accuracy, end),
        rise=rise(curves),
        training_seconds=seconds,
        steps=steps,
        seconds_per_step=seconds / steps,
        peak_memory=arm.peak_memory,
        generated=_none_if_nan(generated),
        trained=_none_if_nan(trained),
        speedups={
            name: speed_up(comparison.arm(name).curves, curves) for name in comparison.references
        },
    )


def few_seeds(comparison: Comparison) -> list[str]:
    """A note where intervals over seeds are far narrower than 95 %, else none."""
    seeds = min(len(arm.curves.seeds) for arm in comparison.arms)
    if not comparison.references or seeds not in COVERED:
        return []
    of_mean = f"one of a mean covers the truth in about {COVERED[seeds]} % of cases"
    return [f"with {seeds} seeds a 95 % interval is too narrow: {of_mean}"]


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def table_rows(
    comparison: Comparison, summaries: Sequence[ArmSummary]
) -> list[tuple[str, list[str]]]:
    """The table of a report: (what, one text for each arm)."""
    time = "modelled " if comparison.clock else ""
    rows: list[Row] = [
        ("seeds", lambda s: str(len(s.seeds))),
        ("accuracy at the start", lambda s: percent(s.base)),
        ("best accuracy", lambda s: percent(s.peak)),
        (f"{time}time of the best", lambda s: duration(s.peak_seconds)),
        ("accuracy at the end", lambda s: percent(s.final)),
        (f"{time}training time", lambda s: duration(s.training_seconds)),
        ("steps", lambda s: f"{s.steps:,.0f}"),
        (f"{time}seconds per step", lambda s: digits(s.seconds_per_step)),
        ("peak memory", lambda s: memory(s.peak_memory)),
        ("rollouts generated", lambda s: count(s.generated)),
        ("rollouts trained", lambda s: count(s.trained)),
    ]
    for reference in comparison.references:
        rows += _speedup_rows(reference, time)
    return [(name, [text(s) for s in summaries]) for name, text in rows]


def _speedup_rows(reference: str, time: str) -> list[Row]:
    def cell(s: ArmSummary, text: Callable[[Speedup], str]) -> str:
        found = s.speedups[reference]
        return text(found) if found.learned else NOT_LEARNED

    def against(text: Callable[[Speedup], str]) -> Callable[[ArmSummary], str]:
        return lambda s: "reference" if s.arm == reference else cell(s, text)

    return [
        (f"{time}time to 99 % of {reference}'s best", lambda s: cell(s, _seconds)),
        (f"{time}speed-up over {reference}", against(speed)),
        ("  95 % interval over seeds", against(interval)),
        ("  median over seeds", against(median)),
    ]


def headline(comparison: Comparison, summaries: Sequence[ArmSummary]) -> tuple[str, str]:
    """From where to where the arm of interest came, and in how many steps.

    That is `pods`, or else the best of the arms that are no reference.
    """
    others = [s for s in summaries if s.arm not in comparison.references] or summaries
    s = max(others, key=lambda s: (s.arm == "pods", s.peak.mean))
    shown = [_rounded(x.mean) for x in (s.base, s.final) if x is not None]
    clock = "modelled training time" if comparison.clock else "training time"
    words = f"{s.arm}: {MEASURES[comparison.measure]}, in {s.steps:,.0f} steps"
    words += f" ({duration(s.training_seconds)} of {clock})"
    if s.base is None:
        words += "; the untrained model was not evaluated"
    if not s.rise.learned:
        words += f". {_not_learned(s)}"
    return " → ".join(shown), f"{words}."


def _not_learned(s: ArmSummary) -> str:
    return (
        f"{s.arm} did not learn: its best is {100 * s.rise.size:.3g} points above its start, and up"
        f" to {100 * s.rise.noise:.3g} points may be noise"
    )


def verdicts(comparison: Comparison, summaries: Sequence[ArmSummary]) -> list[tuple[str, str]]:
    """The references that did not learn, then the speed-up of each arm over the others."""
    lost = [s for s in summaries if s.arm in comparison.references and not s.rise.learned]
    found = [(NOT_LEARNED, f"{_not_learned(s)}: there is nothing to reach.") for s in lost]
    time = "modelled, " if comparison.clock else ""
    for s in sorted(summaries, key=lambda s: s.arm in comparison.references):
        found += [
            (speed(speedup), f"{s.arm} over {name} ({time}95 % interval: {interval(speedup)}).")
            for name, speedup in s.speedups.items()
            if name != s.arm and speedup.learned
        ]
    return found


def as_json(comparison: Comparison, summaries: Sequence[ArmSummary]) -> dict[str, Any]:
    """Everything the table says, as numbers."""
    return {
        "title": comparison.title,
        "details": comparison.details,
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
                "rise": summary.rise._asdict() | {"learned": summary.rise.learned},
                "speedups": {
                    name: asdict(found) | {"median": found.median}
                    for name, found in summary.speedups.items()
                },
            }
            for summary in summaries
        ],
    }


def as_markdown(comparison: Comparison, summaries: Sequence[ArmSummary]) -> str:
    """The title, the verdicts and the table in Markdown."""
    big, words = headline(comparison, summaries)
    lines = [f"## {heading(comparison)}", "", f"**{big}** {words}", ""]
    lines += [comparison.details, ""] if comparison.details else []
    if comparison.clock is not None:
        lines.append(f"* Modelled time, not measured: {comparison.clock} per rollout.")
    lines += [f"* **{ratio}**: {text}" for ratio, text in verdicts(comparison, summaries)]
    lines += [f"* Note: {note}." for note in comparison.notes]
    heads = ["", *(s.arm for s in summaries)]
    rows = [[name, *values] for name, values in table_rows(comparison, summaries)]
    lines.append("")
    for row in (heads, ["---"] * len(heads), *rows):
        cells = [" ".join(text.split()).replace("|", r"\|") for text in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def heading(comparison: Comparison) -> str:
    """The title, the measure, and a warning if times are modelled."""
    text = f"{comparison.title}: {MEASURES[comparison.measure]}"
    return f"{text} — modelled time" if comparison.clock else text


def _rounded(value: float) -> str:
    """For a headline: 18 %."""
    if math.isnan(value):
        return UNKNOWN
    return f"{100 * value:.0f} %" if value >= 0.0995 else f"{100 * value:.1f} %"


def digits(value: float) -> str:
    """Three digits, or all before the point.

    >>> digits(0.12345), digits(1800.4)
    ('0.123', '1,800')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(estimate: Estimate | None) -> str:
    """81.64 ± 0.31 %.

    >>> percent(Estimate(0.8164, 0.0031, 10))
    '81.64 ± 0.31 %'
    """
    if estimate is None:
        return UNKNOWN
    error = "" if estimate.error is None else f" ± {100 * estimate.error:.2f}"
    return f"{100 * estimate.mean:.2f}{error} %"


def _seconds(found: Speedup) -> str:
    return NOT_REACHED if found.seconds is None else duration(found.seconds)


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
    return f"{value:.2f}x" if value else NOT_REACHED


def speed(found: Speedup) -> str:
    """A speed-up: a ratio, or that it was not reached, or that the reference learned nothing.

    >>> speed(Speedup(False, 0.06, True)), speed(Speedup(True, 0.5, True, 9.0, 3.0, 3.0))
    ('nothing learned', '3.00x')
    """
    return times(found.ratio) if found.learned else NOT_LEARNED


def median(found: Speedup) -> str:
    """The median of the speed-ups of single seeds; unknown where seeds are not paired."""
    return times(found.median) if found.by_seed else UNKNOWN


def interval(found: Speedup) -> str:
    """The interval of a speed-up, with the share of resamples in which it was not reached.

    >>> interval(Speedup(True, 0.5, True, low=0.0, high=1.5, reached=0.9))
    'not reached to 1.50x; not reached in 10 % of resamples'
    >>> interval(Speedup(True, 0.5, True, low=0.0, high=0.0, reached=0.001))
    'not reached in > 99 % of resamples'
    """
    if found.low is None or found.high is None or found.reached is None:
        return f"{UNKNOWN} (one seed)" if found.learned else UNKNOWN
    if found.reached == 0:
        return NOT_REACHED
    parts = []
    if found.high:
        parts.append(f"{times(found.low)} to {times(found.high)}")
    if found.reached < 1:
        share = f"{100 * (1 - found.reached):.0f}"
        share = {"0": "< 1", "100": "> 99"}.get(share, share)  # some, and not all
        parts.append(f"{NOT_REACHED} in {share} % of resamples")
    if not found.paired:
        parts.append("seeds not paired")
    return "; ".join(parts)
