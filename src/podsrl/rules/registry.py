"""The definition of a rule, and the rules by name: podsrl's own and those of users."""

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from podsrl.errors import InvalidInputError, UnknownNameError, suggestion
from podsrl.plugins import import_module_or_file

Scope = Literal["prompt", "batch"]
KeptAtBounds = Callable[[int], tuple[int, int]]  # of m
IsFull = Callable[[Any, int], bool]  # of rewards_P_N and rows
Weights = Callable[..., Any]  # of rewards_P_N, kept_P_N and the rule's options


@dataclass(eq=False)
class Rule:
    """A pure function from rewards to what is kept, with what it says of itself.

    A *prompt rule* keeps m rollouts of each prompt: `function(rewards_P_N, m, seed)` returns
    kept_P_M, m different integer indices of each group. A *batch rule* keeps rows across prompts:
    `function(rewards_P_N, rows, seed)` returns kept_P_N, booleans with exactly `rows` true. Rewards
    are float64 of shape (P, N), NaN where a rollout could not be scored.

    Args:
        function: The pure function. A Rule is called like it.
        scope: What it chooses among: the rollouts of one "prompt", or the rows of the "batch".
        least_kept: The smallest m that makes sense; for a batch rule m is a mean over prompts.
            A rule that keeps a spread of rewards needs 2.
        needs_group_baseline: Whether it leaves rows alone in their group where m is 1. Such a row
            has nothing to be compared with, except all n rollouts of its group.
        source: The paper that it comes from.
        kept_at_bounds: How many of the lowest and how many of the highest possible rewards are kept
            of a group that has as many, for m; None for a rule that may keep others then. It is a
            function of a module, and says when a choice is decided (`is_decided`).
        is_full: Whether a batch rule that takes groups one after the other has filled its rows, so
            that it takes none of those that come later; None for a rule that compares all groups.
            It is a function of a module of (rewards_P_N, rows), for `is_decided_batch`.
        weights: What the advantages of kept rollouts are multiplied by: a pure function of
            (rewards_P_N, kept_P_N) that returns weights_P_N, numbers of at least 0. With chances of
            being kept that are unequal, their inverses undo what the choice favours. None: by 1.
        options: Arguments of the function's own that are given, as in "band(low=0.1)". The function
            of the weights gets them, too.
    """

    function: Callable[..., Any]
    scope: Scope = "prompt"
    least_kept: int = 1
    needs_group_baseline: bool = True
    source: str = ""
    kept_at_bounds: KeptAtBounds | None = None
    is_full: IsFull | None = None
    weights: Weights | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Its name and docstring; not its attributes, which may be those of another rule.
        functools.update_wrapper(self, self.function, updated=())

    def __call__(self, rewards_P_N: Any, count: int, seed: Any = None) -> Any:
        """Keep `count` rollouts of each prompt, or `count` rows of the batch."""
        return self.function(rewards_P_N, count, seed, **self.options)

    def __reduce__(self) -> Any:
        # A process that receives a rule imports it by its name, as it would a plain function. Its
        # function can't be imported where the decorator put the rule into the function's place.
        qualified = str(getattr(self, "__qualname__", ""))
        importable = getattr(sys.modules.get(self.__module__), qualified, None)
        if importable is self:
            return qualified
        if isinstance(importable, Rule) and importable.function is self.function:
            return _with_options, (importable, self.options)

        # One that was made of a plain function is made of it again.
        declared = (self.scope, self.least_kept, self.needs_group_baseline, self.source)
        functions = (self.kept_at_bounds, self.is_full, self.weights)
        return Rule, (self.function, *declared, *functions, self.options)

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self, "__name__", "a rule"))

    @property
    def across_prompts(self) -> bool:
        """Whether it is a batch rule."""
        return self.scope == "batch"

    @property
    def arguments(self) -> tuple[str, str, str]:
        """The names of the arguments that the function is called with."""
        return ("rewards_P_N", "rows" if self.across_prompts else "m", "seed")


#: What a user may give for a rule: a name, "module:function", "file.py:function", or a callable.
RuleName = str | Rule | Callable[..., Any]

RULES: dict[str, Rule] = {}


def rule(
    *,
    scope: Scope = "prompt",
    least_kept: int = 1,
    needs_group_baseline: bool | None = None,
    source: str = "",
    kept_at_bounds: KeptAtBounds | None = None,
    is_full: IsFull | None = None,
    weights: Weights | None = None,
) -> Callable[[Callable[..., Any]], Rule]:
    """Make a `Rule` of a function; the arguments are those of `Rule`.

    By default `needs_group_baseline` is True for a prompt rule, and False for a batch rule.

    Raises:
        InvalidInputError: Another scope than "prompt" or "batch".

    >>> import numpy as np
    >>> @rule(scope="batch")
    ... def first_prompts(rewards_P_N, rows, seed=None):
    ...     return np.arange(rewards_P_N.size).reshape(rewards_P_N.shape) < rows
    >>> first_prompts.across_prompts
    True
    """
    if scope not in ("prompt", "batch"):
        raise InvalidInputError(f"a rule's scope is 'prompt' or 'batch'; got {scope!r}")
    if needs_group_baseline is None:
        needs_group_baseline = scope == "prompt"

    def make(function: Callable[..., Any]) -> Rule:
        return Rule(
            function,
            scope=scope,
            least_kept=least_kept,
            needs_group_baseline=needs_group_baseline,
            source=source,
            kept_at_bounds=kept_at_bounds,
            is_full=is_full,
            weights=weights,
        )

    return make


def register_rule(name: str, rule: Rule | Callable[..., Any]) -> None:
    """Register a rule under a name; a plain function becomes a prompt rule.

    A definition that runs again, such as in a cell of a notebook, replaces the earlier one.

    Raises:
        InvalidInputError: The name is taken by another rule, or the rule is not callable.

    >>> import numpy as np, podsrl
    >>> def first(rewards_P_N, m, seed):
    ...     return np.broadcast_to(np.arange(m), (len(rewards_P_N), m))
    >>> podsrl.register_rule("first", first)
    >>> podsrl.downsample([0.0, 1.0, 2.0], 2, rule="first")
    [0, 1]
    >>> del podsrl.RULES["first"]
    """
    if not callable(rule):
        raise InvalidInputError(f"a rule is a callable (rewards_P_N, m, seed); got {rule!r}")

    new = _as_rule(rule)
    known = RULES.get(name)
    if known is not None and _origin(known) != _origin(new):
        raise InvalidInputError(
            f"the rule name {name!r} is taken; choose another than {', '.join(RULES)}"
        )
    RULES[name] = new


def resolve_rule(rule: RuleName) -> Rule:
    """The rule for a name in `RULES`, "module:function", "file.py:function", or a callable.

    Arguments of its own may follow in brackets, as in "file.py:band(low=0.1, high=0.9)".

    Raises:
        UnknownNameError: There is no such rule.
        InvalidInputError: It does not take the arguments that it would be called with.

    >>> resolve_rule("max_contrast").scope
    'batch'
    """
    options: dict[str, Any] = {}
    if callable(rule):
        resolved = _as_rule(rule)
    else:
        name, options = _split(str(rule))
        resolved = RULES[name] if name in RULES else _load(name, str(rule))

    _check_signature(resolved, rule, options)
    return _with_options(resolved, options) if options else resolved


def rule_name(rule: RuleName) -> str:
    """A rule as messages name it."""
    return repr(rule if isinstance(rule, str) else getattr(rule, "__qualname__", rule))


def _as_rule(rule: Rule | Callable[..., Any]) -> Rule:
    return rule if isinstance(rule, Rule) else Rule(rule)


def _with_options(rule: Rule, options: Mapping[str, Any]) -> Rule:
    """A rule with these arguments of its own, besides those that it was given before."""
    return replace(rule, options={**rule.options, **options})


def _check_signature(rule: Rule, name: RuleName, options: Mapping[str, Any]) -> None:
    """Refuse a function that can't be called with what it will be called with."""
    try:
        signature = inspect.signature(rule.function)
    except ValueError:  # a function of C has none
        return
    try:
        signature.bind(*rule.arguments, **options)
    except TypeError as error:
        raise InvalidInputError(
            f"rule {rule_name(name)} must take ({', '.join([*rule.arguments, *options])}); it takes"
            f" ({', '.join(signature.parameters)})"
        ) from error


def _split(rule: str) -> tuple[str, dict[str, Any]]:
    """A rule's name, and the arguments in the brackets that may follow it."""
    name, bracket, inside = rule.partition("(")
    if not bracket:
        return rule, {}
    try:
        call = ast.parse(f"f({inside}", mode="eval").body  # the closing bracket is in `inside`
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError("no arguments by name")
        options = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise InvalidInputError(
            f"rule {rule!r}: its arguments must be written as name(low=0.1, high=0.9)"
        ) from error
    return name.strip(), options


def _load(name: str, whole_name: str) -> Rule:
    """A rule of the user's own, from "module:function" or "file.py:function".

    Messages quote the whole name, with the arguments that may follow it.
    """
    where, _, attribute = name.rpartition(":")
    if not where:
        all_of_them = (
            f"the rules are {', '.join(RULES)}, and your own is given as 'file.py:function',"
            " 'module:function' or a callable"
        )
        raise UnknownNameError(
            f"unknown rule {whole_name!r}; {suggestion(name, RULES, all_of_them)}"
        )

    function = getattr(import_module_or_file(where), attribute, None)
    if not callable(function):
        raise UnknownNameError(f"rule {whole_name!r}: {where} has no function {attribute!r}")
    return _as_rule(function)


def _origin(rule: Rule) -> tuple[Any, ...]:
    """Where a rule is defined; of a lambda and what else has no name there, the function itself.

    The name is that of the code, since a wrapper takes over the function's own. Python writes
    "<lambda>", and "<locals>" into the name of a function that is made inside another one.
    """
    code = getattr(rule.function, "__code__", None)
    name = getattr(code, "co_qualname", None)
    if name is None or "<" in name:
        return (rule.function, rule.options)
    return (rule.function.__module__, name, rule.options)
