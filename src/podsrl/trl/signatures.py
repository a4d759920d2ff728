"""A wrapped method shows the parameters of the host's own."""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, ParamSpec

_Parameters = ParamSpec("_Parameters")


def with_parameters_of(
    original: Callable[_Parameters, Any],
) -> Callable[[Callable[..., None]], Callable[_Parameters, None]]:
    """Show editors, type checkers and `inspect` the parameters of `original`.

    So what a version of the host adds is known without being listed here.
    """

    def decorate(function: Callable[..., None]) -> Callable[_Parameters, None]:
        return update_wrapper(function, original, assigned=(), updated=())

    return decorate
