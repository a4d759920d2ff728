"""The figure and the files of `pods recommend`."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from podslab.report.drawing import COLOURS, render, style
from podslab.recommend.advice import Advice
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
            n, label = [cell.sizes.n for cell in cells], f"m = {m}, P = {cells[0].sizes.prompts}"
            learned = np.array([advice.relative(cell) for cell in cells])
            axes.plot(n, learned[:, 0], color=colour, marker="o", label=label)
            axes.fill_between(n, learned[:, 0], learned[:, -1], color=colour, alpha=0.15, lw=0)
        axes.plot(
            best.sizes.n, advice.relative(best)[0], "*", ms=15, mec="black", mfc="#F0E442",
            zorder=5, label=f"star: {best.sizes}",
        )  # fmt: skip
        axes.axhline(1.0, color="#8A8A8A", lw=1.0, ls=(0, (4, 3)))
        sizes = sorted({cell.sizes.n for cell in advice.cells})
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        ylabel = f"plain GRPO with {advice.plain.sizes} is 1"
        axes.set(xlabel="n, rollouts generated per prompt", ylabel=ylabel)
        shaded = "" if advice.costs.timed_at is None else "; shaded: if generating has fixed costs"
        axes.set_title(f"Learned per second (predicted{shaded})")
        axes.set_ylim(bottom=0.0)
        axes.legend(fontsize=8)
    return figure
