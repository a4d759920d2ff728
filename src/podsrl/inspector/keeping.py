"""The choice that PODS would have made, where a file does not say what was kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np

from podsrl.advantages import group_advantages
from podsrl.errors import FieldError
from podsrl.methods import METHODS
from podsrl.rules import resolve_rule
from podsrl.selection import Selection


@dataclass(frozen=True)
class Keep:
    """A rule, and how many rollouts of each prompt it keeps, for files that say nothing of it.

    Args:
        num_kept: The rollouts that are kept of each prompt, 2 or more, with a batch rule on
            average; None: a quarter, and at least 2.
        rule: A rule, as `Selection` takes it.

    Raises:
        FieldError: The number is no integer, or less than 2.
        UnknownNameError: There is no such rule.
    """

    num_kept: int | None = None
    rule: str = "max_variance"

    def __post_init__(self) -> None:
        resolve_rule(self.rule)
        if self.num_kept is None:
            return
        if not isinstance(self.num_kept, Integral) or self.num_kept < 2:
            raise FieldError(
                "$num_kept must be an integer >= 2, as one kept rollout has no other to compare"
                " with; got $given",
                given=repr(self.num_kept),
            )

    def __str__(self) -> str:
        share = "a quarter, and at least 2," if self.num_kept is None else f"{self.num_kept}"
        mean = " on average" if resolve_rule(self.rule).across_prompts else ""
        return f"{self.rule} would keep {share} of each prompt{mean}"

    @property
    def baseline(self) -> Literal["kept", "group"]:
        """The rewards that kept ones are compared with: as in the method that has this rule.

        A batch rule of the user's own that may keep a row alone needs all of its group. A prompt
        rule keeps no row alone here, and is compared as in the paper.
        """
        for method in METHODS.values():
            if method.selection.rule == self.rule:
                return method.selection.baseline
        rule = resolve_rule(self.rule)
        return "group" if rule.across_prompts and rule.needs_group_baseline else "kept"

    def choice(self, groups: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The rollouts that PODS would keep of the groups of a step, and their advantages.

        Args:
            groups: The rewards of each group; not finite for a rollout without one.

        Returns:
            Whether each rollout is kept, and its advantage, NaN if it is dropped; of all groups,
            one after the other.
        """
        baseline = self.baseline
        kept_R: list[np.ndarray] = []
        advantages_R: list[np.ndarray] = []
        for rewards_N, kept in zip(groups, self.of_step(groups), strict=True):
            kept_N = np.zeros(len(rewards_N), dtype=bool)
            kept_N[kept] = True
            advantages_N = np.full(len(rewards_N), np.nan)
            if kept:
                finite_N = np.where(np.isfinite(rewards_N), rewards_N, np.nan)
                advantages_N[kept] = group_advantages(finite_N, np.array(kept), baseline)
            kept_R.append(kept_N)
            advantages_R.append(advantages_N)
        return np.concatenate(kept_R), np.concatenate(advantages_R)

    def of_step(self, groups: Sequence[np.ndarray]) -> list[list[int]]:
        """The places that are kept of each group of a step.

        Args:
            groups: The rewards of each group; NaN for a rollout without one.
        """
        rewards: list[Any] = [np.where(np.isfinite(group), group, np.nan) for group in groups]
        if resolve_rule(self.rule).across_prompts:
            largest = max(map(len, rewards))
            mean = sum(map(len, rewards)) / len(rewards)
            return self._selection(largest, self._kept_of(round(mean))).select(rewards)

        # A quarter is of each group's own size.
        kept: list[list[int]] = [[] for _ in rewards]
        for size in {len(group) for group in rewards}:
            places = [place for place, group in enumerate(rewards) if len(group) == size]
            selection = self._selection(size, self._kept_of(size))
            chosen = selection.select([rewards[place] for place in places])
            for place, of_group in zip(places, chosen, strict=True):
                kept[place] = of_group
        return kept

    def _kept_of(self, size: int) -> int:
        return max(2, size // 4) if self.num_kept is None else self.num_kept

    def _selection(self, size: int, kept: int) -> Selection:
        return Selection(max(size, kept), kept, rule=self.rule, baseline=self.baseline)
