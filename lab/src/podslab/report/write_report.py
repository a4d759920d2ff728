"""Writing a report: one page, its figures as files, and its numbers as JSON and Markdown."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from podslab.report.drawing import render
from podslab.report.figures import draw
from podslab.report.load_runs import Comparison
from podslab.report.page import render_page, section
from podslab.report.summary import as_json, as_markdown, few_seeds, summarise
from podsrl.rollout_log.files import write_json, write_whole


@dataclass(frozen=True)
class Report:
    """The page that was written, and what summary.md says below its title."""

    page: Path
    text: str


def write_report(comparisons: Sequence[Comparison], folder: str | Path, title: str) -> Report:
    """Write report.html, summary.json, summary.md and figures/*.png and *.svg.

    If times are modelled, all names end in "-modelled", so that measured and modelled reports lie
    side by side in one folder.

    Args:
        comparisons: One or more, all on the same clock.
        folder: It is made if it does not exist.
        title: Of the page.
    """
    folder = Path(folder)
    suffix = "-modelled" if comparisons[0].clock else ""
    comparisons = [
        replace(comparison, notes=(*comparison.notes, *few_seeds(comparison)))
        for comparison in comparisons
    ]

    sections = []
    numbers = []
    texts = []
    for comparison in comparisons:
        summaries = summarise(comparison)
        numbers.append(as_json(comparison, summaries))
        texts.append(as_markdown(comparison, summaries))

        figures = draw(comparison, summaries)
        prefix = f"{_slug(comparison.title)}-" if len(comparisons) > 1 else ""
        svgs = _write_figures(figures, folder / "figures", prefix, suffix)
        sections.append(section(comparison, summaries, svgs))

    text = "\n".join(texts)
    page = folder / f"report{suffix}.html"
    write_json(folder / f"summary{suffix}.json", {"title": title, "comparisons": numbers})
    write_whole(folder / f"summary{suffix}.md", f"# {title}\n\n{text}".encode())
    write_whole(page, render_page(title, sections, _folder_of_rollouts(comparisons)).encode())
    return Report(page, text)


def _folder_of_rollouts(comparisons: Sequence[Comparison]) -> str | None:
    """The folder that holds all runs with rollouts, if there are any."""
    paths = [run.folder.path for comparison in comparisons for run in comparison.runs]
    paths = [path for path in paths if (path / "rollouts").is_dir()]
    return os.path.commonpath(paths) if paths else None


def _write_figures(
    figures: Mapping[str, Figure], folder: Path, prefix: str, suffix: str
) -> dict[str, bytes]:
    """Write each figure as PNG and as SVG; return the SVG by the figure's name."""
    svgs = {}
    for name, figure in figures.items():
        svgs[name] = render(figure, "svg")
        write_whole(folder / f"{prefix}{name}{suffix}.svg", svgs[name])
        write_whole(folder / f"{prefix}{name}{suffix}.png", render(figure, "png"))
    return svgs


def _slug(title: str) -> str:
    """A title as a part of a file's name."""
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")
