"""Tables in Markdown, as all pages of results/ have them, and blocks that are computed."""

import re
from collections.abc import Sequence

#: A block that a program writes: the opening mark, the name within it, and the closing mark.
BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, align_right: bool = False
) -> list[str]:
    """The lines of a table of text cells.

    Args:
        heads: The head of each column.
        rows: The cells of each row, one for each column.
        align_right: Whether all columns except the first stand on the right, as figures do.

    >>> table(["arm", "steps"], [["grpo", "20"]])
    ['| arm | steps |', '|---|---|', '| grpo | 20 |']
    """
    rule_of_others = "---:" if align_right else "---"
    rules = ["---"] + [rule_of_others] * (len(heads) - 1)

    lines = [_row(heads), f"|{'|'.join(rules)}|"]
    for cells in rows:
        lines.append(_row(cells))
    return lines


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
