"""Methods: complete settings by name. `pods` is the paper's, and what is used where none is named.

A method says which rule chooses, how many rollouts are generated and kept, what advantages are
compared with, and whether passes of rows without gradient are spared. A setting that is given
explicitly wins, unless it contradicts what the name stands for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podsrl.errors import (
    FieldError,
    InvalidInputError,
    UnknownNameError,
    fields_named,
    suggestion,
)
from podsrl.rules import RULES, RuleName
from podsrl.selection import Selection

#: What the user sets in the config of a host that has no config class of podsrl's.
OPTIONS = ("method", "m", "rule", "baseline", "seed", "selection_weights")


@dataclass(frozen=True)
class Method:
    """A complete setting.

    Args:
        summary: What it trains on, for lists of methods.
        source: The paper that it comes from.
        selection: The sizes where neither is given, the rule, and the baseline. Where one size is
            given, the other follows by their ratio. The rule is part of what the name stands for.
        fixed_sizes: Whether the sizes are part of what the name stands for.
        skip_zero_advantage: Whether passes of zero-advantage rows are spared where they can be;
            None: where rollouts are dropped.
        compares_with_rounds: Whether its baseline is over what rounds have generated until they
            stopped, as its paper has it, and not over all n.
    """

    summary: str
    source: str
    selection: Selection
    fixed_sizes: bool = False
    skip_zero_advantage: bool | None = None
    compares_with_rounds: bool = False

    @property
    def keeps_all(self) -> bool:
        """Whether it trains on all rollouts, so that n = m."""
        return self.selection.keeps_all

    @property
    def rollouts_per_kept(self) -> int:
        """The number of generated rollouts for each kept one."""
        return self.selection.num_rollouts // self.selection.num_kept

    def spares_passes(self, drops: bool) -> bool:
        """Whether passes of zero-advantage rows are spared, where it is not said and can be.

        Args:
            drops: Whether rollouts are dropped with the sizes that are used.
        """
        return drops if self.skip_zero_advantage is None else self.skip_zero_advantage


METHODS: dict[str, Method] = {
    "pods": Method(
        summary="of each prompt's rollouts those whose rewards have the largest variance",
        source="PODS, arXiv 2504.13818",
        selection=Selection(32, 8),
    ),
    "grpo": Method(
        summary="all rollouts: the host's own GRPO",
        source="DeepSeekMath, arXiv 2402.03300",
        selection=Selection(8, 8),
        skip_zero_advantage=False,
    ),
    "2-grpo": Method(
        summary="two rollouts of each prompt, without passes over pairs of equal reward",
        source="2-GRPO, arXiv 2510.00977",
        selection=Selection(2, 2),
        fixed_sizes=True,
        skip_zero_advantage=True,
    ),
    "max_contrast": Method(
        summary="rows of the whole batch, with the largest sum of the prompts' contrasts",
        source="podsrl, with the baseline of arXiv 2510.04996",
        selection=Selection(4, 1, rule="max_contrast", baseline="group"),
    ),
    "rejection-sampling": Method(
        summary="the best rollout of each prompt, so right answers alone",
        source="RAFT, arXiv 2504.11343",
        selection=Selection(4, 1, rule="max_reward", baseline="group"),
    ),
    "dynamic-sampling": Method(
        summary="whole groups whose rewards are not all equal",
        source="DAPO, arXiv 2503.14476",
        selection=Selection(8, 2, rule="dynamic_sampling"),
    ),
    "cppo": Method(
        summary="rows of the whole batch, with the largest absolute advantages",
        source="CPPO, arXiv 2503.22342",
        selection=Selection(16, 4, rule="top_advantage", baseline="group"),
    ),
    "reinforce-ada": Method(
        summary="as many right as wrong rollouts of each prompt, as far as there are",
        source="Reinforce-Ada, arXiv 2510.04996",
        selection=Selection(16, 4, rule="balanced", baseline="group"),
        compares_with_rounds=True,
    ),
    "d3s": Method(
        summary="rows of the whole batch whose advantages have the largest variance",
        source="D3S, arXiv 2509.22115",
        selection=Selection(8, 2, rule="advantage_variance", baseline="group"),
    ),
    "ragen-2": Method(
        summary="whole groups with the largest variance of rewards",
        source="RAGEN-2, arXiv 2604.06268",
        selection=Selection(8, 4, rule="variance_top_p"),
    ),
}
#: The name of settings that are no method's.
CUSTOM = "custom"


def resolve_method(name: str) -> Method:
    """The method of a name; "-" and "_" are alike.

    Raises:
        UnknownNameError: There is no such method; the message lists them or suggests one.

    >>> resolve_method("rejection_sampling").selection.rule
    'max_reward'
    """
    return METHODS[known_name(name)]


def complete_selection(
    method: str | None = None,
    *,
    num_rollouts: int | None = None,
    num_kept: int | None = None,
    rule: RuleName | None = None,
    baseline: str | None = None,
    seed: int | None = None,
    selection_weights: Mapping[str, float] | None = None,
) -> Selection:
    """Complete explicit settings by those of a method.

    Args:
        method: Its name. None: `pods`; or, with a rule, the paper's sizes and baseline with it.
        num_rollouts, num_kept, rule, baseline: What is given explicitly; None where it is not.
        seed, selection_weights: As in `Selection`; no method has any.

    Returns:
        The selection, with the name of the method that it is: the one that was given, else the one
        that has this rule and baseline, else "custom".

    Raises:
        UnknownNameError: There is no such method or rule.
        FieldError: A setting contradicts what the method's name stands for, or sizes that don't
            follow from each other; or as `Selection`.

    >>> selection = complete_selection("max_contrast", num_kept=2)
    >>> selection.num_rollouts, selection.rule, selection.baseline
    (8, 'max_contrast', 'group')
    """
    if method is None:
        name = None
        base = METHODS["pods"]
    else:
        name = known_name(method)
        base = METHODS[name]
        _check_rule_of(name, base, rule)

    n, m = _sizes(base, num_rollouts, num_kept)
    if name is not None:
        _check_sizes_of(name, base, n, m)

    if name == "rejection-sampling" and baseline == "kept":
        raise FieldError(
            "$method='rejection-sampling' keeps the best rollouts, and with $baseline='kept' they"
            " are compared with each other, so that right answers teach nothing; leave out"
            " $baseline",
        )
    selection = Selection(
        num_rollouts=n,
        num_kept=m,
        rule=base.selection.rule if rule is None else rule,
        baseline=base.selection.baseline if baseline is None else baseline,  # type: ignore[arg-type]
        seed=seed,
        selection_weights=selection_weights,
    )
    return replace(selection, method=name or method_of(selection))


def method_of(selection: Selection) -> str:
    """The name of the method that a selection is, for logs; "custom" if it is none's.

    >>> method_of(Selection(32, 8))
    'pods'
    """
    if selection.method:
        return selection.method
    if selection.keeps_all:
        return "grpo"
    for name, method in METHODS.items():
        own = method.selection
        is_alike = (own.rule, own.baseline) == (selection.rule, selection.baseline)
        if is_alike and not own.keeps_all:
            return name
    return CUSTOM


def selection_from_options(
    options: Mapping[str, Any],
    num_rollouts: int,
    *,
    where: str,
    n_name: str,
    of_host: Sequence[str] = (),
) -> Selection:
    """The selection that a mapping in a host's config asks for, by the keys of `OPTIONS`.

    Messages name an option with `where` before it, and the number of rollouts as `n_name`. Options
    `of_host` are allowed, too; the host reads them.

    Raises:
        InvalidInputError, UnknownNameError: As `Selection` and `complete_selection`; or an option
            is unknown.

    >>> selection_from_options({"m": 4}, 8, where="pods.", n_name="n").num_kept
    4
    >>> selection_from_options({}, 64, where="pods.", n_name="n").num_kept
    16
    """
    names = {name: where + name for name in (*OPTIONS, *of_host)}
    if unknown := [where + name for name in sorted(set(options) - set(names))]:
        raise InvalidInputError(
            f"unknown: {', '.join(unknown)}; allowed: {', '.join(names.values())}"
        )

    names |= {"num_kept": names["m"], "num_rollouts": n_name}
    with fields_named(names):
        return complete_selection(
            options.get("method"),
            num_rollouts=num_rollouts,
            num_kept=options.get("m"),
            rule=options.get("rule"),
            baseline=options.get("baseline"),
            seed=options.get("seed"),
            selection_weights=options.get("selection_weights"),
        )


def known_name(name: Any) -> str:
    """A method's name as `METHODS` has it; "-" and "_" are alike, and so are cases.

    Raises:
        UnknownNameError: There is no such method; the message lists them or suggests one.

    >>> known_name("Rejection_Sampling")
    'rejection-sampling'
    """
    asked = str(name).lower().replace("_", "-")
    for known, method in METHODS.items():
        if known.replace("_", "-") == asked:
            return known
        if method.source.lower().startswith(f"{asked},"):  # such as "DAPO, arXiv 2503.14476"
            raise UnknownNameError(f"unknown method {name!r}; did you mean {known!r}?")
    if asked == "grpo-ga":
        raise UnknownNameError(
            f"unknown method {name!r}; GRPO-GA is method 'grpo' with as many rollouts as PODS"
            " generates, and more gradient_accumulation_steps"
        )
    if str(name) in RULES:
        raise UnknownNameError(
            f"unknown method {name!r}; that is a rule: give it as the rule, without a method"
        )
    every = f"the methods are {', '.join(METHODS)}"
    raise UnknownNameError(f"unknown method {name!r}; {suggestion(name, METHODS, every)}")


def _sizes(base: Method, n: Any, m: Any) -> tuple[Any, Any]:
    """Both sizes: as they are given, or one by the other, or the method's own.

    What is no integer stays as it is, on both sides: `Selection` refuses it by its name.
    """
    n = _as_own_integer(n)
    m = _as_own_integer(m)
    ratio = base.rollouts_per_kept
    if n is None and m is None:
        return base.selection.num_rollouts, base.selection.num_kept
    if n is None:
        return (m * ratio if isinstance(m, int) else m), m
    if m is None and isinstance(n, int) and n % ratio == 0:
        return n, n // ratio
    if m is None:
        raise FieldError(
            "$num_kept is not set, and $num_rollouts=$given is no multiple of"
            f" {ratio}, the rollouts of the method for each that it keeps; set $num_kept",
            given=n,
        )
    return n, m


def _as_own_integer(size: Any) -> Any:
    """An integer of numpy, as a sweep over an array gives one, as Python's own; else as it is.

    numpy's is no `int`, and can't be saved as JSON.
    """
    return int(size) if isinstance(size, np.integer) else size


def _check_rule_of(name: str, method: Method, rule: RuleName | None) -> None:
    if rule is None or rule == method.selection.rule:
        return
    if method.keeps_all:
        raise FieldError(
            "$method=$name trains on all rollouts, and $rule=$given has nothing to choose; leave"
            " out one of them",
            name=repr(name),
            given=repr(rule),
        )
    raise FieldError(
        "$method=$name chooses by $rule=$own, and $rule=$given was given; leave out one of them",
        name=repr(name),
        own=repr(method.selection.rule),
        given=repr(rule),
    )


def _check_sizes_of(name: str, method: Method, n: Any, m: Any) -> None:
    if n == m and not method.keeps_all and name != "pods":
        raise FieldError(
            "$method=$name chooses among rollouts, and $given of $given are kept; raise"
            " $num_rollouts above $num_kept, or take $method='grpo'",
            name=repr(name),
            given=m,
        )
    if method.keeps_all and n != m:
        raise FieldError(
            "$method=$name trains on all rollouts, so $num_rollouts and $num_kept are the same"
            f" number; got {n} and {m}",
            name=repr(name),
        )
    own = method.selection.num_rollouts
    if method.fixed_sizes and n != own:
        raise FieldError(
            f"$method=$name has {own} rollouts of each prompt; got {n} by"
            " $num_rollouts or $num_kept; $method='grpo' takes any number",
            name=repr(name),
        )
