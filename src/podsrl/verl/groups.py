"""Which rows of a verl batch are kept. Rows go by verl's keys; nothing here needs verl."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podsrl.advantages import group_advantages
from podsrl.errors import InvalidInputError
from podsrl.metrics import part_correlations, selection_metrics
from podsrl.selection import Selection, as_number, is_number, padded

EPS = 1e-6  # of verl's compute_grpo_outcome_advantage
# numbers in a reward function's dictionary that are no parts of the reward
_NOT_PARTS = ("score", "unscorable")


@dataclass(frozen=True)
class Row:
    """One row of a batch of verl.

    key: verl's key, "{uid}_{session}_{index}".
    reward: The reward; NaN if it could not be scored.
    parts: What else the reward function gave, by name.
    turns: The number of turns of its conversation.
    tag: verl's tag, with the lengths in tokens.
    """

    key: str
    reward: float
    parts: Mapping[str, Any]
    turns: int
    tag: Mapping[str, Any]


@dataclass(frozen=True)
class Rollout:
    """One rollout, which verl calls a session: an agent loop may put several rows into one.

    rows: The rows in their order.
    kept: Whether the update sees the rollout.
    """

    rows: tuple[Row, ...]
    kept: bool = True

    @property
    def reward(self) -> float:
        """The reward of the last row, as in verl."""
        return self.rows[-1].reward

    @property
    def parts(self) -> Mapping[str, Any]:
        """What the reward function gave for the last row, beside the reward."""
        return self.rows[-1].parts

    @property
    def tokens(self) -> int:
        """The tokens of all rows, prompts included."""
        return sum(row.tag["seq_len"] for row in self.rows)


#: The rollouts of one prompt, in the order of their sessions.
Group = tuple[Rollout, ...]


def parse_key(key: str) -> tuple[str, int, int]:
    """The parts of verl's key "{uid}_{session}_{index}".

    Raises:
        InvalidInputError: A key of another form.

    >>> parse_key("8f2a_3_0")
    ('8f2a', 3, 0)
    """
    parts = key.rsplit("_", 2)
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        raise InvalidInputError(
            f"row {key!r} is not named {{uid}}_{{session}}_{{index}} as in verl 0.9; podsrl can't"
            " tell which prompt it belongs to"
        )
    return parts[0], int(parts[1]), int(parts[2])


def group_rows(rows: Sequence[Row], order: Mapping[str, Any] | None = None) -> list[Group]:
    """Rows as groups of rollouts.

    Args:
        rows: The rows of a batch, in any order.
        order: What to sort the groups by, for each uid. Without it they are sorted by their uids,
            which verl draws at random: rows arrive as they end, and short ones must not win ties.
    """
    found: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        uid, session, _ = parse_key(row.key)
        found[uid][session].append(row)
    order = order or {}
    return [
        tuple(
            Rollout(tuple(sorted(found[uid][session], key=lambda row: parse_key(row.key)[2])))
            for session in sorted(found[uid])
        )
        for uid in sorted(found, key=lambda uid: (str(order.get(uid, "")), uid))
    ]


def select(groups: Sequence[Group], selection: Selection, step: int) -> list[Group]:
    """The groups with the rollouts marked that the update sees.

    Args:
        groups: The groups of a batch, from `group_rows`.
        selection: What the user asked for.
        step: The training step; with a seed each step draws anew.

    Raises:
        InvalidInputError: Infinite rewards, or a rule of the user's own that returns nonsense.
    """
    scores = [[selection.score(one.reward, one.parts) for one in group] for group in groups]
    kept = selection.select(scores, step)
    return [
        tuple(replace(rollout, kept=place in places) for place, rollout in enumerate(group))
        for group, places in zip(groups, kept, strict=True)
    ]


def kept_keys(groups: Sequence[Group]) -> set[str]:
    """The keys of every row of the kept rollouts."""
    return {row.key for group in groups for one in group if one.kept for row in one.rows}


def advantages(groups: Sequence[Group], baseline: str, scale: bool) -> np.ndarray:
    """`podsrl.group_advantages` of the groups, shape (P, N); 0 where nothing was kept."""
    rewards_P_N, _ = _padded(groups, lambda rollout: rollout.reward)
    kept_P_N = _kept(groups)
    return group_advantages(rewards_P_N, kept_P_N, baseline=baseline, scale=scale, eps=EPS)  # type: ignore[arg-type]


def advantages_of_rows(groups: Sequence[Group], baseline: str, scale: bool) -> dict[str, float]:
    """The advantage of every kept row, by its key."""
    return {
        row.key: float(advantage)
        for group, of_group in zip(groups, advantages(groups, baseline, scale), strict=True)
        for rollout, advantage in zip(group, of_group, strict=False)
        if rollout.kept
        for row in rollout.rows
    }


def metrics_of(groups: Sequence[Group], baseline: str, scale: bool) -> dict[str, float]:
    """What the update sees of the groups, under the names that every host logs."""
    rewards_P_N, generated_P_N = _padded(groups, lambda rollout: rollout.reward)
    tokens_P_N, _ = _padded(groups, lambda rollout: rollout.tokens)
    kept_P_N = _kept(groups)
    names, parts_P_N_F = _parts(groups)
    return selection_metrics(rewards_P_N, kept_P_N, tokens_P_N, generated_P_N) | part_correlations(
        names, parts_P_N_F, advantages(groups, baseline, scale), kept_P_N
    )


def _padded(
    groups: Sequence[Group], value: Callable[[Rollout], float]
) -> tuple[np.ndarray, np.ndarray]:
    """A number of each rollout, shape (P, N), and where there is a rollout."""
    return padded([[value(rollout) for rollout in group] for group in groups])


def _kept(groups: Sequence[Group]) -> np.ndarray:
    return _padded(groups, lambda rollout: rollout.kept)[0] == 1


def _parts(groups: Sequence[Group]) -> tuple[list[str], np.ndarray]:
    """The names of the numbers beside the reward, and their values, shape (P, N, F).

    They are NaN where a rollout has none, could not be scored, or is missing in a smaller group.
    """
    names = sorted(
        {
            name
            for group in groups
            for rollout in group
            for name, value in rollout.parts.items()
            if is_number(value) and name not in _NOT_PARTS
        }
    )
    shape = (len(groups), max((len(group) for group in groups), default=0), len(names))
    parts_P_N_F = np.full(shape, np.nan)
    for g, group in enumerate(groups):
        for i, rollout in enumerate(group):
            if not math.isnan(rollout.reward):
                parts_P_N_F[g, i] = [as_number(rollout.parts.get(name)) for name in names]
    return names, parts_P_N_F
