"""The blocks of pages that are computed from the raw files.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`. What stands outside is prose.
"""

import re
from collections.abc import Callable

from benchmarks.pages import audit, authors_runs, every_series, our_runs
from benchmarks.series import RESULTS, ROOT

#: The pages that hold blocks. The README may have none.
PAGES = (
    ROOT / "README.md",
    ROOT / "docs" / "evidence.md",
    RESULTS / "log.md",
    RESULTS / "audit.md",
    RESULTS / "published.md",
    RESULTS / "series.md",
)
#: What makes the lines of each block.
BLOCKS: dict[str, Callable[[], list[str]]] = {
    "published": authors_runs.settings,
    "published-range": authors_runs.settings_in_words,
    "published-sizes": authors_runs.sizes_and_rules,
    "own-sentence": our_runs.small_model_in_words,
    "small-model": our_runs.small_model,
    "families": our_runs.families,
    "rates": our_runs.learning_rates,
    "long-run": our_runs.long_run,
    "long-run-said": our_runs.long_run_in_words,
    "headline": audit.claims,
    "withdrawn": audit.claims_in_words,
    "audit": audit.points,
    "questions": audit.questions,
    "series": every_series.one_line_each,
    "left-out": every_series.left_out,
    "every-series": every_series.one_table_each,
}
#: The opening mark, the name within it, and the closing mark.
BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def names_of_blocks(page: str) -> list[str]:
    """The names of the blocks of a page, in their order."""
    return [match[2] for match in BLOCK.finditer(page)]


def block(name: str) -> str:
    """The Markdown of a block.

    Raises:
        KeyError: there is no block of this name.
    """
    return "\n".join(BLOCKS[name]()) + "\n"


def rewritten(page: str) -> str:
    """The text of a page with its blocks computed anew."""
    return BLOCK.sub(lambda match: match[1] + block(match[2]) + match[3], page)
