"""Rules by name, and `downsample`, the one door to all of them."""

import inspect
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array

from podsrl.downsampling import baselines
from podsrl.downsampling.max_variance import max_variance
from podsrl.downsampling.ordering import Array, Seed
from podsrl.errors import InvalidInputError, UnknownNameError, suggestion
from podsrl.plugins import import_module_or_file, user_code

# rule(rewards_P_N, m, seed) -> kept_P_M; float64 rewards with NaN for unscorable, integer indices.
Rule = Callable[[Array, int, Seed], Array]

RULES: dict[str, Rule] = {
    "max_variance": max_variance,
    "max_reward": baselines.max_reward,
    "random": baselines.random,
    "percentile": baselines.percentile,
}
_BUILT_IN = frozenset(RULES.values())


def register_rule(name: str, rule: Rule) -> None:
    """Make `rule` known under `name` everywhere a rule's name is accepted.

    Args:
        name: a new name; those in `RULES` are taken. A definition that is run once more, as a cell
            of a notebook, replaces the former one.
        rule: called as rule(rewards_P_N, m, seed), returns kept_P_M: m different indices per group.

    Raises:
        InvalidInputError: the name is taken by another rule, or the rule is not callable.

    >>> import podsrl
    >>> def first(rewards_P_N, m, seed):
    ...     return np.broadcast_to(np.arange(m), (len(rewards_P_N), m))
    >>> podsrl.register_rule("first", first)
    >>> podsrl.downsample([0.0, 1.0, 2.0], 2, rule="first")
    [0, 1]
    >>> del podsrl.RULES["first"]
    """
    if not callable(rule):
        raise InvalidInputError(f"a rule is a callable (rewards_P_N, m, seed); got {rule!r}")
    if not _same(RULES.get(name, rule), rule):
        raise InvalidInputError(f"the rule name {name!r} is taken; choose another than {_names()}")
    RULES[name] = rule


def _same(old: Rule, new: Rule) -> bool:
    """Are they one rule, or one function's definition that was run twice?"""
    if not isinstance(old, FunctionType) or not isinstance(new, FunctionType) or old in _BUILT_IN:
        return old == new
    here, there = ((one.__module__, one.__qualname__) for one in (old, new))
    return old is new or (here == there and "<" not in here[1] and not hasattr(new, "__wrapped__"))


def resolve_rule(rule: str | Rule) -> Rule:
    """The rule for a name in `RULES`, "module:function", "file.py:function", or a callable.

    Raises:
        UnknownNameError: nothing of that name; the message lists what there is.
    """
    if callable(rule):
        return rule
    if rule in RULES:
        return RULES[rule]
    where, _, attribute = str(rule).rpartition(":")
    if not where:
        all_of_them = (
            f"the rules are {_names()}, and your own is given as 'file.py:function',"
            " 'module:function' or a callable"
        )
        raise UnknownNameError(f"unknown rule {rule!r}; {suggestion(rule, RULES, all_of_them)}")
    try:
        found = getattr(import_module_or_file(where), attribute, None)
    except UnknownNameError as error:
        raise UnknownNameError(f"rule {rule!r}: {error}") from error
    if not callable(found):
        raise UnknownNameError(f"rule {rule!r}: {where} has no function {attribute!r}")
    _check_signature(found, rule)
    return found


def _check_signature(function: Callable[..., Any], rule: str | Rule) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # a function of C has none
        return
    try:
        signature.bind("rewards_P_N", "m", "seed")
    except TypeError as error:
        raise InvalidInputError(
            f"rule {rule!r} must take (rewards_P_N, m, seed); it takes {signature}"
        ) from error


def downsample(
    rewards_P_N: Any, m: int, rule: str | Rule = "max_variance", seed: Seed = None
) -> Any:
    """Indices of the m rollouts to keep in each group.

    Args:
        rewards_P_N: rewards, shape (..., n): leading dimensions are batch, the last is the group.
            A numpy array, a torch tensor on any device, or nested lists. NaN (or None in a list)
            means "could not be scored": such a rollout is kept only when fewer than m others exist.
        m: rollouts to keep per group, 1 <= m <= n.
        rule: a name in `RULES`, "file.py:function", "module:function", or a callable
            (rewards_P_N, m, seed) -> kept_P_M.
        seed: breaks ties at random and drives the rule "random"; None breaks ties by lowest index.

    Returns:
        Integer indices, shape (..., m), ascending along the last axis, of the same kind and on the
        same device as `rewards_P_N`.

    Raises:
        InvalidInputError: infinite rewards, m < 1, m > n, wrong rank; or a rule of yours returned
            something else than m different indices per group, raised, or takes other arguments.
        UnknownNameError: no such rule.

    Checking for infinite rewards is the only thing here that waits for a GPU.

    >>> downsample([[0.0, 0.0, 0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.1, 0.9, 1.0, 0.5]], m=2)
    [[0, 4], [0, 4]]
    """
    rewards, as_lists = as_rewards(rewards_P_N)
    xp = array_namespace(rewards)
    m = _check_m(m, int(rewards.shape[-1]))
    select = resolve_rule(rule)
    home = device(rewards)
    if is_torch_array(rewards) and rewards.device.type == "mps":
        rewards = rewards.cpu()  # MPS has no float64
    shape = tuple(rewards.shape)
    groups = int(np.prod(shape[:-1], dtype=np.int64))
    flat_P_N = xp.reshape(xp.astype(rewards, xp.float64, copy=False), (groups, shape[-1]))
    refuse_infinite(flat_P_N)
    if select in _BUILT_IN:
        kept = select(flat_P_N, m, seed)
    else:
        _check_signature(select, rule)
        with user_code(_file_of(select), f"rule {_name_of(rule)} failed"):
            kept = select(flat_P_N, m, seed)
        kept = _check_kept(kept, flat_P_N, m, rule)
    kept = xp.sort(xp.astype(kept, xp.int64), axis=-1, stable=False)
    kept = xp.reshape(kept, (*shape[:-1], m))
    if as_lists:
        return kept.tolist()
    return kept.to(home) if is_torch_array(kept) else kept


def _file_of(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return code.co_filename if code else "a function of C"


def _name_of(rule: str | Rule) -> str:
    return repr(rule if isinstance(rule, str) else getattr(rule, "__qualname__", rule))


def _names() -> str:
    return ", ".join(RULES)


def as_rewards(rewards: Any) -> tuple[Array, bool]:
    """Rewards as an array of real numbers, and whether they came as lists."""
    as_lists = isinstance(rewards, (list, tuple))
    if as_lists:
        try:
            rewards = np.asarray(rewards, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                "rewards in lists must be numbers (or None) in groups of one length; "
                f"numpy says: {error}"
            ) from error
    try:
        xp = array_namespace(rewards)
    except TypeError as error:
        raise InvalidInputError(
            f"rewards must be a numpy array, a torch tensor or nested lists; got {type(rewards)}"
        ) from error
    if rewards.ndim < 1 or rewards.shape[-1] < 1:
        raise InvalidInputError(
            f"rewards must have shape (..., n) with n >= 1; got {tuple(rewards.shape)}"
        )
    if not xp.isdtype(rewards.dtype, ("bool", "integral", "real floating")):
        raise InvalidInputError(f"rewards must be real numbers; got dtype {rewards.dtype}")
    return rewards, as_lists


def refuse_infinite(rewards: Array) -> None:
    """Raise InvalidInputError if a reward is infinite."""
    xp = array_namespace(rewards)
    if bool(xp.any(xp.isinf(rewards))):
        raise InvalidInputError(
            "rewards contain an infinite value; allowed are finite numbers, and NaN for a rollout"
            " that could not be scored"
        )


def _check_m(m: int, n: int) -> int:
    try:
        m = operator.index(m)
    except TypeError as error:
        raise InvalidInputError(f"m must be an integer; got {m!r}") from error
    if not 1 <= m <= n:
        raise InvalidInputError(
            f"m = {m} rollouts can't be kept of n = {n}; allowed is 1 <= m <= {n}"
        )
    return m


def _check_kept(kept: Any, flat_P_N: Array, m: int, rule: str | Rule) -> Array:
    xp = array_namespace(flat_P_N)
    groups, n = flat_P_N.shape
    kept = xp.asarray(kept, device=device(flat_P_N))
    problem = ""
    if tuple(kept.shape) != (groups, m) or not xp.isdtype(kept.dtype, "integral"):
        problem = f"got shape {tuple(kept.shape)} of {kept.dtype}"
    elif groups and (int(xp.min(kept)) < 0 or int(xp.max(kept)) >= n):
        problem = f"got indices from {int(xp.min(kept))} to {int(xp.max(kept))}"
    else:
        ascending = xp.sort(kept, axis=-1)
        if bool(xp.any(ascending[:, 1:] == ascending[:, :-1])):
            problem = "got the same index twice in a group"
    if problem:
        raise InvalidInputError(
            f"rule {rule!r} must return integers of shape ({groups}, {m}), different within a group"
            f" and in 0..{n - 1}; {problem}"
        )
    return kept
