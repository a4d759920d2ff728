"""How to down-sample, as a mapping from the config of a host that has no config class of ours."""

import math
import operator
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from podsrl.advantages import BASELINES
from podsrl.downsampling import Rule, resolve_rule
from podsrl.errors import InvalidInputError

SCOPES = ("prompt", "batch")


@dataclass(frozen=True)
class Options:
    """Checked options.

    m: rollouts per prompt that the update sees.
    rule: a name in `podsrl.RULES`, "module:function" or "file.py:function".
    baseline: "kept" (the paper) or "group": advantages against all n rewards (ablation).
    seed: breaks ties at random and drives the rule "random"; None breaks ties by rollout number, or
        with selection_weights at random, anew in every run.
    scope: "prompt": m of each prompt; "batch": m rows per prompt on average, where they teach most.
    selection_weights: what to select by, by key of the reward function's dictionary ("score": the
        reward itself); None: the reward.
    """

    m: int
    rule: str | Rule = "max_variance"
    baseline: Literal["kept", "group"] = "kept"
    seed: int | None = None
    scope: Literal["prompt", "batch"] = "prompt"
    selection_weights: Mapping[str, float] | None = None

    def seed_of(self, *step: int) -> list[int] | None:
        """What decides ties of a step; None: the rollout's number."""
        if self.seed is not None:
            return [self.seed, *step]
        return None if self.selection_weights is None else [secrets.randbits(32)]

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
        values = np.array([float(parts[name]) for name in self.selection_weights])
        weights = np.array(list(self.selection_weights.values()), dtype=np.float64)
        values = values[weights != 0] * weights[weights != 0]
        return math.nan if np.isnan(values).all() else float(np.nansum(values))


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
            selection_weights=None)
    """
    allowed = [field.name for field in fields(Options)]
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise InvalidInputError(
            f"unknown: {', '.join(where + name for name in unknown)}; allowed:"
            f" {', '.join(where + name for name in allowed)}"
        )
    range_of_m = f"2 <= m <= {n} ({n_name}, the rollouts generated per prompt)"
    m = given.get("m")
    if m is None:
        raise InvalidInputError(f"{where}m is not set; set it to an integer {range_of_m}")
    if not _is_integer(m):
        raise InvalidInputError(f"{where}m={m!r}; allowed: an integer {range_of_m}")
    if m < 2:
        raise InvalidInputError(
            f"{where}m={m}; allowed: {range_of_m}. One rollout has no group to be compared with"
        )
    if m > n:
        raise InvalidInputError(
            f"{where}m={m} rollouts can't be kept of {n_name}={n}; allowed: {range_of_m}, or raise"
            f" {n_name}"
        )
    options = Options(**given)
    resolve_rule(options.rule)
    if options.baseline not in BASELINES:
        raise InvalidInputError(
            f"{where}baseline={options.baseline!r}; allowed: {', '.join(BASELINES)}"
        )
    if options.seed is not None and (not _is_integer(options.seed) or options.seed < 0):
        raise InvalidInputError(f"{where}seed={options.seed!r}; allowed: an integer >= 0, or none")
    if options.scope not in SCOPES:
        raise InvalidInputError(f"{where}scope={options.scope!r}; allowed: {', '.join(SCOPES)}")
    if options.scope == "batch" and options.rule != "max_variance":
        raise InvalidInputError(
            f"{where}rule={options.rule!r} chooses within a prompt, and {where}scope=batch has a"
            " rule of its own: leave the rule out, or set scope=prompt"
        )
    _check_weights(options.selection_weights, where)
    return options


def is_number(value: Any) -> bool:
    """Is it a real number (or a boolean), NaN included?"""
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def _check_weights(weights: Any, where: str) -> None:
    if weights is None:
        return
    allowed = (
        "allowed: numbers by key of the reward function's dictionary, not all 0, such as"
        " {acc: 1.0}; score is the reward itself"
    )
    if not isinstance(weights, Mapping) or not all(
        is_number(weight) and math.isfinite(weight) for weight in weights.values()
    ):
        raise InvalidInputError(f"{where}selection_weights={weights!r}; {allowed}")
    if not any(weights.values()):
        raise InvalidInputError(f"{where}selection_weights={dict(weights)!r} are all 0; {allowed}")


def _is_integer(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)
