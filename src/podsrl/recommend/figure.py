"""The figure and the files of `pods recommend`."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from podsrl.analysis.drawing import COLOURS, render, style
from podsrl.recommend.advice import Advice
from podsrl.runs.json_files import write_json, write_whole


def write_recommendation(advice: Advice, folder: str | Path, source: str) -> list[Path]:
    """Write recommendation.json, .png and .svg.

    Args:
        advice: the grid and what is recommended.
        folder: is made if it does not exist.
        source: where costs and pass rates are from, in words.

    Returns:
        The files.
    """
    folder = Path(folder)
    write_json(folder / "recommendation.json", {"source": source, **advice.as_json()})
    figure = draw(advice)
    for kind in ("png", "svg"):
        write_whole(folder / f"recommendation.{kind}", render(figure, kind))
    return [folder / f"recommendation.{kind}" for kind in ("json", "png", "svg")]


def draw(advice: Advice) -> Figure:
    """Seconds per step, and signal per second, against n; a line for each m."""
    with style():
        figure = Figure(figsize=(8.6, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        for axes in (left, right):
            _size_axis(axes, advice)
        for m, colour in zip(sorted({cell.m for cell in advice.cells}), COLOURS * 9, strict=False):
            cells = [cell for cell in advice.cells if cell.m == m]
            sizes = [cell.n for cell in cells]
            look = {"color": colour, "marker": "o", "label": f"m = {m}"}
            left.plot(sizes, [cell.seconds for cell in cells], **look)
            right.plot(sizes, [advice.relative(cell) for cell in cells], **look)
        best = advice.choice.cell
        right.plot(
            best.n, advice.relative(best), "*", ms=15, mec="black", mfc="#F0E442", zorder=5,
            label=f"star: recommended, n = {best.n}",
        )  # fmt: skip
        right.axhline(1.0, color="#8A8A8A", lw=1.0, ls=(0, (4, 3)))
        left.set_ylim(bottom=0.0)
        left.set(title="Seconds per step (predicted)", ylabel="seconds per step")
        right.set(
            title=f"Signal per second (predicted, {advice.measure})",
            ylabel=f"plain GRPO at m = {advice.m} is 1",
        )
        right.set_ylim(bottom=0.0)
        right.legend(fontsize=8)
    return figure


def _size_axis(axes: Axes, advice: Advice) -> None:
    sizes = sorted({cell.n for cell in advice.cells})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("n, rollouts generated per prompt")
