"""How to down-sample, as a mapping from the config of a host that has no config class of ours."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from podsrl.advantages import BASELINES
from podsrl.downsampling import resolve_rule
from podsrl.errors import InvalidInputError


@dataclass(frozen=True)
class Options:
    """Checked options.

    m: rollouts per prompt that the update sees.
    rule: a name in `podsrl.RULES`, "module:function" or "file.py:function".
    baseline: "kept" (the paper) or "group": advantages against all n rewards (ablation).
    seed: breaks ties at random and drives the rule "random"; None breaks ties by rollout number.
    """

    m: int
    rule: str = "max_variance"
    baseline: Literal["kept", "group"] = "kept"
    seed: int | None = None


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

    >>> check_options({"m": 4}, n=8, where="pods.", n_name="n")
    Options(m=4, rule='max_variance', baseline='kept', seed=None)
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
    return options


def _is_integer(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)
