"""How rollouts are selected: one checked object for every host."""

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, fields
from typing import Any, Literal

import numpy as np

from podsrl.advantages import BASELINES
from podsrl.downsampling import Rule, downsample, group_rules, is_batch_rule, resolve_rule
from podsrl.downsampling.doors import keep_rows, refuse_infinite
from podsrl.errors import InvalidInputError

#: What the user sets in the config of a host that has no config class of ours.
OPTIONS = ("m", "rule", "baseline", "seed", "selection_weights")
# Rules that keep a spread of rewards; where only one rollout is kept it would be a poor one.
_KEEP_A_SPREAD = (group_rules.max_variance, group_rules.balanced, group_rules.percentile)
_BY_ADVANTAGE = (*map(resolve_rule, ("top_advantage", "advantage_variance")),)  # often one alone


@dataclass(frozen=True)
class Selection:
    """How many rollouts of each prompt are generated, which are kept, and their baseline.

    Args:
        num_rollouts: The number n of rollouts that are generated for each prompt.
        num_kept: The number m of rollouts of each prompt that the update sees, at least 2. It may
            be 1 with max_reward and the baseline "group": the best rollout; and with a batch rule,
            where it is a mean over prompts.
        rule: A group rule or a batch rule: a name in `podsrl.RULES`, "module:function",
            "file.py:function", or a callable.
        baseline: The rewards that advantages are relative to: "kept" (the paper) or all of the
            "group".
        seed: Breaks ties at random, anew in each step, and drives the rule "random". None breaks
            ties by rollout number; with selection_weights at random, anew in every run.
        selection_weights: What to select by, as weights of the reward's parts by their names
            ("score" is the reward itself); None: the reward.
        names: What the user calls fields, where these are not their own names; for messages.

    Raises:
        InvalidInputError: A size out of range, an unknown baseline, a rule or weights of a wrong
            kind; the message says what is allowed.
        UnknownNameError: There is no such rule.

    >>> Selection(num_rollouts=4, num_kept=2).select([[0.0, 0.0, 1.0, 0.5], [1.0, 0.0]])
    [[0, 2], [0, 1]]
    """

    num_rollouts: int
    num_kept: int
    rule: str | Rule = "max_variance"
    baseline: Literal["kept", "group"] = "kept"
    seed: int | None = None
    selection_weights: Mapping[str, float] | None = None
    names: InitVar[Mapping[str, str] | None] = None

    def __post_init__(self, names: Mapping[str, str] | None) -> None:
        called = {field.name: field.name for field in fields(self)} | dict(names or {})
        n, m = self.num_rollouts, self.num_kept
        for field, value in (("num_rollouts", n), ("num_kept", m)):
            if value is None:
                raise InvalidInputError(f"{called[field]} is not set; set it to an integer")
            if not _is_integer(value):
                raise InvalidInputError(f"{called[field]} must be an integer; got {value!r}")
        rule = resolve_rule(self.rule)
        alone = self.baseline == "group" and rule not in _KEEP_A_SPREAD
        alone |= is_batch_rule(rule) and rule not in _BY_ADVANTAGE
        n_name, least = called["num_rollouts"], 1 if alone else 2
        if n < 2:
            raise InvalidInputError(f"{n_name}={n}; allowed: at least 2, to compare them")
        allowed = f"allowed: {least} <= m <= {n} ({n_name}, rollouts generated per prompt)"
        if m < least:
            raise InvalidInputError(
                f"{called['num_kept']}={m}; {allowed}. One kept rollout has no other to"
                f" compare with; 1 is allowed with {called['baseline']}=group and"
                f" {called['rule']}=max_reward, and with a rule across prompts, such as"
                f" {called['rule']}=max_contrast, where m is a mean"
            )
        if m > n:
            raise InvalidInputError(
                f"{called['num_kept']}={m} rollouts can't be kept of {n_name}={n}; {allowed}, or"
                f" raise {n_name}"
            )
        if self.baseline not in [*BASELINES]:  # what can't be hashed, too
            raise InvalidInputError(
                f"{called['baseline']}={self.baseline!r}; allowed: {', '.join(BASELINES)}"
            )
        if self.seed is not None and (not _is_integer(self.seed) or self.seed < 0):
            raise InvalidInputError(f"{called['seed']}={self.seed!r}; allowed: an integer >= 0")
        weights: Any = self.selection_weights
        named = isinstance(weights, Mapping)
        if weights is not None and not (named and are_weights(weights.values())):
            all_0 = " are all 0" if named and not any(weights.values()) else ""
            raise InvalidInputError(
                f"{called['selection_weights']}={weights!r}{all_0}; allowed: numbers by name of the"
                " reward's part, not all 0, such as {acc: 1.0}; score is the reward itself"
            )

    @classmethod
    def from_options(
        cls, given: Mapping[str, Any], num_rollouts: int, where: str, n_name: str
    ) -> "Selection":
        """The selection that a mapping in a host's config asks for: m, and others of `OPTIONS`.

        Messages name an option with `where` before it, and the number of rollouts as `n_name`.

        Raises:
            InvalidInputError, UnknownNameError: As `Selection`; or an option is unknown.

        >>> Selection.from_options({"m": 4}, 8, where="pods.", n_name="n").num_kept
        4
        """
        names = {name: where + name for name in OPTIONS}
        if unknown := [where + name for name in sorted(set(given) - set(OPTIONS))]:
            raise InvalidInputError(
                f"unknown: {', '.join(unknown)}; allowed: {', '.join(names.values())}"
            )
        names |= {"num_kept": where + "m", "num_rollouts": n_name}
        rest = {name: value for name, value in given.items() if name != "m"}
        return cls(num_rollouts, given.get("m"), **rest, names=names)  # type: ignore[arg-type]

    @property
    def across_prompts(self) -> bool:
        """Whether the rule keeps rows across prompts."""
        return is_batch_rule(resolve_rule(self.rule))

    @property
    def in_words(self) -> str:
        """What is kept of a prompt's rollouts, for messages: "4 of 8", "1 of 3 on average"."""
        mean = " on average" if self.across_prompts else ""
        return f"{self.num_kept} of {self.num_rollouts}{mean}"

    def score(self, reward: float, parts: Mapping[str, Any]) -> float:
        """What a rollout is selected by: its reward, or the weighted sum of its parts.

        A part that is NaN counts as 0 there, unless all of them are; a NaN reward stays NaN.

        Raises:
            InvalidInputError: A part is missing, or no number; or the reward is infinite.
        """
        refuse_infinite(np.asarray(reward))
        if self.selection_weights is None or math.isnan(reward):
            return reward
        parts = {"score": reward, **parts}
        for name in self.selection_weights:
            if name not in parts or not is_number(parts[name]):
                numbers = ", ".join(n for n, v in parts.items() if is_number(v))
                raise InvalidInputError(
                    f"selection_weights names {name!r}, and the reward function gave no number of"
                    f" that name; it gave: {numbers}"
                )
        values = np.array([as_number(parts[name]) for name in self.selection_weights])
        weights = np.array(list(self.selection_weights.values()), dtype=np.float64)
        return float(weighted_sums(values, weights))

    def select(self, scores: Iterable[Any], *step: int) -> list[list[int]]:
        """Which rollouts of each group are kept, ascending.

        Args:
            scores: What the rollouts of each group are selected by; NaN where one could not be
                scored. Groups may differ in size; with a group rule one of at most m is kept whole.
            step: Numbers of the step; with a seed each step draws anew.

        Raises:
            InvalidInputError: An infinite score, or a rule of the user's own that returns nonsense.
        """
        seed = None if self.selection_weights is None else [secrets.randbits(32)]
        if self.seed is not None:
            seed = [self.seed, *step]
        groups = [np.asarray(group, dtype=np.float64) for group in scores]
        for group in groups:
            refuse_infinite(group)
        if self.across_prompts:
            rewards_P_N, there_P_N = padded(groups)
            rows = self.num_kept * len(groups)
            kept_P_N = keep_rows(rewards_P_N, there_P_N, rows, self.rule, seed)
            return [np.flatnonzero(kept_N).tolist() for kept_N in kept_P_N]
        kept = [list(range(len(group))) for group in groups]
        for size in {len(group) for group in groups if len(group) > self.num_kept}:
            places = [place for place, group in enumerate(groups) if len(group) == size]
            chosen = downsample([groups[p] for p in places], self.num_kept, self.rule, seed)
            for place, kept_M in zip(places, chosen, strict=True):
                kept[place] = kept_M
        return kept


def padded(groups: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Groups of any sizes as one array, NaN where there is no rollout, and where there is one.

    >>> padded([[1.0, 0.0], [1.0]])[1].tolist()
    [[True, True], [True, False]]
    """
    shape = (len(groups), max((len(group) for group in groups), default=0))
    values_P_N, there_P_N = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    for place, group in enumerate(groups):
        values_P_N[place, : len(group)], there_P_N[place, : len(group)] = group, True
    return values_P_N, there_P_N


def are_weights(values: Iterable[Any]) -> bool:
    """Whether values are finite numbers, and not all 0."""
    values = list(values)
    return all(is_number(value) and math.isfinite(value) for value in values) and any(values)


def is_number(value: Any) -> bool:
    """Whether a value is a real number (or a boolean), NaN included."""
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def as_number(value: Any) -> float:
    """A value as a float, and NaN for what is no number or none that a float can hold."""
    try:
        return float(value) if is_number(value) else math.nan
    except OverflowError:  # an integer of more than 308 digits, as a model may write one
        return math.nan


def weighted_sums(parts_F: np.ndarray, weights_F: np.ndarray) -> np.ndarray:
    """Sums over the last axis; NaN where every part whose weight isn't 0 is NaN."""
    parts_F, weights_F = parts_F[..., weights_F != 0], weights_F[weights_F != 0]
    sums = np.nansum(parts_F * weights_F, axis=-1)
    return np.where(np.isnan(parts_F).all(axis=-1), np.nan, sums)


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
