"""The numbers of a report: one row for each arm, and verdicts in words; as JSON and Markdown."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from podslab.durations import duration
from podslab.evaluation.records import MEAN_REWARD
from podslab.report.load_runs import Arm, Comparison
from podslab.statistics.curves import Floats
from podslab.statistics.speedup import (
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


@dataclass(frozen=True)
class Measure:
    """The words and the numbers of a measure.

    Args:
        words: What is measured.
        noun: What its values are.
        goal: What of the reference's curve the 99 % of a speed-up are of.
        is_share: Whether values are in 0..1, and written in %. Others may begin anywhere, so that
            only their rise has a share.
    """

    words: str
    noun: str = "accuracy"
    goal: str = "best"
    is_share: bool = True

    @property
    def label(self) -> str:
        """The words, with the unit if there is one."""
        return f"{self.words} (%)" if self.is_share else self.words

    @property
    def scale(self) -> float:
        """What values are multiplied by where they are drawn."""
        return 100.0 if self.is_share else 1.0

    def rounded(self, value: float) -> str:
        """A value for a headline."""
        return _rounded(value) if self.is_share else f"{value:.2f}"

    def estimated(self, estimate: Estimate | None) -> str:
        """An estimate with its error."""
        return percent(estimate) if self.is_share else reward(estimate)

    def change(self, value: float) -> str:
        """A change of a value."""
        return f"{100 * value:.3g} points" if self.is_share else f"{value:.3g}"


MEASURES = {
    "answer_accuracy": Measure("answers right"),
    "format_accuracy": Measure("in the asked format"),
    "both_accuracy": Measure("right and in the asked format"),
    MEAN_REWARD: Measure("mean reward", noun="reward", goal="rise", is_share=False),
}
#: How often a bootstrap interval of a mean over so few seeds covers the truth, in %; simulated.
COVERED = {2: 50, 3: 75, 4: 80}

#: A row of the table: what it is, and its text for an arm.
Row = tuple[str, Callable[["ArmSummary"], str]]


@dataclass(frozen=True)
class ArmSummary:
    """The numbers of one arm. Times are in seconds; None where the results don't tell.

    Args:
        arm: The arm's name.
        seeds: The seeds of its runs.
        base, peak, final: The mean accuracy over seeds, untrained, at the best point and at the
            end.
        peak_seconds: The training time until the best point.
        rise: From the first evaluation to the best one, and what of it may be noise.
        training_seconds, steps: The training time and the optimiser steps until the end.
        seconds_per_step: The mean training time of a step.
        peak_memory: In bytes.
        generated, trained: The numbers of rollouts until the end.
        speedups: By reference, of which the arm itself may be one.
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
    best = best_point(curves)
    end = int(np.flatnonzero(~np.isnan(mean_over_seeds(curves.accuracy)))[-1])

    def mean_at(values_S_T: Floats, point: int) -> float:
        return float(mean_over_seeds(values_S_T)[point])

    of_rise = not MEASURES[comparison.measure].is_share
    training_seconds = mean_at(curves.seconds, end)
    steps = mean_at(curves.steps, end)
    return ArmSummary(
        arm=arm.name,
        seeds=curves.seeds,
        base=_untrained(arm, comparison),
        peak=estimate_at(curves.accuracy, best),
        peak_seconds=mean_at(curves.seconds, best),
        final=estimate_at(curves.accuracy, end),
        rise=rise(curves),
        training_seconds=training_seconds,
        steps=steps,
        seconds_per_step=training_seconds / steps,
        peak_memory=arm.peak_memory,
        generated=_none_if_nan(mean_at(curves.generated, end)),
        trained=_none_if_nan(mean_at(curves.trained, end)),
        speedups={
            name: speed_up(comparison.arm(name).curves, curves, of_rise=of_rise)
            for name in comparison.references
        },
    )


def _untrained(arm: Arm, comparison: Comparison) -> Estimate | None:
    """The accuracy of the untrained model; None where it was not evaluated."""
    if comparison.base == "unknown":
        return None
    base = estimate_at(arm.curves.accuracy, 0)
    if comparison.base == "shared":
        # The one measurement stands in the row of every seed, so it has no spread over seeds.
        return Estimate(base.mean, error=None, seeds=1)
    return base


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def few_seeds(comparison: Comparison) -> list[str]:
    """A note where bootstrap intervals over seeds are far narrower than 95 %, else none."""
    seeds = min(len(arm.curves.seeds) for arm in comparison.arms)
    if not comparison.references or seeds not in COVERED:
        return []
    return [
        f"with {seeds} seeds the interval of a speed-up is too narrow: a bootstrap over so few"
        f" covers the truth in about {COVERED[seeds]} % of cases"
    ]


# ---- the table


def table_rows(
    comparison: Comparison, summaries: Sequence[ArmSummary]
) -> list[tuple[str, list[str]]]:
    """The table of a report: (what, one text for each arm)."""
    time = "modelled " if comparison.clock else ""
    measure = MEASURES[comparison.measure]
    rows: list[Row] = [
        ("seeds", lambda s: str(len(s.seeds))),
        (f"{measure.noun} at the start", lambda s: measure.estimated(s.base)),
        (f"best {measure.noun}", lambda s: measure.estimated(s.peak)),
        (f"{time}time of the best", lambda s: duration(s.peak_seconds)),
        (f"{measure.noun} at the end", lambda s: measure.estimated(s.final)),
        (f"{time}training time", lambda s: duration(s.training_seconds)),
        ("steps", lambda s: f"{s.steps:,.0f}"),
        (f"{time}seconds per step", lambda s: digits(s.seconds_per_step)),
        ("peak memory", lambda s: memory(s.peak_memory)),
        ("rollouts generated", lambda s: count(s.generated)),
        ("rollouts trained", lambda s: count(s.trained)),
    ]
    for reference in comparison.references:
        rows += _speedup_rows(reference, time, measure)

    return [(name, [text(summary) for summary in summaries]) for name, text in rows]


def _speedup_rows(reference: str, time: str, measure: Measure) -> list[Row]:
    def cell(summary: ArmSummary, text: Callable[[Speedup], str]) -> str:
        speedup = summary.speedups[reference]
        return text(speedup) if speedup.learned else NOT_LEARNED

    def against(text: Callable[[Speedup], str]) -> Callable[[ArmSummary], str]:
        return lambda s: "reference" if s.arm == reference else cell(s, text)

    return [
        (f"{time}time to 99 % of {reference}'s {measure.goal}", lambda s: cell(s, _time_to_reach)),
        (f"{time}speed-up over {reference}", against(speed)),
        ("  95 % interval over seeds", against(interval)),
        ("  median over seeds", against(median)),
    ]


# ---- in words


def headline(comparison: Comparison, summaries: Sequence[ArmSummary]) -> tuple[str, str]:
    """From where to where the arm of interest came, and in how many steps.

    That is `pods`, or else the best of the arms that are no reference.
    """
    others = [summary for summary in summaries if summary.arm not in comparison.references]
    shown = max(others or summaries, key=lambda s: (s.arm == "pods", s.peak.mean))

    measure = MEASURES[comparison.measure]
    ends = [measure.rounded(shown.final.mean)]
    if shown.base is not None:
        ends.insert(0, measure.rounded(shown.base.mean))

    clock = "modelled training time" if comparison.clock else "training time"
    words = (
        f"{shown.arm}: {measure.words}, in {shown.steps:,.0f} steps"
        f" ({duration(shown.training_seconds)} of {clock})"
    )
    if shown.base is None:
        words += "; the untrained model was not evaluated"
    if not shown.rise.learned:
        words += f". {_not_learned(shown, measure)}"
    return " → ".join(ends), f"{words}."


def _not_learned(summary: ArmSummary, measure: Measure) -> str:
    return (
        f"{summary.arm} did not learn: its best is {measure.change(summary.rise.size)} above its"
        f" start, and up to {measure.change(summary.rise.noise)} may be noise"
    )


def verdicts(comparison: Comparison, summaries: Sequence[ArmSummary]) -> list[tuple[str, str]]:
    """The references that did not learn, then the speed-up of each arm over the others."""
    measure = MEASURES[comparison.measure]
    pairs = [
        (NOT_LEARNED, f"{_not_learned(summary, measure)}: there is nothing to reach.")
        for summary in summaries
        if summary.arm in comparison.references and not summary.rise.learned
    ]

    time = "modelled, " if comparison.clock else ""
    references_last = sorted(summaries, key=lambda s: s.arm in comparison.references)
    for summary in references_last:
        for name, speedup in summary.speedups.items():
            if name != summary.arm and speedup.learned:
                how_sure = f"{time}95 % interval: {interval(speedup)}"
                pairs.append((speed(speedup), f"{summary.arm} over {name} ({how_sure})."))
    return pairs


def heading(comparison: Comparison) -> str:
    """The title, the measure, and a warning if times are modelled."""
    text = f"{comparison.title}: {MEASURES[comparison.measure].words}"
    return f"{text} — modelled time" if comparison.clock else text


# ---- as files


def as_json(comparison: Comparison, summaries: Sequence[ArmSummary]) -> dict[str, Any]:
    """Everything the table says, as numbers."""
    return {
        "title": comparison.title,
        "details": comparison.details,
        "measure": comparison.measure,
        "time": "measured" if comparison.clock is None else "modelled",
        "clock": None if comparison.clock is None else asdict(comparison.clock),
        "notes": list(comparison.notes),
        "arms": [_arm_as_json(summary) for summary in summaries],
    }


def _arm_as_json(summary: ArmSummary) -> dict[str, Any]:
    # `asdict` leaves named tuples as they are, which JSON would write as lists, and properties out.
    numbers = asdict(summary)
    numbers["base"] = None if summary.base is None else summary.base._asdict()
    numbers["peak"] = summary.peak._asdict()
    numbers["final"] = summary.final._asdict()
    numbers["rise"] = summary.rise._asdict() | {"learned": summary.rise.learned}
    for name, speedup in summary.speedups.items():
        numbers["speedups"][name]["median"] = speedup.median
    return numbers


def as_markdown(comparison: Comparison, summaries: Sequence[ArmSummary]) -> str:
    """The title, the verdicts and the table in Markdown."""
    from_to, words = headline(comparison, summaries)
    lines = [f"## {heading(comparison)}", "", f"**{from_to}** {words}", ""]
    if comparison.details:
        lines += [comparison.details, ""]
    if comparison.clock is not None:
        lines.append(f"* Modelled time, not measured: {comparison.clock} per rollout.")
    lines += [f"* **{ratio}**: {text}" for ratio, text in verdicts(comparison, summaries)]
    lines += [f"* Note: {note}." for note in comparison.notes]
    lines.append("")

    heads = ["", *(summary.arm for summary in summaries)]
    lines += [_markdown_row(heads), _markdown_row(["---"] * len(heads))]
    for name, texts in table_rows(comparison, summaries):
        lines.append(_markdown_row([name, *texts]))
    return "\n".join([*lines, ""])


def _markdown_row(texts: Sequence[str]) -> str:
    cells = [" ".join(text.split()).replace("|", r"\|") for text in texts]
    return f"| {' | '.join(cells)} |"


# ---- numbers as text


def _rounded(share: float) -> str:
    """For a headline: 18 %."""
    if math.isnan(share):
        return UNKNOWN
    # Two digits: 9.9 %, 18 %.
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"


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


def reward(estimate: Estimate | None) -> str:
    """-4.018 ± 0.030.

    >>> reward(Estimate(-4.0175, 0.0297, 4))
    '-4.018 ± 0.030'
    """
    if estimate is None:
        return UNKNOWN
    error = "" if estimate.error is None else f" ± {estimate.error:.3f}"
    return f"{estimate.mean:.3f}{error}"


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


def _time_to_reach(speedup: Speedup) -> str:
    return NOT_REACHED if speedup.seconds is None else duration(speedup.seconds)


def speed(speedup: Speedup) -> str:
    """A speed-up: a ratio, or that it was not reached, or that the reference learned nothing.

    >>> speed(Speedup(False, 0.06, True)), speed(Speedup(True, 0.5, True, 9.0, 3.0, 3.0))
    ('nothing learned', '3.00x')
    """
    return times(speedup.ratio) if speedup.learned else NOT_LEARNED


def median(speedup: Speedup) -> str:
    """The median of the speed-ups of single seeds; unknown where seeds are not paired."""
    return times(speedup.median) if speedup.by_seed else UNKNOWN


def interval(speedup: Speedup) -> str:
    """The interval of a speed-up, with the share of resamples in which it was not reached.

    >>> interval(Speedup(True, 0.5, True, low=0.0, high=1.5, reached=0.9))
    'not reached to 1.50x; not reached in 10 % of resamples'
    >>> interval(Speedup(True, 0.5, True, low=0.0, high=0.0, reached=0.001))
    'not reached in > 99 % of resamples'
    """
    if speedup.low is None or speedup.high is None or speedup.reached is None:
        return f"{UNKNOWN} (one seed)" if speedup.learned else UNKNOWN
    if speedup.reached == 0:
        return NOT_REACHED

    parts = []
    if speedup.high:
        parts.append(f"{times(speedup.low)} to {times(speedup.high)}")
    if speedup.reached < 1:
        missed = f"{100 * (1 - speedup.reached):.0f}"
        missed = {"0": "< 1", "100": "> 99"}.get(missed, missed)  # it is some, and not all
        parts.append(f"{NOT_REACHED} in {missed} % of resamples")
    if not speedup.paired:
        parts.append("seeds not paired")
    return "; ".join(parts)
