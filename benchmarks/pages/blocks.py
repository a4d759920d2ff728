"""The blocks of pages that are computed from the raw files.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`. What stands outside is prose.
"""

from collections.abc import Callable
from functools import partial

from benchmarks import first_run
from benchmarks.folders import RESULTS, ROOT
from benchmarks.frozen import tables
from benchmarks.markdown import BLOCK
from benchmarks.pages import authors_runs, sizes
from benchmarks.studies import by_ratio, by_share, outcome
from benchmarks.worth import page as worth

#: The pages that hold blocks.
PAGES = (
    ROOT / "README.md",
    ROOT / "docs" / "evidence.md",
    ROOT / "docs" / "methods.md",
    RESULTS / "published.md",
    RESULTS / "worth.md",
    RESULTS / "first-run" / "README.md",
    RESULTS / "ratio" / "README.md",
    RESULTS / "long-prompts" / "README.md",
    RESULTS / "controls" / "README.md",
    RESULTS / "shares" / "README.md",
    RESULTS / "prompts" / "README.md",
    RESULTS / "methods-in-steps" / "README.md",
    RESULTS / "methods-by-share" / "README.md",
    RESULTS / "long-answers" / "README.md",
    RESULTS / "wrong-working" / "README.md",
    RESULTS / "stories" / "README.md",
    RESULTS / "form" / "README.md",
    RESULTS / "clock-easy" / "README.md",
)
#: What makes the lines of each block.
BLOCKS: dict[str, Callable[[], list[str]]] = {
    "published": authors_runs.settings,
    "published-sizes": authors_runs.sizes_and_rules,
    "sizes-with-vllm": sizes.steps_with_vllm,
    "worth-authors": worth.of_authors,
    "worth-sizes": worth.sizes_of_authors,
    "worth-form": worth.form_and_answers,
    "worth-sensitivity": worth.sensitivities,
    "worth-machines": worth.by_machine,
    "worth-ours": worth.of_ours,
    "worth-ours-short": worth.of_ours_in_short,
    "worth-arms": worth.of_our_arms,
    "worth-long": worth.of_our_long_arms,
    "worth-price": worth.at_small_price,
    "worth-front": worth.front,
    "worth-batch": worth.beside_large_batches,
    "worth-batch-short": worth.beside_large_batches_in_short,
    "first-run-rates": first_run.rates,
    "first-run": first_run.curve,
    "studies-short": outcome.in_short,
    "worth-by-ratio": by_ratio.worths,
    "worth-by-share": by_share.worths,
    "gain-by-share": by_share.gains,
    "parity-answer-workings": partial(outcome.workings, "parity-answer"),
    "methods-easy-greedy": partial(outcome.greedy_worths, "methods-easy"),
    "form-none-forms": partial(outcome.forms, "form-none"),
    "form-wrong-forms": partial(outcome.forms, "form-wrong"),
    "form-every-forms": partial(outcome.forms, "form-every"),
    "comparison-differences": tables.differences,
    "comparison-variety": tables.variety,
}
for _study in outcome.FOLDERS:
    BLOCKS[_study] = partial(outcome.learned, _study)
    BLOCKS[f"{_study}-worth"] = partial(outcome.worths, _study)
for _study in outcome.PAIRS:
    BLOCKS[f"{_study}-pairs"] = partial(outcome.differences, _study)


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
