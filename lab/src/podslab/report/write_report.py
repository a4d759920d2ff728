"""Writing a report: one page, its figures as files, and its numbers as JSON and Markdown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from podslab.report.drawing import render
from podslab.report.figures import draw
from podslab.report.load_runs import Comparison
from podslab.report.page import Section, render_page
from podslab.report.summary import ArmSummary, as_json, as_markdown, few_seeds, summarise
from podsrl.rollout_log.files import damage_as_notes, write_json, write_whole
from podsrl.rollout_log.inspector import pack_rollouts


@dataclass(frozen=True)
class Report:
    """What was written, and what it says."""

    page: Path
    comparisons: Sequence[Comparison]
    summaries: Sequence[Sequence[ArmSummary]]


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
    summaries = [summarise(comparison) for comparison in comparisons]

    sections = []
    for comparison, of_arms in zip(comparisons, summaries, strict=True):
        slug = re.sub("[^a-z0-9]+", "-", comparison.title.lower()).strip("-")
        prefix = f"{slug}-" if len(comparisons) > 1 else ""
        drawn = draw(comparison, of_arms)
        svgs = {name: render(figure, "svg") for name, figure in drawn.items()}
        for name, figure in drawn.items():
            stem = folder / "figures" / f"{prefix}{name}{suffix}"
            write_whole(stem.with_name(f"{stem.name}.png"), render(figure, "png"))
            write_whole(stem.with_name(f"{stem.name}.svg"), svgs[name])
        sections.append(Section(comparison, of_arms, svgs))
    pairs = list(zip(comparisons, summaries, strict=True))
    numbers = {"title": title, "comparisons": [as_json(c, s) for c, s in pairs]}
    write_json(folder / f"summary{suffix}.json", numbers)
    text = "\n".join([f"# {title}\n", *(as_markdown(c, s) for c, s in pairs)])
    write_whole(folder / f"summary{suffix}.md", text.encode())
    page = folder / f"report{suffix}.html"
    write_whole(page, render_page(title, sections, rollouts).encode())
    return Report(page, comparisons, summaries)
