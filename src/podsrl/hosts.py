"""What a host adapter is. This is the one place that says it.

A *host* is a trainer that podsrl plugs into; its *adapter* is what podsrl adds. An adapter answers
four questions:

| question | answer |
|---|---|
| rewards in | Where are all n rewards of a prompt known? NaN: could not be scored. |
| rows out | Where do rollouts that are not kept leave, before all that costs memory? |
| passes spared | Which kept rows of advantage 0 have no pass, with the same gradient? |
| logged | `selection_metrics` under `pods/` where the host takes metrics; `first_line` once. |

A host that hands over groups of rewards needs `select_groups` and nothing else; a loop of one's own
is one. `HostStep` is what the shared tests ask each adapter about a step.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from podsrl.advantages import group_advantages
from podsrl.methods import method_of
from podsrl.metrics import selection_metrics
from podsrl.selection import Selection, padded

Groups = Sequence[Sequence[float]]


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


@dataclass(frozen=True)
class SelectedGroups:
    """What was selected in a step.

    Args:
        kept: The places of the kept rollouts of each group, ascending.
        advantages: Their advantages, in the same order.
        metrics: What to log, by names under `pods/`.
    """

    kept: list[list[int]]
    advantages: list[list[float]]
    metrics: dict[str, float]

    @property
    def of_kept(self) -> list[dict[int, float]]:
        """The advantages of the kept rollouts, by their places, of each group."""
        return [
            dict(zip(kept_M, advantages_M, strict=True))
            for kept_M, advantages_M in zip(self.kept, self.advantages, strict=True)
        ]

    @property
    def with_gradient(self) -> list[dict[int, float]]:
        """Those of `of_kept` that are not 0.

        Where a loss is a sum over rows, the others need no pass. Where it is a mean, it is one over
        all kept rows.
        """
        groups: list[dict[int, float]] = []
        for advantage_of in self.of_kept:
            groups.append({place: value for place, value in advantage_of.items() if value})
        return groups


def select_groups(
    selection: Selection,
    rewards: Groups,
    parts: Sequence[Sequence[Mapping[str, Any]]] | None = None,
    *,
    tokens: Groups | None = None,
    step: int = 0,
    scale: bool = True,
    eps: float = 1e-4,
) -> SelectedGroups:
    """Select rollouts of the groups of a step, which may differ in size.

    Args:
        selection: How.
        rewards: The reward of each rollout of each group; NaN if it could not be scored.
        parts: The parts of each reward by their names, for `selection_weights`.
        tokens: The number of tokens of each rollout, prompt included, for the metrics of them.
        step: The number of the step; with a seed each step draws anew.
        scale: As in `group_advantages`.
        eps: As in `group_advantages`.

    Raises:
        InvalidInputError: An infinite reward, or a part that is missing.

    >>> selected = select_groups(Selection(4, 2), [[0.0, 1.0, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0]])
    >>> selected.kept
    [[0, 1], [0, 1]]
    >>> [list(group) for group in selected.with_gradient]
    [[0, 1], []]
    """
    scores: list[list[float]] = []
    for place, group in enumerate(rewards):
        parts_of: Sequence[Mapping[str, Any]] = [{}] * len(group)
        if parts is not None:
            parts_of = parts[place]
        rollouts = zip(group, parts_of, strict=True)
        scores.append([selection.score(reward, of_reward) for reward, of_reward in rollouts])
    kept = selection.select(scores, step)

    rewards_P_N, generated_P_N = padded(rewards)
    kept_P_N = np.zeros_like(generated_P_N)
    for place, kept_M in enumerate(kept):
        kept_P_N[place, kept_M] = True
    advantages_P_N = group_advantages(rewards_P_N, kept_P_N, selection.baseline, scale, eps)

    tokens_P_N = np.zeros_like(rewards_P_N) if tokens is None else padded(tokens)[0]
    metrics = selection_metrics(
        rewards_P_N, kept_P_N, advantages_P_N, tokens_P_N, generated_P_N=generated_P_N
    )
    if tokens is None:
        del metrics["pods/kept_tokens"], metrics["pods/dropped_tokens"]
    advantages = [
        advantages_N[kept_M].tolist()
        for advantages_N, kept_M in zip(advantages_P_N, kept, strict=True)
    ]
    return SelectedGroups(kept, advantages, metrics)


def first_line(selection: Selection, groups: int, rows: int, method: str = "") -> str:
    """What a host says in its first step, or in each one where it takes no metrics.

    Args:
        selection: How rollouts are selected.
        groups: The number of prompts.
        rows: The number of rollouts that are kept of them.
        method: The name of the method, where the host knows it; else the selection's.

    >>> first_line(Selection(64, 16), groups=32, rows=512)
    'method pods: selected 16 of 64 in 32 groups; the update sees 512 rows'
    """
    return (
        f"method {method or method_of(selection)}: selected {selection.in_words} in {groups}"
        f" groups; the update sees {rows} rows"
    )


def passes_in_words(spares: bool, why_all_pass: str) -> str:
    """Which kept rows have a pass, for the log of a host that can spare some.

    >>> passes_in_words(False, "beta=0.1")
    'every row has a pass (beta=0.1)'
    """
    if spares:
        return "rows of advantage 0 have no pass"
    return f"every row has a pass ({why_all_pass})"


def mean_of_scored(rewards: Groups) -> float:
    """The mean of all rewards that are known; NaN if none is."""
    rewards_P_N, _ = padded(rewards)
    scored = rewards_P_N[~np.isnan(rewards_P_N)]
    return float(scored.mean()) if scored.size else math.nan
