"""How to down-sample, as a mapping from the config of a host that has no config class of ours."""

import math
import operator
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from podsrl.advantages import BASELINES
from podsrl.downsampling import Rule, refuse_outside, resolve_rule
from podsrl.downsampling.ragged import downsample_ragged, downsample_ragged_batch
from podsrl.downsampling.registry import refuse_infinite
from podsrl.errors import InvalidInputError

SCOPES = ("prompt", "batch")


def described(value: Any, meaning: str) -> Any:
    """A field of a dataclass with this default and this help on the command line."""
    return field(default=value, metadata={"help": meaning})


def kept_in_words(m: int, n: int, scope: str) -> str:
    """What is kept of a prompt's rollouts, for messages: "4 of 8", "1 of 3 on average"."""
    return f"{m} of {n}" + (" on average" if scope == "batch" else "")


@dataclass(frozen=True)
class Options:
    """Checked options.

    m: rollouts per prompt that the update sees.
    rule: a name in `podsrl.RULES`, "module:function" or "file.py:function".
    baseline: "kept" (the paper) or "group": advantages against all n rewards (ablation).
    seed: breaks ties at random and drives the rule "random"; None breaks ties by rollout number, or
        with selection_weights at random, anew in every run.
    scope: "prompt": m of each prompt; "batch": m rows per prompt on average, where they teach most;
        m may be 1 there.
    selection_weights: what to select by, by key of the reward function's dictionary ("score": the
        reward itself); None: the reward.
    rollouts_per_round: rollouts of a prompt to look at before the others are generated; None: all.
    reward_range: the lowest and the highest reward there can be.
    stop_at: the share of the largest standard deviation at which no further round is needed;
        None: all of it.
    """

    m: int
    rule: str | Rule = "max_variance"
    baseline: Literal["kept", "group"] = "kept"
    seed: int | None = None
    scope: Literal["prompt", "batch"] = "prompt"
    selection_weights: Mapping[str, float] | None = None
    rollouts_per_round: int | None = None
    reward_range: Sequence[float] | None = None
    stop_at: float | None = None

    def selected_by(self, reward: float, parts: Mapping[str, Any]) -> float:
        """What a rollout is selected by: its reward, or the weighted sum of its parts.

        A part that is NaN counts as 0 there, unless all of them are; a NaN reward stays NaN.

        Raises:
            InvalidInputError: a part of that name is missing, or is no number.
        """
        if self.selection_weights is None or math.isnan(reward):
            return reward
        parts = {"score": reward, **parts}
        for name in self.selection_weights:
            if name not in parts or not is_number(parts[name]):
                raise InvalidInputError(
                    f"selection_weights names {name!r}, and the reward function gave no number of"
                    f" that name; it gave: {', '.join(n for n, v in parts.items() if is_number(v))}"
                )
        values = np.array([as_number(parts[name]) for name in self.selection_weights])
        weights = np.array(list(self.selection_weights.values()), dtype=np.float64)
        return float(weighted_sums(values, weights))

    def select(
        self, groups: Sequence[Iterable[tuple[float, Mapping[str, Any]]]], *step: int
    ) -> list[list[int]]:
        """Which rollouts of each group are kept, ascending; a rollout is its reward and its parts.

        Args:
            groups: of any sizes.
            step: with a seed each step draws again; needed with `reward_range`.

        Raises:
            InvalidInputError: infinite rewards, or as `selected_by`; a rule of the user's own that
                returns nonsense.
            RewardError: a reward outside `reward_range`.
        """
        rollouts = [list(group) for group in groups]
        refuse_infinite(np.array([reward for group in rollouts for reward, _ in group], float))
        scores = [[self.selected_by(*rollout) for rollout in group] for group in rollouts]
        if self.reward_range is not None:
            refuse_outside(np.concatenate(scores), self.reward_range, *step)
        seed = None if self.selection_weights is None else [secrets.randbits(32)]
        if self.seed is not None:
            seed = [self.seed, *step]
        if self.scope == "batch":
            return downsample_ragged_batch(scores, self.m * len(scores), seed)
        return downsample_ragged(scores, self.m, self.rule, seed)


def check_options(given: Mapping[str, Any], n: int, where: str, n_name: str) -> Options:
    """The options, or an error that names what to change.

    Args:
        given: what the user set.
        n: rollouts generated per prompt.
        where: the prefix under which the user set it, for messages: "trainer.v1.pods_sync.".
        n_name: what the host calls n, for messages.

    Raises:
        InvalidInputError: no m, an unknown option, or one out of range.
        UnknownNameError: no such rule.

    >>> check_options({"m": 4}, n=8, where="pods.", n_name="n")  # doctest: +NORMALIZE_WHITESPACE
    Options(m=4, rule='max_variance', baseline='kept', seed=None, scope='prompt',
            selection_weights=None, rollouts_per_round=None, reward_range=None, stop_at=None)
    """
    allowed = [field.name for field in fields(Options)]
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise InvalidInputError(
            f"unknown: {', '.join(where + name for name in unknown)}; allowed:"
            f" {', '.join(where + name for name in allowed)}"
        )
    options = Options(**{"m": None, **given})
    check(options, n, {"n": n_name, **{name: where + name for name in allowed}})
    return options


def check(options: Options, n: int, names: Mapping[str, str]) -> None:
    """Check the values of the options.

    Args:
        options: as the user set them; selection_weights by name, or None where the host has others.
        n: rollouts generated per prompt at most.
        names: what the host calls each option, and n.

    Raises:
        InvalidInputError, UnknownNameError: as `check_options`.
    """
    m, scope = options.m, options.scope
    if n < 2:
        raise InvalidInputError(
            f"{names['n']}={n}; allowed: at least 2, to compare with each other"
        )
    least = 1 if scope == "batch" else 2
    range_of_m = f"{least} <= m <= {n} ({names['n']}, the rollouts generated per prompt)"
    if m is None:
        raise InvalidInputError(f"{names['m']} is not set; set it to an integer {range_of_m}")
    if not _is_integer(m):
        raise InvalidInputError(f"{names['m']}={m!r}; allowed: an integer {range_of_m}")
    if m < least:
        raise InvalidInputError(
            f"{names['m']}={m}; allowed: {range_of_m}. One rollout has no group to compare with;"
            f" with {names['scope']}=batch, where m is a mean over prompts, 1 is allowed"
        )
    if m > n:
        raise InvalidInputError(
            f"{names['m']}={m} rollouts can't be kept of {names['n']}={n}; allowed: {range_of_m},"
            f" or raise {names['n']}"
        )
    resolve_rule(options.rule)
    for name, allowed in (("baseline", BASELINES), ("scope", SCOPES)):
        if (given := getattr(options, name)) not in allowed:
            raise InvalidInputError(f"{names[name]}={given!r}; allowed: {', '.join(allowed)}")
    if options.seed is not None and (not _is_integer(options.seed) or options.seed < 0):
        raise InvalidInputError(
            f"{names['seed']}={options.seed!r}; allowed: an integer >= 0, or none"
        )
    if scope == "batch" and options.rule != "max_variance":
        raise InvalidInputError(
            f"{names['rule']}={options.rule!r} chooses within a prompt, and {names['scope']}=batch"
            f" has a rule of its own: leave the rule out, or set {names['scope']}=prompt"
        )
    if options.selection_weights is not None:
        _check_weights(options.selection_weights, names["selection_weights"])
    _check_rounds(options, n, names)


def _check_rounds(options: Options, n: int, names: Mapping[str, str]) -> None:
    """docs/rounds.md says why each is needed."""
    r, m = options.rollouts_per_round, options.m
    limits, share = options.reward_range, options.stop_at
    name = names["rollouts_per_round"]
    if r is None:
        if limits is not None or share is not None:
            raise InvalidInputError(
                f"{names['reward_range']} and {names['stop_at']} say when a prompt needs no further"
                f" round; set {name}, or leave them out"
            )
        return
    if not _is_integer(r) or not m <= r < n:
        raise InvalidInputError(
            f"{name} must be a number from {names['m']} (m = {m}) to less than {names['n']}"
            f" (n = {n}); got {r!r}"
        )
    if options.rule != "max_variance" or options.scope != "prompt":
        raise InvalidInputError(
            f"{name} is defined for {names['rule']}=max_variance and {names['scope']}=prompt; got"
            f" {options.rule} and {options.scope}"
        )
    if limits is not None and not (
        isinstance(limits, Sequence)
        and len(limits) == 2
        and all(is_number(limit) and math.isfinite(limit) for limit in limits)
        and limits[0] < limits[1]
    ):
        raise InvalidInputError(
            f"{names['reward_range']} must be the lowest and the highest reward, such as [0, 1];"
            f" got {limits!r}"
        )
    if share is not None:
        if not is_number(share) or not 0 < share <= 1:
            raise InvalidInputError(
                f"{names['stop_at']} must be above 0 and at most 1; got {share!r}"
            )
        return
    missing = {
        f"rewards of unknown range (set {names['reward_range']}, such as [0, 1])": limits is None,
        f"an odd {names['m']} (m = {m})": m % 2 == 1,
        f"{names['baseline']}=group": options.baseline == "group",
    }
    reasons = " or ".join(reason for reason, holds in missing.items() if holds)
    if reasons:
        raise InvalidInputError(
            f"{name} can't stop exactly with {reasons}; {names['stop_at']}, such as 0.95, stops"
            " approximately"
        )


def is_number(value: Any) -> bool:
    """Is it a real number (or a boolean), NaN included?"""
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def weighted_sums(parts_F: np.ndarray, weights_F: np.ndarray) -> np.ndarray:
    """Sums over the last axis; NaN where every part whose weight isn't 0 is NaN."""
    parts_F, weights_F = parts_F[..., weights_F != 0], weights_F[weights_F != 0]
    sums = np.nansum(parts_F * weights_F, axis=-1)
    return np.where(np.isnan(parts_F).all(axis=-1), np.nan, sums)


def as_number(value: Any) -> float:
    """`value` as a float, and NaN for what is no number or none that a float can hold."""
    try:
        return float(value) if is_number(value) else math.nan
    except OverflowError:  # an integer of more than 308 digits, as a model may write one
        return math.nan


def _check_weights(weights: Any, name: str) -> None:
    allowed = (
        "allowed: numbers by key of the reward function's dictionary, not all 0, such as"
        " {acc: 1.0}; score is the reward itself"
    )
    if not isinstance(weights, Mapping) or not all(
        is_number(weight) and math.isfinite(weight) for weight in weights.values()
    ):
        raise InvalidInputError(f"{name}={weights!r}; {allowed}")
    if not any(weights.values()):
        raise InvalidInputError(f"{name}={dict(weights)!r} are all 0; {allowed}")


def _is_integer(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)
