"""Rules by name: one registry for group rules and batch rules, and for those of users."""

import ast
import functools
import inspect
from collections.abc import Callable
from typing import Any

from podsrl.errors import InvalidInputError, UnknownNameError, suggestion
from podsrl.plugins import import_module_or_file

#: A group rule is called as rule(rewards_P_N, m, seed) and returns kept_P_M, m different integer
#: indices of each group. A batch rule is called as rule(rewards_P_N, rows, seed) and returns
#: kept_P_N, booleans with exactly `rows` true. Rewards are float64, NaN where unscorable; hosts
#: give numpy arrays.
Rule = Callable[..., Any]

RULES: dict[str, Rule] = {}


def batch_rule(rule: Rule) -> Rule:
    """Mark a function as a batch rule: it keeps rows across prompts.

    >>> import numpy as np
    >>> @batch_rule
    ... def first_prompts(rewards_P_N, rows, seed=None):
    ...     return np.arange(rewards_P_N.size).reshape(rewards_P_N.shape) < rows
    >>> is_batch_rule(first_prompts)
    True
    """
    rule.keeps_rows_across_prompts = True  # type: ignore[attr-defined]
    return rule


def is_batch_rule(rule: Rule) -> bool:
    """Whether a rule keeps rows across prompts."""
    return bool(getattr(getattr(rule, "func", rule), "keeps_rows_across_prompts", False))


def register_rule(name: str, rule: Rule) -> None:
    """Make a group rule, or one marked by `batch_rule`, known under a name of its own.

    A definition that is run once more, as a cell of a notebook, replaces the former one.

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
    if _origin(RULES.get(name, rule)) != _origin(rule):
        raise InvalidInputError(
            f"the rule name {name!r} is taken; choose another than {', '.join(RULES)}"
        )
    RULES[name] = rule


def resolve_rule(rule: str | Rule) -> Rule:
    """The rule for a name in `RULES`, "module:function", "file.py:function", or a callable.

    Arguments of its own may follow in brackets, as in "file.py:band(low=0.1, high=0.9)".
    """
    rows = {True: "rows", False: "m"}
    return resolve(rule, RULES, lambda found: ["rewards_P_N", rows[is_batch_rule(found)], "seed"])


def resolve(rule: Any, known: dict[str, Rule], wanted: Callable[[Rule], list[str]]) -> Rule:
    """As `resolve_rule`, of the rules that are `known`; each is called with what is `wanted`."""
    arguments: dict[str, Any] = {}
    if callable(rule):
        found = rule
    else:
        name, arguments = _split(str(rule))
        found = known[name] if name in known else _load(name, str(rule), known)
    try:
        signature = inspect.signature(found)
        signature.bind(*wanted(found), **arguments)
    except ValueError:  # a function of C has none
        pass
    except TypeError as error:
        raise InvalidInputError(
            f"rule {rule!r} must take ({', '.join([*wanted(found), *arguments])}); it takes"
            f" ({', '.join(signature.parameters)})"
        ) from error
    return functools.partial(found, **arguments) if arguments else found


def _split(rule: str) -> tuple[str, dict[str, Any]]:
    """A rule's name, and the arguments in the brackets that may follow it."""
    name, bracket, inside = rule.partition("(")
    if not bracket:
        return rule, {}
    try:
        call = ast.parse(f"f({inside}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError("no arguments by name")
        return name.strip(), {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise InvalidInputError(
            f"rule {rule!r}: its arguments must be written as name(low=0.1, high=0.9)"
        ) from error


def _load(name: str, rule: str, known: dict[str, Rule]) -> Rule:
    where, _, attribute = name.rpartition(":")
    if not where:
        all_of_them = (
            f"the rules are {', '.join(known)}, and your own is given as 'file.py:function',"
            " 'module:function' or a callable"
        )
        raise UnknownNameError(f"unknown rule {rule!r}; {suggestion(name, known, all_of_them)}")
    found = getattr(import_module_or_file(where), attribute, None)
    if not callable(found):
        raise UnknownNameError(f"rule {rule!r}: {where} has no function {attribute!r}")
    return found


def _origin(rule: Rule) -> tuple[Any, ...]:
    """Where a rule is defined; of a lambda and what else has no name there, the rule itself."""
    name = getattr(getattr(rule, "__code__", None), "co_qualname", "<")
    return (rule,) if "<" in name else (rule.__module__, name)
