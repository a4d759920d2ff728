"""Reward functions whose errors say which function, at which step, for which completion."""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from podsrl.errors import InvalidInputError, PodsError, RewardError
from podsrl.rollout_log.turns import text_of

#: TRL sums the squares of rewards in float32, which ends at 3.4e38.
_HUGE = 1e18
_SHOWN = 200  # characters of a completion
_ALLOWED = "allowed are finite numbers, and None or NaN for a completion that could not be scored"


def checked(function: Any, name: str, next_step: Callable[[], int]) -> Any:
    """A reward function that gives the same rewards as `function`, or says why in a `RewardError`.

    A reward model is returned as it is. Messages name the optimiser step that `next_step` gives.
    """
    if isinstance(function, torch.nn.Module):
        return function
    who = f"reward function {name!r}"

    # TRL passes everything by name, and awaits a function that is a coroutine function.
    async def call_async(*, completions: Sequence[Any], **columns: Any) -> list[float]:
        with _named(who, next_step(), completions):
            values = await function(completions=completions, **columns)
            return _as_rewards(values, who, next_step(), completions)

    def call(*, completions: Sequence[Any], **columns: Any) -> list[float]:
        with _named(who, next_step(), completions):
            values = function(completions=completions, **columns)
            return _as_rewards(values, who, next_step(), completions)

    return call_async if _is_async(function) else call


def _is_async(function: Any) -> bool:
    """Whether a function, a partial of one, or an object that is called, is asynchronous."""
    while isinstance(function, partial):
        function = function.func
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def check_rewards(rewards_R_F: torch.Tensor, names_F: Sequence[str], step: int) -> None:
    """Refuse infinite rewards, which a reward model may give, and those TRL can't square."""
    infinite_F = (rewards_R_F.abs() > _HUGE).any(dim=0).tolist()
    if any(infinite_F):
        names = ", ".join(name for name, bad in zip(names_F, infinite_F, strict=True) if bad)
        raise RewardError(
            f"reward function or model {names} gave a reward beyond {_HUGE:g}, and the squares of"
            f" such ones are too large for float32, at step {step}; {_ALLOWED}. Give smaller ones"
        )


def refuse_twice(names_F: Sequence[str]) -> None:
    """Two reward functions may not have one name: it tells their metrics and columns apart."""
    if twice := sorted({name for name in names_F if names_F.count(name) > 1}):
        raise InvalidInputError(
            f"two reward functions are called {twice[0]!r}, and metrics and logged columns tell"
            " them apart by name only; give each its own __name__ (a functools.partial has that of"
            " its function: write a def around it), a reward model its own folder"
        )


@contextmanager
def _named(who: str, step: int, completions: Sequence[Any]) -> Iterator[None]:
    """Inside, an error of a reward function becomes a `RewardError` that names it."""
    try:
        yield
    except Exception as error:
        in_task_file = isinstance(error, InvalidInputError)  # it says where
        if isinstance(error, PodsError) and not in_task_file:
            raise  # it says all there is to say
        kind = "" if in_task_file else f"{type(error).__name__}: "
        raise RewardError(
            f"{who} failed at step {step}: {kind}{error}. It was given"
            f" {len(completions)} completions, the first of them {_shown(completions[0])}"
        ) from error


def _as_rewards(values: Any, who: str, step: int, completions: Sequence[Any]) -> list[float]:
    """What a function returned as one number per completion, NaN where it gave None."""
    # An array of numpy or torch without a dimension has `__iter__`, too, and can't be iterated.
    is_scalar = getattr(values, "ndim", None) == 0
    is_list = hasattr(values, "__iter__") and not (is_scalar or isinstance(values, str | Mapping))
    rewards = list(values) if is_list else []

    if len(rewards) != len(completions):
        returned = type(values).__name__
        if is_list:
            returned = f"{len(rewards)} rewards for {len(completions)} completions"
        elif is_scalar:
            returned += " without a dimension"
        raise RewardError(
            f"{who} returned {returned} at step {step}; it must return a list with one reward per"
            f" completion, here {len(completions)}, the first for {_shown(completions[0])}"
        )

    return [
        _as_reward(value, who, step, completion)
        for value, completion in zip(rewards, completions, strict=True)
    ]


def _as_reward(value: Any, who: str, step: int, completion: Any) -> float:
    if value is None:
        return math.nan
    reward = _as_float(value)
    if reward is not None and not math.isinf(reward):
        return reward

    problem = "which is no number" if reward is None else "which is infinite"
    raise RewardError(
        f"{who} returned {value!r:.80} at step {step}, {problem}; {_ALLOWED}. It was for the"
        f" completion {_shown(completion)}"
    )


def _as_float(value: Any) -> float | None:
    """A number of Python, numpy or torch as a float; None of what is no number, such as "1"."""
    if isinstance(value, str | bytes):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def _shown(completion: Any) -> str:
    text = text_of(completion)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
