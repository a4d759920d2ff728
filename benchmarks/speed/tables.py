"""Tables and the bars that their numbers have to clear, as text, Markdown and JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.speed.timings import Spread


@dataclass(frozen=True)
class Bar:
    """A number with its limit.

    value: None if it was not measured. low, high: its quartiles, where it has any.
    at_most: the limit is the largest value allowed; otherwise the smallest.
    percent: show as percentages.
    """

    what: str
    value: float | None
    limit: float
    at_most: bool = True
    low: float | None = None
    high: float | None = None
    percent: bool = False

    @classmethod
    def of(
        cls, what: str, found: Spread, limit: float, at_most: bool = True, percent: bool = False
    ) -> "Bar":
        """A bar for a median with its quartiles."""
        return cls(what, found.median, limit, at_most, found.low, found.high, percent)

    @property
    def verdict(self) -> str:
        """ "met", "missed" or "not measured": the median decides.

        >>> Bar("update", 0.29, 0.30).verdict, Bar("faster", 80.0, 100.0, at_most=False).verdict
        ('met', 'missed')
        """
        if self.value is None:
            return "not measured"
        met = self.value <= self.limit if self.at_most else self.value >= self.limit
        return "met" if met else "missed"

    def cells(self) -> list[str]:
        """What, value with quartiles, limit, verdict."""
        shown = "" if self.value is None else self._show(self.value)
        if self.low is not None and self.high is not None:
            shown += f" ({self._show(self.low)} .. {self._show(self.high)})"
        limit = f"{'<=' if self.at_most else '>='} {self._show(self.limit)}"
        return [self.what, shown, limit, self.verdict]

    def _show(self, value: float) -> str:
        return f"{100 * value:.3g} %" if self.percent else f"{value:.3g}"

    def as_json(self) -> dict[str, Any]:
        """Everything, and the verdict."""
        return {**self.__dict__, "verdict": self.verdict}


@dataclass(frozen=True)
class Table:
    """A table of text cells, what it means, and the bars that belong to it."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    bars: Sequence[Bar] = field(default_factory=tuple)

    def as_text(self) -> str:
        """For a terminal."""
        parts = [self.title, "=" * len(self.title)]
        if self.note:
            parts += [self.note, ""]
        parts.append(_aligned(self.head, self.rows))
        if self.bars:
            parts += ["", _aligned(_BAR_HEAD, [bar.cells() for bar in self.bars])]
        return "\n".join(parts)

    def as_markdown(self) -> str:
        """For a page."""
        parts = [f"### {self.title}\n"]
        if self.note:
            parts.append(f"{self.note}\n")
        parts.append(_pipes(self.head, self.rows))
        if self.bars:
            parts.append("\n" + _pipes(_BAR_HEAD, [bar.cells() for bar in self.bars]))
        return "\n".join(parts)

    def as_json(self) -> dict[str, Any]:
        """Cells and bars."""
        return {
            "title": self.title,
            "note": self.note,
            "head": list(self.head),
            "rows": [list(row) for row in self.rows],
            "bars": [bar.as_json() for bar in self.bars],
        }


_BAR_HEAD = ("bar", "measured", "limit", "verdict")


def with_quartiles(found: Spread, unit: str = "") -> str:
    """A median with its quartiles.

    >>> with_quartiles(Spread(2.0, 1.5, 2.25), "x")
    '2x (1.5 .. 2.25)'
    """
    return f"{found.median:.3g}{unit} ({found.low:.3g} .. {found.high:.3g})"


def megabytes(count: float) -> str:
    """Bytes as MB.

    >>> megabytes(12_340_000)
    '12 MB'
    """
    return f"{count / 1e6:.0f} MB"


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in others)]).rstrip()

    return "\n".join([line(head), line(["-" * w for w in widths]), *map(line, rows)])


def _pipes(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
