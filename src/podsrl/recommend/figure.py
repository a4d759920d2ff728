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
    """Seconds per step, and what is learned per second, against n; a line for each m."""
    best = advice.choice.cell
    with style():
        figure = Figure(figsize=(8.6, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        for axes in (left, right):
            _size_axis(axes, advice)
        kept = sorted({cell.sizes.m for cell in advice.cells})
        for m, colour in zip(kept, COLOURS * 9, strict=False):
            cells = [cell for cell in advice.cells if cell.sizes.m == m]
            n = [cell.sizes.n for cell in cells]
            label = f"m = {m}, P = {cells[0].sizes.prompts}"
            look = {"color": colour, "marker": "o", "label": label}
            left.plot(n, [cell.seconds for cell in cells], **look)
            right.plot(n, [advice.relative(cell) for cell in cells], **look)
        right.plot(
            best.sizes.n, advice.relative(best), "*", ms=15, mec="black", mfc="#F0E442", zorder=5,
            label=f"star: {best.sizes}",
        )  # fmt: skip
        right.axhline(1.0, color="#8A8A8A", lw=1.0, ls=(0, (4, 3)))
        left.set_ylim(bottom=0.0)
        left.set(title="Seconds per step (predicted)", ylabel="seconds per step")
        ylabel = f"plain GRPO with {advice.plain.sizes} is 1"
        right.set(title="Learned per second (predicted)", ylabel=ylabel)
        right.set_ylim(bottom=0.0)
        right.legend(fontsize=8)
    return figure


def _size_axis(axes: Axes, advice: Advice) -> None:
    n = sorted({cell.sizes.n for cell in advice.cells})
    axes.set_xscale("log", base=2)
    axes.set_xticks(n, [str(size) for size in n])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("n, rollouts generated per prompt")
