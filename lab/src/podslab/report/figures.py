"""The figures of a report."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from podslab.durations import time_unit
from podslab.report.drawing import COLOURS, Look, looks, style, wrapped
from podslab.report.load_runs import Arm, Comparison
from podslab.report.summary import MEASURES, ArmSummary, digits
from podslab.statistics.curves import ArmCurves, Floats
from podslab.statistics.speedup import error_over_seeds, mean_over_seeds
from podsrl.rollout_log.run_folder import PHASES

#: Inches; the text of a figure of this width can be read on a phone.
WIDTH = 4.9
#: Lines in one panel at most; more arms become more panels, each with the references.
LINES = 6
#: How each phase is drawn, in their order; hatched for those who see no colours.
_PHASE_LOOKS = (
    (COLOURS[5], ""),
    (COLOURS[4], "////"),
    ("#6f6f6f", "xxxx"),
    (COLOURS[3], "...."),
)


def draw(comparison: Comparison, summaries: Sequence[ArmSummary]) -> dict[str, Figure]:
    """The figures of a comparison by name; those whose data the results don't hold are left out."""
    measure = MEASURES[comparison.measure]
    levels = {
        name: measure.scale * speedup.threshold
        for name, speedup in summaries[0].speedups.items()
        if speedup.learned
    }

    figures = {}
    with style():
        figures[measure.noun] = _lines(
            comparison,
            title=f"{measure.noun.capitalize()} over training time",
            unit=measure.label,
            values_of=lambda curves: measure.scale * curves.accuracy,
            least_span=20.0 if measure.is_share else 0.0,
            levels=levels,
        )
        figures["seconds_per_step"] = _seconds_per_step(comparison, summaries)
        if any(_is_known(arm.curves.length) for arm in comparison.arms):
            figures["length"] = _lines(
                comparison,
                title="Completion length",
                unit="tokens per completion",
                values_of=lambda curves: curves.length,
            )
    return figures


def _is_known(values: Any) -> bool:
    return not np.isnan(values).all()


def describe(name: str, comparison: Comparison) -> str:
    """The caption of a figure: what it shows, in which units, and what its bands are."""
    seeds = max(len(arm.curves.seeds) for arm in comparison.arms)
    lines = "Line: one seed."
    if seeds > 1:
        lines = f"Line: mean over {seeds} seeds; band: 95 % by Student's t over seeds."

    measure = MEASURES[comparison.measure]
    unit = ", %" if measure.is_share else ""
    captions = {
        measure.noun: f"{measure.noun.capitalize()} ({measure.words}{unit}) over training time."
        f" {lines} Across: 99 % of the {measure.goal} of the arm to compare with.",
        "seconds_per_step": "Seconds per step, by phase where that was logged; mean over all steps"
        " and seeds.",
        "length": f"Completion length in tokens over training time. {lines}",
    }
    caption = captions[name]
    if comparison.clock is not None:
        caption += f" Modelled time: {comparison.clock} per rollout."
    return caption


def _panels(
    comparison: Comparison, title: str, rows: int, height: float
) -> tuple[Figure, list[Axes]]:
    """A figure of panels below each other, each of a height in inches, on the same axes."""
    figure = Figure(figsize=(WIDTH, height * rows + 0.35), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, 1, sharex=True, sharey=True)).tolist()
    axes[0].set_title(title)
    if comparison.clock is not None:
        label = f"modelled: {comparison.clock} per rollout"
        figure.supxlabel(label, fontsize=8, color="#A04000", ha="left", x=0.02)
    return figure, axes


def _legend(figure: Figure) -> None:
    """One legend for all panels, beside them."""
    named = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named[label] = handle

    side = "upper" if figure.get_supxlabel() else "lower"  # not over the label
    loc: Any = f"outside {side} center"
    ncols = 4 if len(named) == 4 else 3
    figure.legend(list(named.values()), list(named), loc=loc, ncols=ncols, fontsize=9.5)


# ---- lines over training time


def _lines(
    comparison: Comparison,
    *,
    title: str,
    unit: str,
    values_of: Callable[[ArmCurves], Floats],
    least_span: float = 0.0,
    levels: Mapping[str, float] | None = None,
) -> Figure:
    """A line for each arm.

    Args:
        comparison: The arms.
        title: Of the figure.
        unit: The label of the upright axis.
        values_of: What is drawn of an arm, shape (S, T).
        least_span: The smallest span of the upright axis, so that noise stays small.
        levels: Lines across, by the arm that they belong to.
    """
    arms_of_panels = _arms_of_panels(comparison)
    figure, panels = _panels(comparison, title, rows=len(arms_of_panels), height=3.1)
    figure.supylabel(unit, fontsize="medium")
    time_label, seconds_per_unit, end = _time_axis(comparison)
    panels[-1].set(xlabel=time_label, xlim=(0.0, end))

    every_look = looks(arm.name for arm in comparison.arms)
    bottom, top = _limits([values_of(arm.curves) for arm in comparison.arms], least_span)
    for axes, arms in zip(panels, arms_of_panels, strict=True):
        axes.set_ylim(bottom, top)
        for arm in arms:
            values_S_T = values_of(arm.curves)
            if _is_known(values_S_T):
                time_T = mean_over_seeds(arm.curves.seconds) / seconds_per_unit
                _draw_curve(axes, arm.name, time_T, values_S_T, every_look[arm.name])

        for name, level in (levels or {}).items():
            label = wrapped(f"99 % of {name}")
            colour = every_look[name].color
            axes.axhline(level, color=colour, lw=1.0, ls=(0, (2, 2)), label=label)
    _legend(figure)
    return figure


def _arms_of_panels(comparison: Comparison) -> list[list[Arm]]:
    """The arms of each panel: the references in all of them, the others spread evenly."""
    arms = list(comparison.arms)
    if len(arms) <= LINES:
        return [arms]

    in_all = [arm for arm in arms if arm.name in comparison.references][: LINES - 1]
    others = [arm for arm in arms if arm not in in_all]
    panels = -(-len(others) // (LINES - len(in_all)))  # rounded up

    arms_of_panels = []
    for places in np.array_split(range(len(others)), panels):
        arms_of_panels.append(in_all + [others[place] for place in places])
    return arms_of_panels


def _time_axis(comparison: Comparison) -> tuple[str, float, float]:
    """The label of the axis of training time, its unit in seconds, and its end."""
    longest = max(float(np.nanmax(arm.curves.seconds)) for arm in comparison.arms)
    unit, seconds_per_unit = time_unit(longest)
    kind = "modelled training time" if comparison.clock else "training time"
    return f"{kind} ({unit})", seconds_per_unit, 1.02 * longest / seconds_per_unit


def _draw_curve(axes: Axes, name: str, time_T: Floats, values_S_T: Floats, look: Look) -> None:
    """Draw a mean and its band over seeds."""
    mean_T = mean_over_seeds(values_S_T)
    error_T = np.nan_to_num(error_over_seeds(values_S_T))
    axes.plot(
        time_T, mean_T, color=look.color, ls=look.dashes, marker=look.marker, label=wrapped(name)
    )
    axes.fill_between(
        time_T, mean_T - error_T, mean_T + error_T, color=look.color, alpha=0.15, lw=0
    )


def _limits(values_of_arms: Sequence[Floats], least_span: float) -> tuple[float, float]:
    """Ends of an axis on which all means and bands lie: from 0 if that is near, never narrow."""
    lowest_mean = np.inf
    low = np.inf
    high = -np.inf
    for values_S_T in values_of_arms:
        if not _is_known(values_S_T):
            continue
        mean_T = mean_over_seeds(values_S_T)
        error_T = np.nan_to_num(error_over_seeds(values_S_T))
        lowest_mean = min(lowest_mean, float(np.nanmin(mean_T)))
        low = min(low, float(np.nanmin(mean_T - error_T)))
        high = max(high, float(np.nanmax(mean_T + error_T)))

    # Noise in curves far from 0 must not fill the axis: it spans a quarter of their height.
    least_span = max(least_span, 0.25 * max(abs(low), abs(high)), 1e-9)
    if high - low < least_span:
        middle = (low + high) / 2
        low = middle - least_span / 2
        high = middle + least_span / 2

    # Only the band is below 0 where no mean is.
    zero_is_near = 0 <= low < 0.4 * high
    band_ends_below_zero = low < 0 <= lowest_mean
    margin = 0.04 * (high - low)
    if zero_is_near or band_ends_below_zero:
        return 0.0, high + 0.04 * high
    return low - margin, high + margin


# ---- bars


def _seconds_per_step(comparison: Comparison, summaries: Sequence[ArmSummary]) -> Figure:
    """A row for each arm, made up of the phases, with its total at the end."""
    names = [arm.name for arm in comparison.arms]
    seconds_by_part = {"all": [summary.seconds_per_step for summary in summaries]}
    if all(arm.phases for arm in comparison.arms):
        seconds_by_part = {
            phase: [arm.phases[phase] for arm in comparison.arms] for phase in PHASES
        }

    height = 1.1 + 0.34 * len(names)
    figure, (axes,) = _panels(comparison, "Seconds per step", rows=1, height=height)
    rows = np.arange(len(names))
    total = np.zeros(len(names))
    for (part, seconds), (colour, hatch) in zip(
        seconds_by_part.items(), _PHASE_LOOKS, strict=False
    ):
        axes.barh(
            rows,
            seconds,
            left=total,
            height=0.62,
            label=part,
            color=colour,
            hatch=hatch,
            edgecolor="#ffffff",
            lw=0.0,
        )
        total += seconds

    for row, seconds_of_row in zip(rows, total, strict=True):
        axes.annotate(
            digits(seconds_of_row),
            xy=(seconds_of_row, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
        )
    axes.set_yticks(rows, [wrapped(name) for name in names])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlim(0.0, 1.22 * float(total.max()) or 1.0)
    axes.set_xlabel("modelled seconds per step" if comparison.clock else "seconds per step")
    if len(seconds_by_part) > 1:
        _legend(figure)
    return figure
