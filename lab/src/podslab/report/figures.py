"""The figures of a report."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from podslab.durations import time_unit
from podslab.report.curves import ArmCurves, Floats
from podslab.report.drawing import COLOURS, Look, looks, style, wrapped
from podslab.report.load_runs import Arm, Comparison
from podslab.report.statistics import error_over_seeds, mean_over_seeds
from podslab.report.summary import MEASURES, ArmSummary, digits
from podsrl.rollout_log.run_folder import PHASES

#: Inches; the text of a figure of this width can be read on a phone.
WIDTH = 4.9
#: Lines in one panel at most; more arms become more panels, each with the references.
LINES = 6
_HATCHES = ("", "////", "xxxx", "....")
_PARTS = (COLOURS[5], COLOURS[4], "#6f6f6f", COLOURS[3])


def draw(comparison: Comparison, summaries: Sequence[ArmSummary]) -> dict[str, Figure]:
    """The figures of a comparison by name; those whose data the results don't hold are left out."""
    speedups = summaries[0].speedups
    levels = {name: 100.0 * found.threshold for name, found in speedups.items() if found.learned}
    what, unit = "Accuracy over training time", f"{MEASURES[comparison.measure]} (%)"
    with style():
        drawn = _lines(comparison, what, unit, lambda c: 100.0 * c.accuracy, 20.0, levels)
        figures = {"accuracy": drawn}
        figures["seconds_per_step"] = _seconds_per_step(comparison, summaries)
        if any(_known(arm.curves.length) for arm in comparison.arms):
            what, unit = "Completion length", "tokens per completion"
            figures["length"] = _lines(comparison, what, unit, lambda c: c.length, 0.0, {})
    return figures


def _known(values: Any) -> bool:
    return not np.isnan(values).all()


def describe(name: str, comparison: Comparison) -> str:
    """The caption of a figure: what it shows, in which units, and what its bands are."""
    seeds = max(len(arm.curves.seeds) for arm in comparison.arms)
    mean = f"mean over {seeds} seeds" if seeds > 1 else "one seed"
    band = f"Line: {mean}" + ("; band: ± 1.96 standard errors." if seeds > 1 else ".")
    measure = MEASURES[comparison.measure]
    what = {
        "accuracy": f"Accuracy ({measure}, %) over training time. {band} Across: 99 % of the best"
        " of the arm to compare with.",
        "seconds_per_step": "Seconds per step, by phase where that was logged; mean over all steps"
        " and seeds.",
        "length": f"Completion length in tokens over training time. {band}",
    }[name]
    return what + (f" Modelled time: {comparison.clock} per rollout." if comparison.clock else "")


def _panels(
    comparison: Comparison, title: str, rows: int, height: float
) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(WIDTH, height * rows + 0.35), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, 1, sharex=True, sharey=True)).tolist()
    axes[0].set_title(title)
    if comparison.clock is not None:
        label = f"modelled: {comparison.clock} per rollout"
        figure.supxlabel(label, fontsize=8, color="#A04000", ha="left", x=0.02)
    return figure, axes


def _time(comparison: Comparison) -> tuple[str, float, float]:
    """The label of the axis of training time, its unit in seconds, and its end."""
    longest = max(float(np.nanmax(arm.curves.seconds)) for arm in comparison.arms)
    unit, size = time_unit(longest)
    kind = "modelled training time" if comparison.clock else "training time"
    return f"{kind} ({unit})", size, 1.02 * longest / size


def _shares(comparison: Comparison) -> list[list[Arm]]:
    """The arms of each panel: the references in all of them, the others spread evenly."""
    arms = list(comparison.arms)
    if len(arms) <= LINES:
        return [arms]
    fixed = [arm for arm in arms if arm.name in comparison.references][: LINES - 1]
    others = [arm for arm in arms if arm not in fixed]
    panels = -(-len(others) // (LINES - len(fixed)))
    parts = np.array_split(range(len(others)), panels)
    return [fixed + [others[i] for i in part] for part in parts]


def _curve(axes: Axes, name: str, seconds_T: Floats, values_S_T: Floats, look: Look) -> None:
    """Draw a mean and its band over seeds."""
    mean_T, error_T = mean_over_seeds(values_S_T), np.nan_to_num(error_over_seeds(values_S_T))
    axes.plot(
        seconds_T, mean_T, color=look.color, ls=look.dashes, marker=look.marker, label=wrapped(name)
    )
    axes.fill_between(
        seconds_T, mean_T - error_T, mean_T + error_T, color=look.color, alpha=0.15, lw=0
    )


def _legend(figure: Figure) -> None:
    """One legend for all panels, beside them."""
    named = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named[label] = handle
    where = "upper" if figure.get_supxlabel() else "lower"  # not over the label
    loc: Any = f"outside {where} center"
    ncols = 4 if len(named) == 4 else 3
    figure.legend(list(named.values()), list(named), loc=loc, ncols=ncols, fontsize=9.5)


def _lines(
    comparison: Comparison,
    title: str,
    unit: str,
    values: Callable[[ArmCurves], Floats],
    least: float,
    levels: Mapping[str, float],
) -> Figure:
    """A line for each arm; least: the smallest span of the axis, so that noise stays small.

    levels: lines across, by the arm that they belong to.
    """
    shares = _shares(comparison)
    figure, panels = _panels(comparison, title, len(shares), 3.1)
    label, size, end = _time(comparison)
    panels[-1].set(xlabel=label, xlim=(0.0, end))
    own = looks(arm.name for arm in comparison.arms)
    low, high = _limits([values(arm.curves) for arm in comparison.arms], least)
    figure.supylabel(unit, fontsize="medium")
    for axes, arms in zip(panels, shares, strict=True):
        axes.set_ylim(low, high)
        for arm in arms:
            if _known(values(arm.curves)):
                seconds_T = mean_over_seeds(arm.curves.seconds) / size
                _curve(axes, arm.name, seconds_T, values(arm.curves), own[arm.name])
        for name, level in levels.items():
            text = wrapped(f"99 % of {name}")
            axes.axhline(level, color=own[name].color, lw=1.0, ls=(0, (2, 2)), label=text)
    _legend(figure)
    return figure


def _limits(values: Sequence[Floats], least: float) -> tuple[float, float]:
    """Ends of an axis on which all means and bands lie: from 0 if that is near, never narrow."""
    values = [v for v in values if _known(v)]
    means = [mean_over_seeds(v) for v in values]
    errors = [np.nan_to_num(error_over_seeds(v)) for v in values]
    low = min(float(np.nanmin(m - e)) for m, e in zip(means, errors, strict=True))
    high = max(float(np.nanmax(m + e)) for m, e in zip(means, errors, strict=True))
    least = max(least, 0.25 * max(abs(low), abs(high)), 1e-9)
    if high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2
    if 0 <= low < 0.4 * high or (low < 0 and min(map(np.nanmin, means)) >= 0):
        low = 0.0
    margin = 0.04 * (high - low)
    return low - (margin if low else 0.0), high + margin


def _seconds_per_step(comparison: Comparison, summaries: Sequence[ArmSummary]) -> Figure:
    """A row for each arm, made up of the phases, with its total at the end."""
    arms = [arm.name for arm in comparison.arms]
    parts: dict[str, list[float]] = {"all": [summary.seconds_per_step for summary in summaries]}
    if all(arm.phases for arm in comparison.arms):
        parts = {phase: [arm.phases[phase] for arm in comparison.arms] for phase in PHASES}
    figure, (axes,) = _panels(comparison, "Seconds per step", 1, 1.1 + 0.34 * len(arms))
    rows, left = np.arange(len(arms)), np.zeros(len(arms))
    for (name, widths), colour, hatch in zip(parts.items(), _PARTS, _HATCHES, strict=False):
        look: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "#ffffff", "lw": 0.0}
        axes.barh(rows, widths, left=left, height=0.62, label=name, **look)
        left += widths
    for row, total in zip(rows, left, strict=True):
        axes.annotate(digits(total), (total, row), (4, 0), textcoords="offset points", va="center")
    axes.set_yticks(rows, [wrapped(name) for name in arms])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlim(0.0, 1.22 * float(left.max()) or 1.0)
    axes.set_xlabel("modelled seconds per step" if comparison.clock else "seconds per step")
    if len(parts) > 1:
        _legend(figure)
    return figure
