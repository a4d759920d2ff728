"""The definition of a host adapter. This is the one place that says it.

A *host* is a trainer that podsrl plugs into; its *adapter* is what podsrl adds. An adapter answers
four questions:

| question | answer |
|---|---|
| rewards in | Where are all n rewards of a prompt known? NaN: could not be scored. |
| rows out | Where do rollouts that are not kept leave, before all that costs memory? |
| passes spared | Which kept rows of advantage 0 have no pass, with the same gradient? |
| logged | `Selected.metrics` where the host takes metrics; `first_line` once. |

Between the first two stands one step, the same for all of them: `podsrl.selection.select`, which
makes of rewards what is kept, advantages, masks and metrics. A host that hands over groups of
rewards calls `select_groups`; a loop of one's own is one. `HostStep` is what the shared tests ask
each adapter about a step.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from podsrl.methods import method_of
from podsrl.selection import Selection


class HostStep(Protocol):
    """A step that a host has made, as its adapter answers for it.

    Rollouts are known by their place in the group, groups by their order.
    """

    #: The advantages of the rollouts that the update sees, by their places, of each group.
    rows_out: Sequence[Mapping[int, float]]
    #: The number of rows that the update has passes over.
    passes: int
    #: What was logged: metrics by name, or lines of text.
    logged: Mapping[str, float] | str


def first_line(selection: Selection, groups: int, rows: int) -> str:
    """The line that a host says in its first step, or in each one where it takes no metrics.

    Args:
        selection: How rollouts are selected.
        groups: The number of prompts.
        rows: The number of rollouts that are kept of them.

    >>> first_line(Selection(64, 16), groups=32, rows=512)
    'method pods: selected 16 of 64 in 32 groups; the update sees 512 rows'
    """
    return (
        f"method {method_of(selection)}: selected {selection.in_words} in {groups}"
        f" groups; the update sees {rows} rows"
    )


def passes_in_words(spares: bool, why_all_pass: str) -> str:
    """Say which kept rows have a pass: a line for the log of a host that can spare passes.

    >>> passes_in_words(False, "beta=0.1")
    'every row has a pass (beta=0.1)'
    """
    if spares:
        return "rows with advantage 0 are skipped"
    return f"every row has a pass ({why_all_pass})"
