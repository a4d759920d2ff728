"""A tool for verl's own agent loop, which loads this file by its path."""

from verl.tools.function_tool import function_tool


@function_tool
def double(a: int) -> str:
    """Double a number.

    Args:
        a: The number.
    """
    return str(2 * a)
