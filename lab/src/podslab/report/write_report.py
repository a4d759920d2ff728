"""Writing a report: one page, its figures as files, and its numbers as JSON and Markdown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from podslab.report.drawing import render
from podslab.report.figures import draw
from podslab.report.load_runs import Comparison
from podslab.report.page import render_page, section
from podslab.report.summary import as_json, as_markdown, few_seeds, summarise
from podsrl.rollout_log.files import damage_as_notes, write_json, write_whole
from podsrl.rollout_log.inspector import pack_rollouts


@dataclass(frozen=True)
class Report:
    """The page that was written, and what summary.md says below its title."""

    page: Path
    text: str


def write_report(
    comparisons: Sequence[Comparison], folder: str | Path, title: str, max_rollouts: int = 100_000
) -> Report:
    """Write report.html, summary.json, summary.md and figures/*.png and *.svg.

    If times are modelled, all names end in "-modelled", so that measured and modelled reports lie
    side by side in one folder.

    Args:
        comparisons: one or more, all on the same clock.
        folder: is made if it does not exist.
        title: of the page.
        max_rollouts: how many rollouts the page holds at most; 0 leaves the inspector out.
    """
    folder = Path(folder)
    suffix = "-modelled" if comparisons[0].clock else ""
    runs = [run for comparison in comparisons for run in comparison.runs]
    notes: list[str] = []
    with damage_as_notes(notes):
        named = [(f"{run.arm}, seed {run.seed}", run.folder) for run in runs]
        rollouts = pack_rollouts(named, max_rollouts)
    comparisons = [replace(c, notes=(*c.notes, *few_seeds(c), *notes)) for c in comparisons]
    pairs = [(comparison, summarise(comparison)) for comparison in comparisons]

    sections = []
    for comparison, summaries in pairs:
        slug = re.sub("[^a-z0-9]+", "-", comparison.title.lower()).strip("-")
        prefix = f"{slug}-" if len(comparisons) > 1 else ""
        drawn = draw(comparison, summaries)
        svgs = {name: render(figure, "svg") for name, figure in drawn.items()}
        for name, figure in drawn.items():
            stem = folder / "figures" / f"{prefix}{name}{suffix}"
            write_whole(stem.with_name(f"{stem.name}.png"), render(figure, "png"))
            write_whole(stem.with_name(f"{stem.name}.svg"), svgs[name])
        sections.append(section(comparison, summaries, svgs))
    numbers = {"title": title, "comparisons": [as_json(c, s) for c, s in pairs]}
    write_json(folder / f"summary{suffix}.json", numbers)
    text = "\n".join(as_markdown(c, s) for c, s in pairs)
    write_whole(folder / f"summary{suffix}.md", f"# {title}\n\n{text}".encode())
    page = folder / f"report{suffix}.html"
    write_whole(page, render_page(title, sections, rollouts).encode())
    return Report(page, text)
