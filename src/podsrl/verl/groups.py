"""Selecting the rows of a verl batch, as its config says. Nothing here needs verl."""

import logging
import math
import os
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from podsrl import selection as core
from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.methods import OPTIONS, selection_from_options
from podsrl.rewards import Rewards, is_number, rewards_of_groups
from podsrl.selection import Selected, Selection

logger = logging.getLogger(__name__)
logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))  # verl leaves the root logger at WARNING

#: The trainer modes, each with a section of its own under trainer.v1.
MODES = ("pods_sync", "pods_colocate_async", "pods_separate_async")
EPS = 1e-6  # of verl's compute_grpo_outcome_advantage


@dataclass(frozen=True)
class Row:
    """One row of a batch of verl."""

    key: str  # verl's, "{uid}_{session}_{index}"
    reward: float  # NaN if it could not be scored
    parts: Mapping[str, Any]  # what else the reward function gave, by name
    turns: int  # of its conversation
    tag: Mapping[str, Any]  # verl's, with the lengths in tokens


@dataclass(frozen=True)
class Rollout:
    """One rollout, which verl calls a session: an agent loop may put several rows into one."""

    rows: tuple[Row, ...]
    reward: float  # of the last row, as in verl
    parts: Mapping[str, Any]  # of the last row
    tokens: int  # of all rows, prompts included

    def unscored(self) -> "Rollout":
        """The same rollout as one that could not be scored."""
        rows = tuple(replace(row, reward=math.nan) for row in self.rows)
        return replace(self, rows=rows, reward=math.nan)


#: The rollouts of one prompt, in the order of their sessions.
Group = tuple[Rollout, ...]


def parse_key(key: str) -> tuple[str, int, int]:
    """The parts of verl's key "{uid}_{session}_{index}"; another form is an `InvalidInputError`."""
    parts = key.rsplit("_", 2)
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        raise InvalidInputError(
            f"row {key!r} is not named {{uid}}_{{session}}_{{index}} as in verl 0.9; podsrl can't"
            " tell which prompt it belongs to"
        )
    return parts[0], int(parts[1]), int(parts[2])


def group_rows(rows: Sequence[Row], order: Mapping[str, Any] | None = None) -> list[Group]:
    """Rows as groups of rollouts, sorted by what `order` has for each uid, else by their uids.

    Rows arrive as they end, and short ones must not win ties.
    """
    rows_of: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda row: parse_key(row.key)):
        uid, session, _ = parse_key(row.key)
        rows_of[uid][session].append(row)

    order = order or {}
    groups: list[Group] = []
    for uid in sorted(rows_of, key=lambda uid: str(order.get(uid, ""))):
        groups.append(tuple(_rollout(of_session) for of_session in rows_of[uid].values()))
    return groups


def read_selection(config: Mapping[str, Any], mode: str) -> Selection:
    """The selection that verl's whole config asks for in the section of a trainer mode.

    Raises:
        InvalidInputError, UnknownNameError: Options that are wrong by themselves.
        UnsupportedError: Options that verl can't train with as it is configured.
    """
    where = f"trainer.v1.{mode}."
    sections = config["trainer"]["v1"]
    misplaced = [name for name in MODES if name != mode and sections.get(name)]
    if misplaced and not sections.get(mode):
        raise InvalidInputError(
            f"options of podsrl are in trainer.v1.{misplaced[0]}, and the trainer mode is {mode}:"
            f" give them as +{where}m=... and so on"
        )
    selection = selection_from_options(
        dict(sections.get(mode) or {}),
        config["actor_rollout_ref"]["rollout"]["n"],
        where=where,
        n_name="actor_rollout_ref.rollout.n",
        of_host=("skip_zero_advantage",),
    )
    _check_reward_model(config, selection, where)
    _check_estimator(config["algorithm"], selection, where)
    return selection


def refuse_misplaced_options(config: Mapping[str, Any]) -> None:
    """Raise `InvalidInputError` if verl's whole config has options of ours in a wrong place.

    Hydra's + adds any key anywhere, and verl reads none that it doesn't know.

    Args:
        config: As plain dictionaries.
    """
    allowed = {f"trainer.v1.{mode}" for mode in MODES}
    sections = ("trainer", "trainer.v1", *(f"trainer.v1.{mode[5:]}" for mode in MODES))
    misplaced = [place for place in _places_of_pods(config) if place not in allowed]
    for section in sections:
        found: Any = config
        for name in section.split("."):
            found = (found or {}).get(name)
        misplaced += [f"{section}.{name}" for name in OPTIONS if name in (found or {})]

    if misplaced:
        raise InvalidInputError(
            f"podsrl does not read {', '.join(misplaced)}; its options go into the section of the"
            f" trainer mode: {', '.join(sorted(allowed))}, such as +trainer.v1.pods_sync.m=16"
        )


def _places_of_pods(config: Mapping[str, Any], where: str = "") -> Iterator[str]:
    """Where a config has a key that is called after podsrl, by the path to it."""
    for name, value in config.items():
        if str(name) in ("pods", "podsrl") or str(name).startswith("pods_"):
            yield f"{where}{name}"
        elif isinstance(value, Mapping):
            yield from _places_of_pods(value, f"{where}{name}.")


def _check_reward_model(config: Mapping[str, Any], selection: Selection, where: str) -> None:
    """With a colocated reward model verl keeps what a reward function returned by batch only."""
    model = (config.get("reward") or {}).get("reward_model") or {}
    is_colocated = model.get("enable") and not model["enable_resource_pool"]
    if selection.selection_weights and is_colocated:
        raise UnsupportedError(
            f"{where}selection_weights needs the reward function's dictionary, which verl keeps by"
            " rollout only where reward.reward_model.enable_resource_pool=True; set that"
        )


def _check_estimator(algorithm: Mapping[str, Any], selection: Selection, where: str) -> None:
    """Only GRPO's advantages are podsrl's to compute, and only where no KL is in the reward."""
    needs_grpo = selection.unbalanced_by
    if selection.across_prompts:
        needs_grpo = f"rule={selection.rule} keeps rows across prompts, which"
    if needs_grpo and algorithm["adv_estimator"] != "grpo":
        raise UnsupportedError(
            f"{where}{needs_grpo} needs algorithm.adv_estimator=grpo; got"
            f" {algorithm['adv_estimator']}. Every estimator works with baseline=kept and a rule"
            " within prompts that weighs no rows, such as max_variance"
        )
    if not selection.advantages_sum_to_zero and algorithm.get("use_kl_in_reward"):
        raise UnsupportedError(
            f"{where}{selection.unbalanced_by} can't be used with"
            " algorithm.use_kl_in_reward=True: dropped rollouts have no reference log-probs. Use"
            " baseline=kept and a rule without weights, or"
            " actor_rollout_ref.actor.use_kl_loss=True in place of KL in the reward"
        )


@dataclass(frozen=True)
class SelectedGroups:
    """The groups of a step, and what was selected of them.

    Args:
        groups: All rollouts of the step.
        selected: What is kept, and what follows from it; its arrays have the order of `groups`.
    """

    groups: list[Group]
    selected: Selected

    def rows(self) -> Iterator[Row]:
        """All rows, of one rollout after the other."""
        for rollout in chain.from_iterable(self.groups):
            yield from rollout.rows

    def kept_keys(self) -> set[str]:
        """The keys of every row of the kept rollouts."""
        return set(self.advantages_of_rows())

    def advantages_of_rows(self, places: Container[int] | None = None) -> dict[str, float]:
        """The advantage of every kept row, by its key; rows of one rollout share its advantage.

        Args:
            places: The places of the groups that are asked for; None: all.
        """
        advantage_of: dict[str, float] = {}
        of_groups = zip(self.groups, self.selected.of_kept, strict=True)
        for place, (group, of_kept) in enumerate(of_groups):
            if places is not None and place not in places:
                continue
            for rollout, advantage in of_kept.items():
                advantage_of.update((row.key, advantage) for row in group[rollout].rows)
        return advantage_of

    def metrics(self) -> dict[str, float]:
        """The metrics of what the update sees of the groups, by the names that every host logs."""
        return self.selected.metrics(
            [[rollout.tokens for rollout in group] for group in self.groups]
        )


def select(
    groups: list[Group], selection: Selection, step: int, scale: bool = True
) -> SelectedGroups:
    """Select rollouts of the groups of a step.

    Args:
        groups: All rollouts of the step.
        selection: How they are selected.
        step: The number of the step; with a seed each step draws anew.
        scale: Whether advantages are divided by the deviation of their group.
    """
    if selection.selection_weights:
        groups = _without_missing_parts(groups, selection.selection_weights)
    rewards = _rewards_of(groups, selection)
    selected = core.select(selection, rewards, step, scale="group" if scale else "none", eps=EPS)
    return SelectedGroups(groups, selected)


def joined(updates: Sequence[SelectedGroups]) -> SelectedGroups:
    """Join the selections of several updates of one step."""
    if len(updates) == 1:
        return updates[0]
    groups = [group for update in updates for group in update.groups]
    kept = [places for update in updates for places in update.selected.kept]

    first = updates[0].selected
    rewards = _rewards_of(groups, first.selection)
    kept_P_N = np.zeros(rewards.total_P_N.shape, dtype=bool)
    for kept_N, places in zip(kept_P_N, kept, strict=True):
        kept_N[places] = True
    return SelectedGroups(groups, replace(first, rewards=rewards, kept_P_N=kept_P_N))


def _without_missing_parts(groups: Sequence[Group], weights: Mapping[str, float]) -> list[Group]:
    """The groups, where a rollout without a part that a weight names could not be scored.

    A part that no rollout of the step has is a mistake in the weights, and stays one.
    """
    rollouts = list(chain.from_iterable(groups))
    missing = {name: sum(not _has_part(rollout, name) for rollout in rollouts) for name in weights}
    missing = {name: count for name, count in missing.items() if 0 < count < len(rollouts)}
    if not missing:
        return list(groups)

    counts = ", ".join(f"{name!r} in {count}" for name, count in missing.items())
    logger.warning(
        f"selection_weights: the reward function gave no number for {counts} of {len(rollouts)}"
        " rollouts; they count as unscorable"
    )
    unscored: list[Group] = []
    for group in groups:
        unscored.append(
            tuple(
                rollout if all(_has_part(rollout, name) for name in missing) else rollout.unscored()
                for rollout in group
            )
        )
    return unscored


def _has_part(rollout: Rollout, name: str) -> bool:
    """Whether there is nothing amiss with this part; a rollout that is NaN needs none."""
    return math.isnan(rollout.reward) or name == "score" or is_number(rollout.parts.get(name))


def _rewards_of(groups: Sequence[Group], selection: Selection) -> Rewards:
    return rewards_of_groups(
        [[rollout.reward for rollout in group] for group in groups],
        [[rollout.parts for rollout in group] for group in groups],
        selection.selection_weights,
    )


def _rollout(rows: Sequence[Row]) -> Rollout:
    """The rollout of these rows, which are in their order."""
    tokens = sum(row.tag["seq_len"] for row in rows)
    return Rollout(tuple(rows), rows[-1].reward, rows[-1].parts, tokens)
