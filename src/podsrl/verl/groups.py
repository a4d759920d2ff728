"""Which rows of a verl batch are kept. Rows go by verl's keys; nothing here needs verl."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from podsrl.advantages import group_advantages
from podsrl.downsampling.ragged import downsample_ragged
from podsrl.errors import InvalidInputError
from podsrl.options import Options


@dataclass(frozen=True)
class Group:
    """The rollouts of one prompt.

    sessions: the rows of each rollout; an agent loop may put several rows into one.
    rewards_N: reward of each rollout; NaN if it could not be scored.
    kept: ascending positions in `sessions`.
    """

    uid: str
    sessions: tuple[tuple[str, ...], ...]
    rewards_N: np.ndarray
    kept: tuple[int, ...]

    @property
    def kept_rewards(self) -> np.ndarray:
        """Rewards of the kept rollouts, NaN included."""
        return self.rewards_N[list(self.kept)]

    @property
    def kept_keys(self) -> set[str]:
        """Every row of the kept rollouts."""
        return {key for i in self.kept for key in self.sessions[i]}


def parse_key(key: str) -> tuple[str, int, int]:
    """The parts of verl's key "{uid}_{session}_{index}".

    Raises:
        InvalidInputError: a key of another form.

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


def group_rows(keys: Sequence[str], rewards: Sequence[float]) -> list[Group]:
    """Rows as groups of rollouts, all of them kept so far.

    The reward of a rollout of several rows is that of its last row, as in verl.

    Args:
        keys: verl's keys, in any order.
        rewards: reward of each row.
    """
    rows: dict[str, dict[int, list[tuple[int, str, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for key, reward in zip(keys, rewards, strict=True):
        uid, session, index = parse_key(key)
        rows[uid][session].append((index, key, float(reward)))
    groups = []
    for uid, by_session in rows.items():
        sessions = [sorted(by_session[session]) for session in sorted(by_session)]
        groups.append(
            Group(
                uid=uid,
                sessions=tuple(tuple(key for _, key, _ in session) for session in sessions),
                rewards_N=np.array([session[-1][2] for session in sessions], dtype=np.float64),
                kept=tuple(range(len(sessions))),
            )
        )
    return groups


def select(
    groups: Sequence[Group],
    options: Options,
    step: int,
    order: Mapping[str, Any] | None = None,
) -> list[Group]:
    """The groups with the rollouts to keep; one of at most m rollouts keeps them all.

    Args:
        groups: from `group_rows`.
        options: m, rule and seed.
        step: training step; with a seed each step draws again.
        order: what to sort the groups by, by uid. verl draws uids at random and its rows arrive in
            any order, so only with an order of its own does a seed give the same choice again.

    Raises:
        InvalidInputError: infinite rewards, or a rule of the user's own that returns nonsense.
    """
    if order is not None:
        groups = sorted(groups, key=lambda group: order[group.uid])
    seed = None if options.seed is None else [options.seed, step]
    rewards = [group.rewards_N for group in groups]
    kept = downsample_ragged(rewards, options.m, options.rule, seed)
    return [replace(group, kept=tuple(ks)) for group, ks in zip(groups, kept, strict=True)]


def advantages_of(
    group: Group, baseline: Literal["kept", "group"], scale: bool, eps: float
) -> dict[str, float]:
    """`podsrl.group_advantages` of a group, for every kept row."""
    advantages = group_advantages(
        group.rewards_N, np.array(group.kept), baseline=baseline, scale=scale, eps=eps
    )
    return {
        key: advantage
        for i, advantage in zip(group.kept, advantages.tolist(), strict=True)
        for key in group.sessions[i]
    }
