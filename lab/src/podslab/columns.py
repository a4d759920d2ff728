"""Tables of plain text."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], numbers: bool = False) -> str:
    """Rows of cells, one a line, with each column as wide as its widest cell.

    Args:
        rows: Of equal length, the heads first.
        numbers: Whether all columns but the first are numbers, which stand to the right.

    >>> print(aligned([["", "steps"], ["grpo", "8"]], numbers=True))
          steps
    grpo      8
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if numbers:
            right = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
            cells = [cells[0], *right[1:]]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
