"""Writing a report: one page, its figures as files, and its numbers as JSON and Markdown."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from podslab.report.drawing import render
from podslab.report.figures import draw
from podslab.report.load_runs import Comparison
from podslab.report.page import render_page, section
from podslab.report.summary import as_json, as_markdown, few_seeds, summarise
from podsrl.rollout_log.files import write_json, write_whole
from podsrl.rollout_log.output import refuse_foreign_files


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

    Raises:
        InvalidInputError: A file in the folder would be overwritten that no report wrote.
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
    images = {}
    for comparison in comparisons:
        summaries = summarise(comparison)
        numbers.append(as_json(comparison, summaries))
        texts.append(as_markdown(comparison, summaries))

        figures = draw(comparison, summaries)
        prefix = f"{_slug(comparison.title)}-" if len(comparisons) > 1 else ""
        svgs = {name: render(figure, "svg") for name, figure in figures.items()}
        for name, figure in figures.items():
            images[f"figures/{prefix}{name}{suffix}.svg"] = svgs[name]
            images[f"figures/{prefix}{name}{suffix}.png"] = render(figure, "png")
        sections.append(section(comparison, summaries, svgs))

    text = "\n".join(texts)
    page = f"report{suffix}.html"
    summary = f"summary{suffix}"
    names = [page, f"{summary}.json", f"{summary}.md", *images]
    refuse_foreign_files(folder, names, page)

    # The page is first: it says of the others that they are a report's, also after a kill.
    html = render_page(title, sections, _folder_of_rollouts(comparisons))
    write_whole(folder / page, html.encode())
    write_json(folder / f"{summary}.json", {"title": title, "comparisons": numbers})
    write_whole(folder / f"{summary}.md", f"# {title}\n\n{text}".encode())
    for name, image in images.items():
        write_whole(folder / name, image)
    return Report(folder / page, text)


def _folder_of_rollouts(comparisons: Sequence[Comparison]) -> str | None:
    """The folder that holds all runs with rollouts, if there are any."""
    paths = [run.folder.path for comparison in comparisons for run in comparison.runs]
    paths = [path for path in paths if (path / "rollouts").is_dir()]
    return os.path.commonpath(paths) if paths else None


def _slug(title: str) -> str:
    """A title as a part of a file's name."""
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")
