"""The figure and the files of `pods recommend`."""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from podslab.recommend.advice import Advice
from podslab.report.drawing import COLOURS, render, style
from podsrl.rollout_log.files import write_json, write_whole


def write_recommendation(advice: Advice, folder: str | Path, source: str) -> list[Path]:
    """Write recommendation.json, .png and .svg; `source` says where the numbers are from."""
    folder = Path(folder)
    write_json(folder / "recommendation.json", {"source": source, **advice.as_json()})
    figure = draw(advice)
    for kind in ("png", "svg"):
        write_whole(folder / f"recommendation.{kind}", render(figure, kind))
    return [folder / f"recommendation.{kind}" for kind in ("json", "png", "svg")]


def draw(advice: Advice) -> Figure:
    """What is learned per second against n; a line for each m."""
    best = advice.choice.cell
    with style():
        figure = Figure(figsize=(6.0, 3.8), layout="constrained")
        axes = figure.subplots()
        for m, colour in zip(sorted({c.sizes.m for c in advice.cells}), COLOURS * 9, strict=False):
            cells = [cell for cell in advice.cells if cell.sizes.m == m]
            label = f"m = {m}, P = {cells[0].sizes.prompts}"
            learned = [advice.relative(cell) for cell in cells]
            axes.plot([c.sizes.n for c in cells], learned, color=colour, marker="o", label=label)
        star = {"ms": 15, "mec": "black", "mfc": "#F0E442", "zorder": 5}
        label = f"star: {best.sizes}"
        axes.plot([best.sizes.n], [advice.relative(best)], "*", label=label, **star)
        axes.axhline(1.0, color="#8A8A8A", lw=1.0, ls=(0, (4, 3)))
        sizes = sorted({cell.sizes.n for cell in advice.cells})
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        ylabel = f"plain GRPO with {advice.plain.sizes} is 1"
        axes.set(xlabel="n, rollouts generated per prompt", ylabel=ylabel)
        axes.set_title("Learned per second (predicted)")
        axes.set_ylim(bottom=0.0)
        axes.legend(fontsize=8)
    return figure
