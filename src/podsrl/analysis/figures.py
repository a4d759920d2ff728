"""The figures of a report, in colours that the colour-blind can tell apart (Okabe and Ito)."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from podsrl.analysis.curves import ArmCurves, Floats
from podsrl.analysis.load_runs import Comparison
from podsrl.analysis.statistics import error_over_seeds, mean_over_seeds
from podsrl.analysis.summary import MEASURES, ArmSummary, time_unit
from podsrl.analysis.training_log import PHASES

_USUAL = {"grpo": "#D55E00", "grpo_ga": "#E69F00", "pods": "#0072B2"}
COLOURS = ("#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#D55E00", "#0072B2", "#4D4D4D")
_MARKERS = "osD^vPX*"
_PHASES = dict(zip(PHASES, ("#56B4E9", "#CC79A7", "#4D4D4D", "#009E73"), strict=True))
_STYLE = {
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8A8A8A",
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "podsrl",  # the same figure gives the same file
}


def draw(comparison: Comparison, summaries: Sequence[ArmSummary]) -> dict[str, Figure]:
    """The figures of a comparison by name; those whose data the results don't hold are left out."""
    with style():
        figures = {
            "accuracy": _accuracy(comparison, summaries),
            "seconds_per_step": _seconds_per_step(comparison, summaries),
            "length": _length(comparison),
        }
        if any(arm.log is not None for arm in comparison.arms):
            figures["rewards"] = _rewards(comparison)
    return figures


def render(figure: Figure, kind: str) -> bytes:
    """A figure as "png" or "svg"; the same figure always gives the same bytes."""
    buffer = io.BytesIO()
    with style():
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
    return buffer.getvalue()


def describe(name: str, comparison: Comparison) -> str:
    """What a figure shows, in words, for those who don't see it."""
    arms = ", ".join(arm.name for arm in comparison.arms)
    what = {
        "accuracy": "Accuracy against training time: means and 1.96 standard errors over seeds",
        "seconds_per_step": "Seconds per step, by phase",
        "length": "Mean completion length in tokens against training time",
        "rewards": "Mean reward of all, kept and dropped rollouts against training time",
    }[name]
    return f"{what}; {arms}" + ("; modelled time" if comparison.clock else "")


@contextmanager
def style() -> Iterator[None]:
    """The looks that all figures of the project share."""
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        yield


def _axes(comparison: Comparison, title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.2, 3.5), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    if comparison.clock is not None:
        label = f"modelled: {comparison.clock} per rollout"
        figure.supxlabel(label, fontsize=8, color="#A04000", ha="left", x=0.02)
    return figure, axes


def _time_axis(comparison: Comparison, axes: Axes) -> float:
    """Label the axis of training time; returns its unit in seconds."""
    longest = max(float(np.nanmax(arm.curves.seconds)) for arm in comparison.arms)
    unit, size = time_unit(longest)
    kind = "modelled training time" if comparison.clock else "training time"
    axes.set_xlabel(f"{kind} ({unit})")
    axes.set_xlim(0.0, 1.02 * longest / size)
    return size


def _looks(comparison: Comparison) -> dict[str, dict[str, Any]]:
    others = iter(COLOURS * len(comparison.arms))
    usual = all(arm.name in _USUAL for arm in comparison.arms)
    return {
        arm.name: {
            "color": _USUAL[arm.name] if usual else next(others),
            "marker": _MARKERS[i % len(_MARKERS)],
            "label": _plain(arm.name),
        }
        for i, arm in enumerate(comparison.arms)
    }


def _plain(text: str) -> str:
    """Text in which matplotlib finds no formula, short enough for a legend."""
    short = text if len(text) <= 28 else f"{text[:27]}…"
    return short.replace("$", r"\$")


def _curve(axes: Axes, curves: ArmCurves, values_S_T: Floats, size: float, look: Any) -> Floats:
    """Draw a mean and its band over seeds; returns the ends of the band, trained model only."""
    seconds_T = mean_over_seeds(curves.seconds)
    mean_T, error_T = mean_over_seeds(values_S_T), error_over_seeds(values_S_T)
    low_T, high_T = mean_T - np.nan_to_num(error_T), mean_T + np.nan_to_num(error_T)
    axes.plot(seconds_T / size, mean_T, **look)
    axes.fill_between(seconds_T / size, low_T, high_T, color=look["color"], alpha=0.18, lw=0)
    return np.concatenate([low_T[seconds_T > 0], high_T[seconds_T > 0]])


def _accuracy(comparison: Comparison, summaries: Sequence[ArmSummary]) -> Figure:
    figure, axes = _axes(comparison, "Accuracy over training time")
    size = _time_axis(comparison, axes)
    looks = _looks(comparison)
    ends = [
        _curve(axes, arm.curves, 100.0 * arm.curves.accuracy, size, looks[arm.name])
        for arm in comparison.arms
    ]
    for reference in comparison.references:
        if not summaries[0].speedups[reference].learned:
            continue
        threshold = 100.0 * summaries[0].speedups[reference].threshold
        colour = looks[reference]["color"]
        label = f"99 % of {_plain(reference)}'s best"
        axes.axhline(threshold, color=colour, lw=1.0, ls=(0, (4, 3)), label=label)
    if len(comparison.arms) > 1:  # what tells arms apart is far above where they all began
        low, high = np.nanmin(np.concatenate(ends)), np.nanmax(np.concatenate(ends))
        margin = 0.04 * (high - low) or 1.0
        axes.set_ylim(max(low - margin, 0.0), min(high + margin, 101.0))
    axes.set_ylabel(f"{MEASURES[comparison.measure]} (%)")
    axes.legend(loc="best", fontsize=9)
    return figure


def _length(comparison: Comparison) -> Figure:
    figure, axes = _axes(comparison, "Completion length")
    size = _time_axis(comparison, axes)
    looks = _looks(comparison)
    for arm in comparison.arms:
        _curve(axes, arm.curves, arm.curves.length, size, looks[arm.name])
    axes.set_ylabel("tokens a completion")
    axes.legend(loc="best", fontsize=9)
    return figure


def _seconds_per_step(comparison: Comparison, summaries: Sequence[ArmSummary]) -> Figure:
    figure, axes = _axes(comparison, "Seconds per step")
    rows = np.arange(len(comparison.arms))
    logs = [arm.log for arm in comparison.arms]
    if all(log is not None for log in logs):
        left = np.zeros(len(rows))
        for phase in PHASES:
            width = np.nan_to_num([log.phase_seconds[phase] for log in logs if log is not None])
            axes.barh(rows, width, left=left, height=0.6, color=_PHASES[phase], label=phase)
            left += width
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=4, fontsize=9)
    else:
        left = np.array([summary.seconds_per_step for summary in summaries])
        colours = [look["color"] for look in _looks(comparison).values()]
        axes.barh(rows, left, height=0.6, color=colours)
    for row, total in zip(rows, left, strict=True):
        axes.annotate(
            f"{total:.3g} s", (total, row), (4, 0), textcoords="offset points", va="center"
        )
    axes.set_yticks(rows, [_plain(arm.name) for arm in comparison.arms])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlim(0.0, 1.18 * float(left.max()) or 1.0)
    axes.set_xlabel("modelled seconds per step" if comparison.clock else "seconds per step")
    return figure


def _rewards(comparison: Comparison) -> Figure:
    figure, axes = _axes(comparison, "Kept and dropped rewards")
    size = _time_axis(comparison, axes)
    looks = _looks(comparison)
    for arm in comparison.arms:
        if arm.log is None:
            continue
        look = {"color": looks[arm.name]["color"]}
        seconds, name = arm.log.seconds / size, looks[arm.name]["label"]
        there = ~np.isnan(seconds)
        drops = not np.isnan(arm.log.dropped_reward).all()
        for values, style, what in (
            (arm.log.kept_reward, "-", "kept"),
            (arm.log.dropped_reward, ":", "dropped"),
            (arm.log.reward, "--", "all"),
        ):
            if drops and not np.isnan(values).all():
                axes.plot(seconds[there], values[there], ls=style, label=f"{name}, {what}", **look)
        if not drops:
            axes.plot(seconds[there], arm.log.reward[there], ls="--", label=f"{name}, all", **look)
    axes.set_ylabel("mean reward")
    axes.legend(loc="best", fontsize=8)
    return figure
