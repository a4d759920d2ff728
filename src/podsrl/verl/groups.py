"""Which rows of a verl batch are kept. Rows go by verl's keys; nothing here needs verl."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from podsrl.advantages import group_advantages
from podsrl.drives import drive_metrics, shaping_only
from podsrl.errors import InvalidInputError
from podsrl.selection import Options, as_number, is_number

# numbers in a reward function's dictionary that are no parts of the reward
_NOT_PARTS = ("score", "unscorable")


@dataclass(frozen=True)
class Group:
    """The rollouts of one prompt.

    sessions: the rows of each rollout; an agent loop may put several rows into one.
    rewards_N: reward of each rollout; NaN if it could not be scored.
    parts_N: what else the reward function gave, by name; selection may be by these.
    kept: ascending positions in `sessions`.
    """

    uid: str
    sessions: tuple[tuple[str, ...], ...]
    rewards_N: np.ndarray
    parts_N: tuple[Mapping[str, Any], ...]
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


def group_rows(
    keys: Sequence[str],
    rewards: Sequence[float],
    parts: Sequence[Mapping[str, Any]] | None = None,
) -> list[Group]:
    """Rows as groups of rollouts, all of them kept so far.

    The reward of a rollout of several rows is that of its last row, as in verl.

    Args:
        keys: verl's keys, in any order.
        rewards: reward of each row.
        parts: what else the reward function gave for each row, by name.
    """
    rows: dict[str, dict[int, list[tuple[int, str, float, Mapping[str, Any]]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for key, reward, part in zip(keys, rewards, parts or [{}] * len(keys), strict=True):
        uid, session, index = parse_key(key)
        rows[uid][session].append((index, key, float(reward), part))
    groups = []
    for uid, by_session in rows.items():
        sessions = [
            sorted(by_session[session], key=lambda row: row[0]) for session in sorted(by_session)
        ]
        groups.append(
            Group(
                uid=uid,
                sessions=tuple(tuple(row[1] for row in session) for session in sessions),
                rewards_N=np.array([session[-1][2] for session in sessions], dtype=np.float64),
                parts_N=tuple(session[-1][3] for session in sessions),
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

    With scope "batch" m rollouts a prompt are kept on average, any number of each.

    Args:
        groups: from `group_rows`.
        options: m, rule, seed, scope and selection_weights.
        step: training step; with a seed each step draws again.
        order: what to sort the groups by, by uid. Without one they are sorted by their uids, which
            verl draws at random: its rows arrive as they end, and the short ones must not win ties.

    Raises:
        InvalidInputError: infinite rewards, or a rule of the user's own that returns nonsense.
        RewardError: a reward outside `options.reward_range`.
    """
    order = order or {}
    groups = sorted(groups, key=lambda group: (str(order.get(group.uid, "")), group.uid))
    rollouts = [zip(group.rewards_N, group.parts_N, strict=True) for group in groups]
    kept = options.select(rollouts, step)
    return [replace(group, kept=tuple(ks)) for group, ks in zip(groups, kept, strict=True)]


def advantages_of(
    group: Group, baseline: Literal["kept", "group"], scale: bool, eps: float
) -> dict[str, float]:
    """`podsrl.group_advantages` of a group, for every kept row."""
    advantages = group_advantages(
        group.rewards_N, np.array(group.kept, dtype=int), baseline=baseline, scale=scale, eps=eps
    )
    return {
        key: advantage
        for i, advantage in zip(group.kept, advantages.tolist(), strict=True)
        for key in group.sessions[i]
    }


def parts_of(groups: Sequence[Group]) -> tuple[list[str], np.ndarray]:
    """Names of the numbers in the reward function's dictionary, and their values, shape (P, N, F).

    NaN where a rollout has none, could not be scored, or is missing in a smaller group.
    """
    names = sorted(
        {
            name
            for group in groups
            for parts in group.parts_N
            for name, value in parts.items()
            if is_number(value) and name not in _NOT_PARTS
        }
    )
    most = max((len(group.sessions) for group in groups), default=0)
    parts_P_N_F = np.full((len(groups), most, len(names)), np.nan)
    for g, group in enumerate(groups):
        for i, parts in enumerate(group.parts_N):
            if not np.isnan(group.rewards_N[i]):
                parts_P_N_F[g, i] = [as_number(parts.get(name)) for name in names]
    return names, parts_P_N_F


def metrics_of_parts(
    groups: Sequence[Group],
    options: Options,
    scale: bool,
    eps: float,
    weights: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """How closely the advantages follow each number of the reward function's dictionary.

    Args:
        groups: from `select`.
        options: as there.
        scale, eps: as in `group_advantages`.
        weights: of the numbers in the reward, where they are known. With these, or with
            selection_weights, also the share of groups whose kept rollouts differ in a part of the
            reward, but not in the outcome.
    """
    names, parts_P_N_F = parts_of(groups)
    if not names:
        return {}
    kept_P_N = np.zeros(parts_P_N_F.shape[:2], dtype=bool)
    of_kept, of_all = np.zeros(kept_P_N.shape), np.zeros(kept_P_N.shape)
    for g, group in enumerate(groups):
        kept, every = np.array(group.kept, dtype=int), np.arange(len(group.sessions))
        kept_P_N[g, kept] = True
        advantages = group_advantages(group.rewards_N, kept, options.baseline, scale, eps)
        of_kept[g, kept] = advantages
        of_all[g, every] = group_advantages(group.rewards_N, every, "kept", scale, eps)
    found = drive_metrics(names, parts_P_N_F, of_kept, of_all, kept_P_N)
    selected = options.selection_weights
    by_selection = None if selected is None else [selected.get(name, 0.0) for name in names]
    if weights is None and not any(by_selection or ()):
        return found
    by_weight = [1.0 if weights is None else weights.get(name, 0.0) for name in names]
    only = shaping_only(parts_P_N_F, kept_P_N, by_weight, by_selection)
    found["pods/shaping_only_groups"] = only
    return found
