"""How rollouts are selected: one checked object for every host."""

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from podsrl.advantages import BASELINES
from podsrl.errors import FieldError
from podsrl.rewards import are_weights, refuse_infinite, score_of_parts
from podsrl.rules import Rule, RuleName, downsample, resolve_rule
from podsrl.rules.api import keep_rows


@dataclass(frozen=True)
class Selection:
    """How many rollouts of each prompt are generated, which are kept, and their baseline.

    Args:
        num_rollouts: The number n of rollouts that are generated for each prompt.
        num_kept: The number m of rollouts of each prompt that the update sees; with a batch rule a
            mean over prompts. It is at least what the rule says (`Rule.least_kept`), and 1 only
            where a row that is kept alone has something to be compared with.
        rule: A prompt rule or a batch rule: a name in `podsrl.RULES`, "module:function",
            "file.py:function", or a callable.
        baseline: The rewards that advantages are relative to: "kept" (the paper) or all of the
            "group".
        seed: Breaks ties at random, anew in each step, and drives the rule "random". None breaks
            ties by rollout number; with selection_weights at random, anew in every run.
        selection_weights: What to select by, as weights of the reward's parts by their names
            ("score" is the reward itself); None: the reward.

    Raises:
        FieldError: A size out of range, an unknown baseline, a rule or weights of a wrong kind; the
            message says what is allowed.
        UnknownNameError: There is no such rule.

    >>> Selection(num_rollouts=4, num_kept=2).select([[0.0, 0.0, 1.0, 0.5], [1.0, 0.0]])
    [[0, 2], [0, 1]]
    """

    num_rollouts: int
    num_kept: int
    rule: RuleName = "max_variance"
    baseline: Literal["kept", "group"] = "kept"
    seed: int | None = None
    selection_weights: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        self._check_are_integers()
        if self.baseline not in list(BASELINES):  # a list: the value may be one that has no hash
            raise FieldError(
                "$baseline=$given; allowed: $known",
                given=repr(self.baseline),
                known=_listed(BASELINES),
            )
        self._check_sizes(resolve_rule(self.rule))
        if self.seed is not None and (not _is_integer(self.seed) or self.seed < 0):
            raise FieldError("$seed=$given; allowed: an integer >= 0", given=repr(self.seed))
        if self.selection_weights is not None:
            self._check_weights(self.selection_weights)

    @property
    def across_prompts(self) -> bool:
        """Whether the rule keeps rows across prompts."""
        return resolve_rule(self.rule).across_prompts

    @property
    def advantages_sum_to_zero(self) -> bool:
        """Whether the advantages that are kept of a group sum to 0 (`Baseline.sums_to_zero`)."""
        return BASELINES[self.baseline].sums_to_zero

    @property
    def in_words(self) -> str:
        """What is kept of a prompt's rollouts, for messages: "4 of 8", "1 of 3 on average"."""
        mean = " on average" if self.across_prompts else ""
        return f"{self.num_kept} of {self.num_rollouts}{mean}"

    def score(self, reward: float, parts: Mapping[str, Any]) -> float:
        """What a rollout is selected by: its reward, or the weighted sum of its parts.

        Raises:
            InvalidInputError: A part is missing, or no number; or the reward is infinite.
        """
        refuse_infinite(np.asarray(reward))
        if self.selection_weights is None:
            return reward
        return score_of_parts(reward, parts, self.selection_weights)

    def select(self, scores: Iterable[Any], *step: int) -> list[list[int]]:
        """Which rollouts of each group are kept, ascending.

        Args:
            scores: What the rollouts of each group are selected by; NaN where one could not be
                scored. Groups may differ in size; with a prompt rule one of at most m is kept
                whole.
            step: Numbers of the step; with a seed each step draws anew.

        Raises:
            InvalidInputError: An infinite score, or a rule of the user's own that returns nonsense.
        """
        groups = [np.asarray(group, dtype=np.float64) for group in scores]
        for group in groups:
            refuse_infinite(group)

        seed = self._seed_of(step)
        if self.across_prompts:
            return self._select_across(groups, seed)
        return self._select_of_each(groups, seed)

    def _select_across(self, groups: Sequence[np.ndarray], seed: Any) -> list[list[int]]:
        scores_P_N, there_P_N = padded(groups)
        rows = self.num_kept * len(groups)
        kept_P_N = keep_rows(scores_P_N, there_P_N, rows, self.rule, seed)
        return [np.flatnonzero(kept_N).tolist() for kept_N in kept_P_N]

    def _select_of_each(self, groups: Sequence[np.ndarray], seed: Any) -> list[list[int]]:
        """Groups of one size go through the rule together; small ones are kept whole."""
        kept = [list(range(len(group))) for group in groups]
        for size in {len(group) for group in groups if len(group) > self.num_kept}:
            places = [place for place, group in enumerate(groups) if len(group) == size]
            chosen = downsample([groups[p] for p in places], self.num_kept, self.rule, seed)
            for place, kept_M in zip(places, chosen, strict=True):
                kept[place] = kept_M
        return kept

    def _seed_of(self, step: Sequence[int]) -> list[int] | None:
        """The seed of a step, which every process of a run draws alike where `seed` is given."""
        if self.seed is not None:
            return [self.seed, *step]
        if self.selection_weights is not None:
            # A part of the reward, such as right or wrong, has many ties. By rollout number they
            # would always be decided for the first ones, whatever the rest of the reward says.
            return [secrets.randbits(32)]
        return None

    def _check_are_integers(self) -> None:
        for field in ("num_rollouts", "num_kept"):
            value = getattr(self, field)
            if value is None:
                raise FieldError(f"${field} is not set; set it to an integer")
            if not _is_integer(value):
                raise FieldError(f"${field} must be an integer; got $given", given=repr(value))

    def _check_sizes(self, rule: Rule) -> None:
        n, m = self.num_rollouts, self.num_kept
        alone_is_compared = not self.advantages_sum_to_zero or not rule.needs_group_baseline
        least = max(rule.least_kept, 1 if alone_is_compared else 2)
        allowed = f"allowed: {least} <= m <= {n} ($num_rollouts, rollouts generated per prompt)"

        if n < 2:
            raise FieldError(f"$num_rollouts={n}; allowed: at least 2, to compare them")
        if m < least and rule.across_prompts and m == 1:
            raise FieldError(
                f"$num_kept={m} with $rule=$given needs $baseline=group: the rule may keep a row"
                f" alone, which has no other kept one to compare with; {allowed}",
                given=rule.name,
            )
        if m < least:
            raise FieldError(
                f"$num_kept={m}; {allowed}. One kept rollout has no other to compare with; 1 is"
                " allowed with $baseline=group and $rule=max_reward, and with a rule across"
                " prompts, such as $rule=max_contrast, where m is a mean"
            )
        if m > n:
            raise FieldError(
                f"$num_kept={m} rollouts can't be kept of $num_rollouts={n}; {allowed}, or raise"
                " $num_rollouts"
            )

    @staticmethod
    def _check_weights(weights: Any) -> None:
        is_named = isinstance(weights, Mapping)
        if is_named and are_weights(weights.values()):
            return
        raise FieldError(
            "$selection_weights=$given$all_zero; allowed: numbers by name of the reward's part, not"
            " all 0, such as {acc: 1.0}; score is the reward itself",
            given=repr(weights),
            all_zero=" are all 0" if is_named and not any(weights.values()) else "",
        )


def padded(groups: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Groups of any sizes as one array, NaN where there is no rollout, and where there is one.

    There is a column also where no group has a rollout, since rewards have at least one.

    >>> padded([[1.0, 0.0], [1.0]])[1].tolist()
    [[True, True], [True, False]]
    """
    largest = max([1, *(len(group) for group in groups)])
    values_P_N = np.full((len(groups), largest), math.nan)
    there_P_N = np.zeros((len(groups), largest), dtype=bool)
    for place, group in enumerate(groups):
        values_P_N[place, : len(group)] = group
        there_P_N[place, : len(group)] = True
    return values_P_N, there_P_N


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
